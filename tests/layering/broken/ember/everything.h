#pragma once

#include "ember/base/good.h"
#include "ember/driver/cuda/good.h"
