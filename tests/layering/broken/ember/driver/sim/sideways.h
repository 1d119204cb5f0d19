#pragma once

#include "ember/driver/cuda/good.h"
#include "ember/driver/seam.h"
#include "neighbour.h"
