// Numbers at equal distances, for arange and linspace.
#pragma once

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Fills a contiguous tensor: start + i * step.
void ramp(const Tensor& out, const Scalar& start, const Scalar& step);
/// One of floating-point numbers from the first to the last, which are exact; the same backwards.
void ramp_between(const Tensor& out, double first, double last);

}  // namespace ember::inline v0::ops
