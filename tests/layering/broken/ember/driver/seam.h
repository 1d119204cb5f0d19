#pragma once

#include <cuda_runtime_api.h>

#include "ember/base/good.h"
#include "ember/driver/sim/sideways.h"
#include "ember/everything.h"
