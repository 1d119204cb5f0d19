// The kernels of element-wise operations, by operation and element type.
#pragma once

#include "ember/base/export.h"
#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0::ops {

/// Every element-wise operation, in the order of elementwise.inc. Behind them `where`, which has
/// kernels of its own, and what other functions are made of.
enum class OpId : int {
#define EMBER_UNARY(name, ...) name,
#define EMBER_BINARY(name, ...) name,
#define EMBER_TERNARY(name, ...) name,
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
  where,
  scaled_addcmul,
  scaled_addcdiv,
};

/// The kernels of all operations for elements of type T, in the order of OpId.
template <class T>
const driver::Kernel* elementwise_kernels();
/// The kernels that copy elements of type From, by the type that they become.
template <class From>
const driver::Kernel* cast_kernels();

/// A kernel; its host implementation is null where the operation does not exist for the type.
EMBER_API const driver::Kernel& elementwise_kernel(OpId op, Dtype dtype) noexcept;
EMBER_API const driver::Kernel& cast_kernel(Dtype from, Dtype to) noexcept;
/// An operation's kernel that computes in float32, and converts what it reads: its inputs are of
/// the dtypes that the loop names, of which none is complex.
EMBER_API const driver::Kernel& mixed_kernel(OpId op) noexcept;

}  // namespace ember::inline v0::ops
