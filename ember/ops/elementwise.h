// Element-wise operations on tensors. The list is scalar/elementwise.inc; everything here is made
// from it, for every operation alike:
//
//   Tensor name(x, y, ...)             a new tensor
//   Tensor& name_out(out, x, y, ...)   into a given one: it is resized if its shape is another one,
//                                      with a warning unless it is empty; Error if its dtype cannot
//                                      hold the result: `result type Float can't be cast`
//   x.name(y, ...), x.name_(y, ...)    the same as methods; name_ writes into x
//
// Shapes are broadcast, dtypes promoted by torch's rules: numbers and tensors without dimensions
// change the kind (integer, floating, complex) but not the width. Operations that exist for
// floating-point numbers only make float32 of integers. Everything must be on one device, except
// CPU tensors without dimensions, which are taken as numbers. Errors: `Expected all tensors to be
// on the same device, ...`, `The size of tensor a (3) must match ...`, and for outputs that share
// memory with an input in part; differences with a bool, and negative integer numbers as powers of
// integers; NotImplementedError `"exp" not implemented for 'Bool'`. Nothing blocks on CUDA devices.
#pragma once

#include <array>
#include <span>

#include "ember/base/export.h"
#include "ember/ops/elementwise_kernels.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

#define EMBER_UNARY(name, ...)            \
  EMBER_API Tensor name(const Tensor& x); \
  EMBER_API Tensor& name##_out(Tensor& out, const Tensor& x);
#define EMBER_BINARY(name, ...)                              \
  EMBER_API Tensor name(const Operand& x, const Operand& y); \
  EMBER_API Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y);
#define EMBER_TERNARY(name, ...)                                               \
  EMBER_API Tensor name(const Operand& x, const Operand& y, const Operand& z); \
  EMBER_API Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z);
#include "ember/scalar/elementwise.inc"
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY

/// x where the condition (bool) is true, y elsewhere; the elements are copied.
EMBER_API Tensor where(const Tensor& condition, const Operand& x, const Operand& y);
EMBER_API Tensor& where_out(Tensor& out, const Tensor& condition, const Operand& x,
                            const Operand& y);

// Two tensors have an overload of their own, since C++ would otherwise try comparisons backwards
// too.
#define EMBER_OPERATOR(symbol, name)                                                      \
  inline Tensor operator symbol(const Tensor& x, const Tensor& y) { return name(x, y); }  \
  inline Tensor operator symbol(const Tensor& x, const Operand& y) { return name(x, y); } \
  inline Tensor operator symbol(const Scalar& x, const Tensor& y) { return name(x, y); }
EMBER_OPERATOR(+, add)
EMBER_OPERATOR(-, sub)
EMBER_OPERATOR(*, mul)
EMBER_OPERATOR(/, div)
EMBER_OPERATOR(%, remainder)
EMBER_OPERATOR(==, eq)
EMBER_OPERATOR(!=, ne)
EMBER_OPERATOR(<, lt)
EMBER_OPERATOR(<=, le)
EMBER_OPERATOR(>, gt)
EMBER_OPERATOR(>=, ge)
EMBER_OPERATOR(&, bitwise_and)
EMBER_OPERATOR(|, bitwise_or)
EMBER_OPERATOR(^, bitwise_xor)
#undef EMBER_OPERATOR
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }

/// The type that an operation on these inputs has, by torch's rules.
EMBER_API Dtype result_type(std::span<const Operand* const> inputs);
EMBER_API Dtype result_type(const Operand& x, const Operand& y);

namespace ops {

/// What there is to know of an operation, by its number: for Python, documentation and tests.
EMBER_API const OpInfo& op_info(OpId op) noexcept;
EMBER_API std::span<const OpInfo> all_ops() noexcept;

/// Any element-wise operation: into a new tensor, or into `out`.
EMBER_API Tensor elementwise(OpId op, std::span<const Operand* const> inputs);
/// Error if the results of an operation do not fit into its own input, as those of abs() of complex
/// numbers.
EMBER_API void require_in_place(OpId op, const Tensor& self);
EMBER_API void elementwise_into(Tensor& out, OpId op, std::span<const Operand* const> inputs);
/// The same for callers that may have an output: into `out` if that is not null.
EMBER_API Tensor elementwise(OpId op, std::span<const Operand* const> inputs, Tensor* out);

}  // namespace ops
}  // namespace ember::inline v0
