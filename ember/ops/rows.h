// The kernels of element-wise operations, by operation and element type.
#pragma once

#include "ember/driver/kernels.h"
#include "ember/scalar/elementwise.h"

namespace ember::ops {

/// Every element-wise operation, in the order of elementwise.inc; `where` has its own rows behind
/// them.
enum class OpId : int {
#define EMBER_UNARY(name, ...) name,
#define EMBER_BINARY(name, ...) name,
#define EMBER_TERNARY(name, ...) name,
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
  where,
};

/// The rows of all operations for elements of type T, in the order of OpId.
template <class T>
const driver::Kernel* elementwise_rows();
/// The rows that copy elements of type From, by the type that they become.
template <class From>
const driver::Kernel* cast_rows();

/// A row; its host column is null where the operation does not exist for the type.
const driver::Kernel& elementwise_kernel(OpId op, Dtype dtype) noexcept;
const driver::Kernel& cast_kernel(Dtype from, Dtype to) noexcept;

}  // namespace ember::ops
