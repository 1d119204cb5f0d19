// Sums with a factor and rounding with digits: what add, sub, div, addcmul, addcdiv and round are
// with one argument more. Shapes, dtypes, devices and errors are those of element-wise operations
// (elementwise.h), as are the methods of the first three. Nothing blocks on CUDA devices.
#pragma once

#include <optional>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// x + alpha * y and x - alpha * y. Errors: `Boolean alpha only supported for Boolean results.`,
/// `For integral input tensors, argument alpha must not be a floating point number.`, `For
/// non-complex input tensors, argument alpha must not be a complex number.`
EMBER_API Tensor add(const Operand& x, const Operand& y, const Scalar& alpha);
EMBER_API Tensor& add_out(Tensor& out, const Operand& x, const Operand& y, const Scalar& alpha);
EMBER_API Tensor sub(const Operand& x, const Operand& y, const Scalar& alpha);
EMBER_API Tensor& sub_out(Tensor& out, const Operand& x, const Operand& y, const Scalar& alpha);

/// x / y as it is, rounded towards zero, or rounded down. Rounded quotients of integers are
/// integers; zero where an integer y is zero. They exist for real numbers: Error `"div_trunc" not
/// implemented for 'Bool'`.
EMBER_API Tensor div(const Operand& x, const Operand& y, Rounding rounding);
EMBER_API Tensor& div_out(Tensor& out, const Operand& x, const Operand& y, Rounding rounding);

/// x + value * y * z and x + value * y / z. The value is converted to the dtype of the result:
/// Error `value cannot be converted to type int8 without overflow`. The 16-bit types are computed
/// in float.
EMBER_API Tensor addcmul(const Operand& x, const Operand& y, const Operand& z, const Scalar& value);
EMBER_API Tensor& addcmul_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z,
                              const Scalar& value);
EMBER_API Tensor addcdiv(const Operand& x, const Operand& y, const Operand& z, const Scalar& value);
EMBER_API Tensor& addcdiv_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z,
                              const Scalar& value);

/// x, but at least `min` and at most `max`, numbers or tensors, either of which may be missing:
/// `clamp(x, 0)`, `clamp(x, {}, 5)`. One bound is as maximum() and minimum(), except that a number
/// which is NaN bounds nothing. Error `torch.clamp: At least one of 'min' or 'max' must not be
/// None`. Templates, so that two numbers are those of elementwise.h.
template <int = 0>
Tensor clamp(const Operand& x, const std::optional<Operand>& min,
             const std::optional<Operand>& max = {}) {
  return ops::clamp(x, min, max);
}
template <int = 0>
Tensor& clamp_out(Tensor& out, const Operand& x, const std::optional<Operand>& min,
                  const std::optional<Operand>& max = {}) {
  (void)ops::clamp(x, min, max, &out);
  return out;
}
/// maximum() and minimum(), by torch's names: here a number that is NaN makes all NaN.
EMBER_API Tensor clamp_min(const Operand& x, const Operand& min);
EMBER_API Tensor& clamp_min_out(Tensor& out, const Operand& x, const Operand& min);
EMBER_API Tensor clamp_max(const Operand& x, const Operand& max);
EMBER_API Tensor& clamp_max_out(Tensor& out, const Operand& x, const Operand& max);

/// To so many digits behind the point, or, if negative, to zeros before it: x * 10^decimals is
/// rounded and divided again. Floating types only, except with no decimals: NotImplementedError
/// `"round" not implemented for 'Long'`.
EMBER_API Tensor round(const Tensor& x, int decimals);
EMBER_API Tensor& round_out(Tensor& out, const Tensor& x, int decimals);

}  // namespace ember::inline v0
