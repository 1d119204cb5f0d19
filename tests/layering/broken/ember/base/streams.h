#pragma once

#include <iosfwd>
#include <sstream>
