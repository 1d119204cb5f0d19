#pragma once

#include "ember/base/good.h"
#include "ember/driver/seam.h"
