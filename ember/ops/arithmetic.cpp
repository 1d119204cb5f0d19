#include "ember/ops/arithmetic.h"

#include <array>
#include <cmath>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/scalar/math.h"

namespace ember::inline v0 {
namespace {

using ops::operand_dtype;
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

/// A number is only computed with, as in x + y: integers wrap around, 16-bit floats are wider.
Scalar product(const Scalar& y, const Scalar& alpha, Dtype dtype) {
  return with_type(dtype, [&]<class T>() -> Scalar {
    if constexpr (std::is_same_v<T, bool>)
      return y;
    else
      return m::mul(y.to<Compute<T>>(), alpha.to<Compute<T>>());
  });
}

/// A number that is NaN bounds nothing where it is the only bound, and a tensor's NaN does: so
/// torch has it. fmax and fmin know the difference.
Tensor bounded(const Operand& x, const Operand& bound, OpId op, OpId past_nan, Tensor* out) {
  const bool nan = bound.tensor() == nullptr && std::isnan(bound.number().to<double>());
  return call(nan ? past_nan : op, out, x, bound);
}

/// addcmul computes x + y * z at once, in float for the 16-bit types.
Tensor scaled_sum(OpId plain, Tensor* out, const Operand& x, const Operand& y,
                  const Scalar& alpha) {
  const Dtype dtype = result_type(x, y);
  if (plain == OpId::sub && (operand_dtype(x) == Dtype::bool_ || operand_dtype(y) == Dtype::bool_))
    return call(plain, out, x, y);  // says that there is no such sub
  check_alpha(dtype, alpha);
  require_fits(alpha, dtype);
  const auto value = alpha.to<Complex<double>>();
  if (value.re == 1 && value.im == 0) return call(plain, out, x, y);
  if (dtype == Dtype::bool_) {
    if (value.re != 0) return call(plain, out, x, y);
    // Nothing is added, but y's shape and device still count.
    if (y.tensor() == nullptr) return call(plain, out, x, Operand(false));
    const Tensor none = zeros({}, {Dtype::bool_, y.tensor()->device()});
    return call(plain, out, x, Operand(none.expand(y.tensor()->sizes())));
  }
  if (y.tensor() == nullptr) return call(plain, out, x, Operand(product(y.number(), alpha, dtype)));
  const bool wraps = x.tensor() == nullptr && is_integral(dtype);
  return call(OpId::addcmul, out, wraps ? Operand(product(x.number(), 1, dtype)) : x, y,
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

/// `op` is addcmul or addcdiv.
Tensor scaled_product(OpId op, Tensor* out, const Operand& x, const Operand& y, const Operand& z,
                      const Scalar& value) {
  const std::array<const Operand*, 3> inputs{&x, &y, &z};
  const Dtype dtype = result_type(inputs);
  const auto factor = value.to<Complex<double>>();
  if (dtype == Dtype::bool_ || (factor.re == 1 && factor.im == 0)) return call(op, out, x, y, z);
  require_fits(value, is_half(dtype) ? Dtype::float32 : dtype);
  const Scalar number = is_integral(dtype)        ? Scalar(value.to<std::int64_t>())
                        : is_complex_dtype(dtype) ? value
                                                  : Scalar(factor.re);
  return call(op == OpId::addcmul ? OpId::scaled_addcmul : OpId::scaled_addcdiv, out, x, y, z,
              Operand(number));
}

Tensor rounded(Tensor* out, const Tensor& x, int decimals) {
  if (decimals == 0) return call(OpId::round, out, Operand(x));
  if (!x.is_floating_point()) ops::throw_not_implemented("round", x.dtype());
  const double power = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  const Tensor wide = is_half(x.dtype()) ? x.to(Dtype::float32) : x;
  const Tensor made =
      decimals > 0 ? wide.mul(power).round_().div_(power) : wide.div(power).round_().mul_(power);
  if (out == nullptr) return made.to(x.dtype());
  return call(OpId::positive, out, Operand(made.to(x.dtype())));
}

}  // namespace

namespace ops {

Tensor clamp(const Operand& x, const std::optional<Operand>& min, const std::optional<Operand>& max,
             Tensor* out) {
  if (min && max) return call(OpId::clamp, out, x, *min, *max);
  if (min) return bounded(x, *min, OpId::maximum, OpId::fmax, out);
  if (max) return bounded(x, *max, OpId::minimum, OpId::fmin, out);
  throw Error("torch.clamp: At least one of 'min' or 'max' must not be None");
}

}  // namespace ops

Tensor clamp_min(const Operand& x, const Operand& min) { return maximum(x, min); }
Tensor clamp_max(const Operand& x, const Operand& max) { return minimum(x, max); }
Tensor& clamp_min_out(Tensor& out, const Operand& x, const Operand& min) {
  return maximum_out(out, x, min);
}
Tensor& clamp_max_out(Tensor& out, const Operand& x, const Operand& max) {
  return minimum_out(out, x, max);
}
Tensor Tensor::clamp(const std::optional<Operand>& min) const { return ops::clamp(*this, min, {}); }
Tensor& Tensor::clamp_(const std::optional<Operand>& min) const {
  return clamp_out(self(), *this, min);
}
Tensor Tensor::clamp_min(const Operand& min) const { return maximum(min); }
Tensor& Tensor::clamp_min_(const Operand& min) const { return maximum_(min); }
Tensor Tensor::clamp_max(const Operand& max) const { return minimum(max); }
Tensor& Tensor::clamp_max_(const Operand& max) const { return minimum_(max); }

#define EMBER_ARITHMETIC(name, Extra, call)                                              \
  Tensor name(const Operand& x, const Operand& y, Extra extra) { return call(nullptr); } \
  Tensor& name##_out(Tensor& out, const Operand& x, const Operand& y, Extra extra) {     \
    (void)call(&out);                                                                    \
    return out;                                                                          \
  }                                                                                      \
  Tensor Tensor::name(const Operand& y, Extra extra) const {                             \
    return ember::name(*this, y, extra);                                                 \
  }                                                                                      \
  Tensor& Tensor::name##_(const Operand& y, Extra extra) const {                         \
    return ember::name##_out(self(), *this, y, extra);                                   \
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

Tensor addcmul(const Operand& x, const Operand& y, const Operand& z, const Scalar& value) {
  return scaled_product(OpId::addcmul, nullptr, x, y, z, value);
}
Tensor& addcmul_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z,
                    const Scalar& value) {
  (void)scaled_product(OpId::addcmul, &out, x, y, z, value);
  return out;
}
Tensor addcdiv(const Operand& x, const Operand& y, const Operand& z, const Scalar& value) {
  return scaled_product(OpId::addcdiv, nullptr, x, y, z, value);
}
Tensor& addcdiv_out(Tensor& out, const Operand& x, const Operand& y, const Operand& z,
                    const Scalar& value) {
  (void)scaled_product(OpId::addcdiv, &out, x, y, z, value);
  return out;
}

Tensor round(const Tensor& x, int decimals) { return rounded(nullptr, x, decimals); }
Tensor& round_out(Tensor& out, const Tensor& x, int decimals) {
  (void)rounded(&out, x, decimals);
  return out;
}

}  // namespace ember::inline v0
