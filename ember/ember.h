// Everything: tensors and what can be done with them, and all of ember/cuda.h.
#pragma once

#include "ember/comm/comm.h"
#include "ember/cuda.h"
#include "ember/linalg/linalg.h"
#include "ember/ops/cat.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/index.h"
#include "ember/ops/indexing.h"
#include "ember/ops/rearrange.h"
#include "ember/ops/reduce.h"
#include "ember/ops/softmax.h"
#include "ember/ops/sort.h"
#include "ember/random/distributions.h"
#include "ember/random/seed.h"
#include "ember/tensor/tensor.h"
