// Sums with a factor and quotients that are rounded: what add, sub and div are with one argument
// more. Shapes, dtypes, devices and errors are those of element-wise operations (elementwise.h), as
// are the methods. Nothing blocks on CUDA devices.
#pragma once

#include "ember/tensor/tensor.h"

namespace ember {

/// x + alpha * y and x - alpha * y. Errors: `Boolean alpha only supported for Boolean results.`,
/// `For integral input tensors, argument alpha must not be a floating point number.`, `For
/// non-complex input tensors, argument alpha must not be a complex number.`
Tensor add(const Operand& x, const Operand& y, const Scalar& alpha);
Tensor& add_out(Tensor& out, const Operand& x, const Operand& y, const Scalar& alpha);
Tensor sub(const Operand& x, const Operand& y, const Scalar& alpha);
Tensor& sub_out(Tensor& out, const Operand& x, const Operand& y, const Scalar& alpha);

/// x / y as it is, rounded towards zero, or rounded down. Rounded quotients of integers are
/// integers; zero where an integer y is zero. They exist for real numbers: Error `"div_trunc" not
/// implemented for 'Bool'`.
Tensor div(const Operand& x, const Operand& y, Rounding rounding);
Tensor& div_out(Tensor& out, const Operand& x, const Operand& y, Rounding rounding);

}  // namespace ember
