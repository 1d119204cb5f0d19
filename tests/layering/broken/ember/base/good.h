#pragma once

#include <cstdint>

#include "ember/version.h"
