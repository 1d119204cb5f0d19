// start + i * step, for arange.
#pragma once

#include "ember/tensor/tensor.h"

namespace ember::ops {

/// Fills a contiguous tensor.
void ramp(const Tensor& out, const Scalar& start, const Scalar& step);

}  // namespace ember::ops
