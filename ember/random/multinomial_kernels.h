// The kernels that draw categories with replacement: Note [Categories by whole numbers].
#pragma once

#include "ember/driver/kernel.h"
#include "ember/random/multinomial_args.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::random {

/// Weights as parts: PartsArgs. float32 or float64. Fails with Code::device_assert where a weight
/// is none, or a row has none above zero.
const driver::Kernel& parts_kernel(Dtype dtype) noexcept;
/// Random bits as categories: SearchArgs.
const driver::Kernel& search_kernel() noexcept;

}  // namespace ember::inline v0::random
