// The kernels of sort and topk, by element type.
#pragma once

#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0::ops {

/// Null for complex numbers, which have no order.
const driver::Kernel* topk_kernel(Dtype dtype) noexcept;
const driver::Kernel* sort_kernel(Dtype dtype) noexcept;

}  // namespace ember::inline v0::ops
