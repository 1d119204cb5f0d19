#pragma once

#include <cuda.h>
#include <nvml.h>

#include "ember/base/good.h"
#include "ember/driver/seam.h"
