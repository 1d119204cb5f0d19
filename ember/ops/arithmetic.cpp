#include "ember/ops/arithmetic.h"

#include <array>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/scalar/math.h"

namespace ember {
namespace {

using ops::OpId;

template <class... Inputs>
Tensor call(OpId op, Tensor* out, const Inputs&... inputs) {
  const std::array<const Operand*, sizeof...(Inputs)> list{&inputs...};
  return ops::elementwise(op, list, out);
}

void check_alpha(Dtype dtype, const Scalar& alpha) {
  if (alpha.dtype() == Dtype::bool_ && dtype != Dtype::bool_)
    throw Error("Boolean alpha only supported for Boolean results.");
  if (!is_integral(alpha.dtype()) && is_integral(dtype))
    throw Error("For integral input tensors, argument alpha must not be a floating point number.");
  if (is_complex_dtype(alpha.dtype()) && !is_complex_dtype(dtype))
    throw Error("For non-complex input tensors, argument alpha must not be a complex number.");
}

/// Of a number that fits the dtype, and so does what comes out.
Scalar negative(const Scalar& number, Dtype dtype) {
  // The least integer has no opposite: it wraps around to itself.
  if (is_integral(dtype))
    return with_type(dtype, [&]<class T>() -> Scalar {
      if constexpr (is_integer<T>)
        return m::neg(number.to<T>());
      else
        return number;
    });
  const auto value = number.to<Complex<double>>();
  if (is_complex_dtype(number.dtype())) return Complex<double>(-value.re, -value.im);
  return -value.re;
}

/// addcmul computes x + y * z at once, in float for the 16-bit types.
Tensor scaled_sum(OpId plain, Tensor* out, const Operand& x, const Operand& y,
                  const Scalar& alpha) {
  const Dtype dtype = result_type(x, y);
  check_alpha(dtype, alpha);
  require_fits(alpha, dtype);
  const auto value = alpha.to<Complex<double>>();
  if (value.re == 1 && value.im == 0) return call(plain, out, x, y);
  if (dtype == Dtype::bool_ && plain == OpId::add)
    return call(OpId::add, out, x, value.re != 0 ? y : Operand(false));
  if (dtype == Dtype::bool_) return call(plain, out, x, y);  // says that there is no such sub
  return call(OpId::addcmul, out, x, y,
              Operand(plain == OpId::sub ? negative(alpha, dtype) : alpha));
}

Tensor quotient(Tensor* out, const Operand& x, const Operand& y, Rounding rounding) {
  switch (rounding) {
    case Rounding::trunc: return call(OpId::div_trunc, out, x, y);
    case Rounding::floor: return call(OpId::floor_divide, out, x, y);
    case Rounding::none: break;
  }
  return call(OpId::div, out, x, y);
}

}  // namespace

#define EMBER_ARITHMETIC(name, Extra, call)                                              \
  Tensor name(const Operand& x, const Operand& y, Extra extra) { return call(nullptr); } \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y, Extra extra) {     \
    call(&out);                                                                          \
    return out;                                                                          \
  }                                                                                      \
  Tensor Tensor::name(const Operand& y, Extra extra) const {                             \
    return ember::name(*this, y, extra);                                                 \
  }                                                                                      \
  Tensor& Tensor::name##_(const Operand& y, Extra extra) {                               \
    return ember::name##_out(*this, *this, y, extra);                                    \
  }
#define EMBER_ADD(out) scaled_sum(ops::OpId::add, out, x, y, extra)
#define EMBER_SUB(out) scaled_sum(ops::OpId::sub, out, x, y, extra)
#define EMBER_DIV(out) quotient(out, x, y, extra)
EMBER_ARITHMETIC(add, const Scalar&, EMBER_ADD)
EMBER_ARITHMETIC(sub, const Scalar&, EMBER_SUB)
EMBER_ARITHMETIC(div, Rounding, EMBER_DIV)
#undef EMBER_ADD
#undef EMBER_SUB
#undef EMBER_DIV
#undef EMBER_ARITHMETIC

}  // namespace ember
