// The kernels of reductions, by operation and element type.
#pragma once

#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0::reduce {

enum class ReduceOp : int {
#define EMBER_REDUCTION(op, functor, types) op,
#include "ember/reduce/reductions.inc"
#undef EMBER_REDUCTION
};

// sum_kernels() and so on: one for each type that the operation exists for, in the order of Dtype.
#define EMBER_REDUCTION(op, functor, types) const driver::Kernel* op##_kernels() noexcept;
#include "ember/reduce/reductions.inc"
#undef EMBER_REDUCTION

}  // namespace ember::inline v0::reduce
