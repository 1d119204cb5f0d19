// The kernels of softmax and log_softmax.
#pragma once

#include "ember/driver/kernel.h"
#include "ember/tensor/dtype.h"

namespace ember::inline v0::ops {

/// The kernel for a floating-point dtype. Its arguments are SoftmaxArgs.
const driver::Kernel& softmax_kernel(Dtype dtype) noexcept;

}  // namespace ember::inline v0::ops
