// The kernels of reductions, by operation and element type.
#pragma once

#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::ops {

enum class ReduceOp : int { sum, prod, count, max, min, var, norm2, norm };

// For the types that an operation exists for, in the order of Dtype: all but bool for the first
// three, real ones for extremes, floating and complex ones for the others.
const driver::Kernel* sum_rows() noexcept;
const driver::Kernel* prod_rows() noexcept;
const driver::Kernel* count_rows() noexcept;
const driver::Kernel* max_rows() noexcept;
const driver::Kernel* min_rows() noexcept;
const driver::Kernel* var_rows() noexcept;
const driver::Kernel* norm2_rows() noexcept;
const driver::Kernel* norm_rows() noexcept;

}  // namespace ember::ops
