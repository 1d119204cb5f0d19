// start + i * step, for arange.
#pragma once

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Fills a contiguous tensor.
void ramp(const Tensor& out, const Scalar& start, const Scalar& step);

}  // namespace ember::inline v0::ops
