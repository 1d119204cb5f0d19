// The kernels of cumsum and cumprod, by element type.
#pragma once

#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0::ops {

enum class ScanOp : int { cumsum, cumprod };

/// For int64, floating-point and complex types; null for others.
const driver::Kernel* scan_kernel(ScanOp op, Dtype dtype) noexcept;

}  // namespace ember::inline v0::ops
