// Mathematics by the same names on every kind of device, for every type that is computed in:
// integers (they wrap around, and dividing by zero gives zero), float, double and complex.
#pragma once

#include "ember/scalar/float_math.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::m {

// The C library's functions on the host, CUDA's own on devices: both know them by the C names.
#define EMBER_LIBM(function) ::function
#define EMBER_MATH_1(name)                                        \
  EMBER_HD float name(float x) { return EMBER_LIBM(name##f)(x); } \
  EMBER_HD double name(double x) { return EMBER_LIBM(name)(x); }
#define EMBER_MATH_2(name)                                                    \
  EMBER_HD float name(float x, float y) { return EMBER_LIBM(name##f)(x, y); } \
  EMBER_HD double name(double x, double y) { return EMBER_LIBM(name)(x, y); }
EMBER_MATH_1(expm1)
EMBER_MATH_1(log1p)
EMBER_MATH_1(sin)
EMBER_MATH_1(cos)
EMBER_MATH_1(tan)
EMBER_MATH_1(asin)
EMBER_MATH_1(acos)
EMBER_MATH_1(atan)
EMBER_MATH_1(sinh)
EMBER_MATH_1(cosh)
EMBER_MATH_1(asinh)
EMBER_MATH_1(acosh)
EMBER_MATH_1(atanh)
EMBER_MATH_1(erf)
EMBER_MATH_1(erfc)
EMBER_MATH_1(sqrt)
EMBER_MATH_1(ceil)
EMBER_MATH_1(floor)
EMBER_MATH_1(trunc)
EMBER_MATH_1(rint)
EMBER_MATH_1(fabs)
EMBER_MATH_2(atan2)
EMBER_MATH_2(hypot)
EMBER_MATH_2(copysign)
EMBER_MATH_2(nextafter)
EMBER_MATH_2(fmod)
#if defined(__CUDA_ARCH__)
EMBER_MATH_1(exp)
EMBER_MATH_1(exp2)
EMBER_MATH_1(tanh)
EMBER_MATH_1(log)
EMBER_MATH_1(log2)
EMBER_MATH_1(log10)
#else
EMBER_HD float exp(float x) { return detail::exp_float(x); }
EMBER_HD float exp2(float x) { return detail::exp2_float(x); }
EMBER_HD float tanh(float x) { return detail::tanh_float(x); }
EMBER_HD float log(float x) { return detail::log_float(x, 0.69314718055994531, 1); }
EMBER_HD float log2(float x) { return detail::log_float(x, 1, 1.4426950408889634); }
EMBER_HD float log10(float x) {
  return detail::log_float(x, 0.30102999566398120, 0.43429448190325183);
}
EMBER_HD double exp(double x) { return EMBER_LIBM(exp)(x); }
EMBER_HD double exp2(double x) { return EMBER_LIBM(exp2)(x); }
EMBER_HD double tanh(double x) { return EMBER_LIBM(tanh)(x); }
EMBER_HD double log(double x) { return EMBER_LIBM(log)(x); }
EMBER_HD double log2(double x) { return EMBER_LIBM(log2)(x); }
EMBER_HD double log10(double x) { return EMBER_LIBM(log10)(x); }
#endif
#undef EMBER_MATH_1
#undef EMBER_MATH_2

// The C library's lgamma writes a global variable, which is a race between threads.
#if defined(__CUDA_ARCH__)
EMBER_HD float lgamma(float x) { return ::lgammaf(x); }
EMBER_HD double lgamma(double x) { return ::lgamma(x); }
#else
EMBER_HD float lgamma(float x) {
  int sign = 0;
  return ::lgammaf_r(x, &sign);
}
EMBER_HD double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}
#endif

template <class T>
EMBER_HD bool isnan(T x) {
  if constexpr (is_complex<T>)
    return x.re != x.re || x.im != x.im;
  else
    return x != x;  // NOLINT(misc-redundant-expression)
}
template <class T>
EMBER_HD bool isinf(T x) {
  if constexpr (is_complex<T>)
    return isinf(x.re) || isinf(x.im);
  else if constexpr (is_floating<T>)
    return fabs(x) > (sizeof(T) == 4 ? T(0x1.fffffep127) : T(0x1.fffffffffffffp1023));
  else
    return false;
}
template <class T>
EMBER_HD bool isfinite(T x) {
  return !isnan(x) && !isinf(x);
}

// Integers are round already.
template <class T>
requires std::is_integral_v<T> EMBER_HD T ceil(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T floor(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T trunc(T x) { return x; }
template <class T>
requires std::is_integral_v<T> EMBER_HD T rint(T x) { return x; }

/// Unsigned types have nothing below zero, and compilers object to the question.
template <class T>
EMBER_HD bool negative(T x) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return x < T(0);
}
template <class T>
EMBER_HD bool signbit(T x) {
  if constexpr (is_floating<T>)
    return copysign(T(1), x) < 0;
  else
    return negative(x);
}
template <class T>
EMBER_HD T bits_not(T x) {
  if constexpr (std::is_same_v<T, bool>)
    return !x;
  else
    return static_cast<T>(~x);
}

// Arithmetic. Signed integers wrap around: through the unsigned type, where that is defined.
namespace detail {
template <class T>
EMBER_HD auto wide(T x) {
  if constexpr (sizeof(T) < 4)
    return static_cast<std::uint32_t>(x);
  else
    return static_cast<std::make_unsigned_t<T>>(x);
}
}  // namespace detail

template <class T>
EMBER_HD T add(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x || y;
  else if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) + detail::wide(y));
  else
    return x + y;
}
template <class T>
EMBER_HD T sub(T x, T y) {
  if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) - detail::wide(y));
  else
    return x - y;
}
template <class T>
EMBER_HD T mul(T x, T y) {
  if constexpr (std::is_same_v<T, bool>)
    return x && y;
  else if constexpr (is_integer<T>)
    return static_cast<T>(detail::wide(x) * detail::wide(y));
  else
    return x * y;
}
template <class T>
EMBER_HD T neg(T x) {
  if constexpr (is_integer<T>)
    return static_cast<T>(0U - detail::wide(x));
  else
    return -x;
}

template <class T>
EMBER_HD Real<T> abs(T x) {
  if constexpr (is_complex<T>)
    return hypot(x.re, x.im);
  else if constexpr (is_floating<T>)
    return fabs(x);
  else if constexpr (std::is_signed_v<T>)
    return x < 0 ? neg(x) : x;
  else
    return x;
}
template <class T>
EMBER_HD T sign(T x) {
  if constexpr (is_complex<T>) {
    const Real<T> length = abs(x);
    return length == 0 ? T(0, 0) : T(x.re / length, x.im / length);
  } else if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else {
    return static_cast<T>((T(0) < x) - negative(x));
  }
}

/// The quotient rounded down. Integers: zero when y is zero.
template <class T>
EMBER_HD T floor_divide(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) return neg(x);  // the one quotient that does not fit
      const T quotient = static_cast<T>(x / y);
      return static_cast<T>(quotient - ((x % y != 0) && ((x < 0) != (y < 0))));
    } else {
      return static_cast<T>(x / y);
    }
  } else {
    if (y == 0) return x / y;
    // Through the exact remainder: rounding x / y first can give one too many.
    const T rest = fmod(x, y);
    T quotient = (x - rest) / y;
    if (rest != 0 && ((y < 0) != (rest < 0))) quotient -= 1;
    if (quotient == 0) return copysign(T(0), x / y);
    const T down = floor(quotient);
    return quotient - down > T(0.5) ? down + 1 : down;
  }
}
/// What is left of x, with the sign of y.
template <class T>
EMBER_HD T remainder(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (y == -1) return 0;
      const T rest = static_cast<T>(x % y);
      return static_cast<T>(rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest);
    } else {
      return static_cast<T>(x % y);
    }
  } else {
    const T rest = fmod(x, y);
    return rest != 0 && ((rest < 0) != (y < 0)) ? rest + y : rest;
  }
}
/// The quotient rounded towards zero. Integers: zero when y is zero.
template <class T>
EMBER_HD T truncated_quotient(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return neg(x);  // the one quotient that does not fit
    return static_cast<T>(x / y);
  } else {
    return trunc(x / y);
  }
}
/// What is left of x, with the sign of x.
template <class T>
EMBER_HD T truncated_remainder(T x, T y) {
  if constexpr (is_integer<T>) {
    if (y == 0) return 0;
    if constexpr (std::is_signed_v<T>)
      if (y == -1) return 0;
    return static_cast<T>(x % y);
  } else {
    return fmod(x, y);
  }
}

// NaN wins in maximum and minimum, and loses in fmax and fmin. One choice after the other: clamp is
// two of them, and compilers make vectors of choices, not of conditions with an "or".
template <class T>
EMBER_HD T maximum(T x, T y) {
  const T larger = x > y ? x : y;
  if constexpr (is_floating<T>)
    return isnan(x) ? x : larger;
  else
    return larger;
}
template <class T>
EMBER_HD T minimum(T x, T y) {
  const T smaller = x < y ? x : y;
  if constexpr (is_floating<T>)
    return isnan(x) ? x : smaller;
  else
    return smaller;
}
template <class T>
EMBER_HD T fmax(T x, T y) {
  return isnan(x) || y > x ? y : x;
}
template <class T>
EMBER_HD T fmin(T x, T y) {
  return isnan(x) || y < x ? y : x;
}

// Complex functions, from the real ones.
namespace detail {
/// size * part, in which a part that is exactly zero stays so: the functions are real on the axes.
template <class T>
EMBER_HD T scaled(T size, T part) {
  return part == 0 && isinf(size) ? copysign(part, signbit(size) ? -part : part) : size * part;
}
}  // namespace detail
template <class T>
EMBER_HD Complex<T> exp(Complex<T> z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (isinf(z.re) && !isfinite(z.im)) {
    if (z.re < 0) return {T(0), T(0)};
    return {z.re, z.im - z.im};  // the angle is not known: infinity and NaN
  }
  const T size = exp(z.re);
  // In two steps where only the size is too large.
  if (isinf(size) && !isinf(z.re)) {
    const T root = exp(z.re * T(0.5));
    return {root * cos(z.im) * root, root * sin(z.im) * root};
  }
  return {size * cos(z.im), size * sin(z.im)};
}
template <class T>
EMBER_HD Complex<T> log(Complex<T> z) {
  const T x = fabs(z.re);
  const T y = fabs(z.im);
  const T larger = x > y ? x : y;
  const T smaller = x > y ? y : x;
  const T angle = atan2(z.im, z.re);
  // Near the circle of size one the logarithm of the size is small, and hypot has rounded it away.
  if (larger > T(0.5) && larger < T(2))
    return {log1p((larger - T(1)) * (larger + T(1)) + smaller * smaller) * T(0.5), angle};
  // Halved, the size stays finite.
  if (larger > T(1) && !isinf(larger))
    return {log(hypot(x * T(0.5), y * T(0.5))) + T(0.69314718055994530942), angle};
  return {log(hypot(x, y)), angle};
}
template <class T>
EMBER_HD Complex<T> sqrt(Complex<T> z) {
  if (z.re == 0 && z.im == 0) return {T(0), z.im};
  if (isinf(z.im)) return {fabs(z.im), z.im};
  // Of the two ways to the components, the one without cancellation. Halving first keeps the sum
  // finite.
  const T length = hypot(z.re * T(0.5), z.im * T(0.5));
  const T larger = sqrt(length + fabs(z.re) * T(0.5));
  const T smaller = z.im / (T(2) * larger);
  if (z.re >= 0) return {larger, smaller};
  return {fabs(smaller), copysign(larger, z.im)};
}
template <class T>
EMBER_HD Complex<T> sinh(Complex<T> z) {
  return {sinh(z.re) * cos(z.im), detail::scaled(cosh(z.re), sin(z.im))};
}
template <class T>
EMBER_HD Complex<T> cosh(Complex<T> z) {
  return {cosh(z.re) * cos(z.im), detail::scaled(sinh(z.re), sin(z.im))};
}
template <class T>
EMBER_HD Complex<T> tanh(Complex<T> z) {
  // Where the real part's exponential swamps everything, the quotient would be inf / inf.
  if (fabs(z.re) > T(sizeof(T) == 4 ? 20 : 40))
    return {copysign(T(1), z.re), copysign(T(0), sin(T(2) * z.im))};
  const T t = tan(z.im);
  const T s = sinh(z.re);
  const T beta = T(1) + t * t;
  const T rho = sqrt(T(1) + s * s);
  const T below = T(1) + beta * s * s;
  return {beta * rho * s / below, t / below};
}
template <class T>
EMBER_HD Complex<T> sin(Complex<T> z) {
  return {detail::scaled(cosh(z.im), sin(z.re)), cos(z.re) * sinh(z.im)};
}
template <class T>
EMBER_HD Complex<T> cos(Complex<T> z) {
  return {cos(z.re) * cosh(z.im), -detail::scaled(sinh(z.im), sin(z.re))};
}
template <class T>
EMBER_HD Complex<T> tan(Complex<T> z) {
  const Complex<T> w = tanh(Complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}

/// Integers: by squaring; a negative exponent gives zero unless x is 1 or -1. Of the others,
/// squares, cubes and reciprocals are what they are called: where y is the same for a whole loop,
/// the compiler takes the question out of it, and the loop runs as one of multiplications.
template <class T>
EMBER_HD T pow(T x, T y) {
  if (y == T(2)) return mul(x, x);
  if (y == T(3)) return mul(mul(x, x), x);
  if constexpr (!is_integer<T>) {
    if (y == T(-1)) return T(1) / x;
  }
  if constexpr (is_complex<T>) {
    if (y.re == 0 && y.im == 0) return {1, 0};
    if (x.re == 0 && x.im == 0 && y.re > 0) return {0, 0};
    return exp(y * log(x));
  } else if constexpr (is_integer<T>) {
    if constexpr (std::is_signed_v<T>) {
      if (y < 0) return static_cast<T>(x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0);
    }
    T result = 1;
    T square = x;
    for (auto left = detail::wide(y); left != 0; left >>= 1) {
      if ((left & 1U) != 0) result = mul(result, square);
      square = mul(square, square);
    }
    return result;
  } else {
    if constexpr (sizeof(T) == 4)
      return ::powf(x, y);
    else
      return ::pow(x, y);
  }
}

template <class T>
EMBER_HD T reciprocal(T x) {
  return T(1) / x;
}
template <class T>
EMBER_HD T rsqrt(T x) {
  return T(1) / sqrt(x);
}
/// 1 / (1 + exp(-x)), without overflow for real numbers.
template <class T>
EMBER_HD T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
EMBER_HD T conj(T x) {
  if constexpr (is_complex<T>)
    return {x.re, -x.im};
  else
    return x;
}
template <class T>
EMBER_HD Real<T> angle(T x) {
  if constexpr (is_complex<T>)
    return atan2(x.im, x.re);
  else
    return isnan(x) ? x : x < 0 ? T(3.14159265358979323846) : T(0);
}
template <class T>
EMBER_HD bool truth(T x) {
  return convert<bool>(x);
}

// Shifts by the width of the type or more, or by negative numbers, shift everything out.
template <class T>
EMBER_HD T shift_left(T x, T y) {
  if (negative(y) || static_cast<std::uint64_t>(y) >= 8 * sizeof(T)) return 0;
  return static_cast<T>(detail::wide(x) << static_cast<unsigned>(y));
}
template <class T>
EMBER_HD T shift_right(T x, T y) {
  if (negative(y) || static_cast<std::uint64_t>(y) >= 8 * sizeof(T))
    return negative(x) ? static_cast<T>(-1) : T(0);
  return static_cast<T>(x >> static_cast<unsigned>(y));
}
template <class T>
EMBER_HD T gcd(T x, T y) {
  // The size of the smallest number fits into the unsigned type only.
  using Size = std::make_unsigned_t<T>;
  auto a = static_cast<Size>(negative(x) ? neg(x) : x);
  auto b = static_cast<Size>(negative(y) ? neg(y) : y);
  while (b != 0) {
    const auto rest = static_cast<Size>(a % b);
    a = b;
    b = rest;
  }
  return static_cast<T>(a);
}
/// start + weight * (end - start), exact at both ends.
template <class T>
EMBER_HD T lerp(T start, T end, T weight) {
  if constexpr (is_complex<T>)
    return start + weight * (end - start);
  else
    return fabs(weight) < T(0.5) ? start + weight * (end - start)
                                 : end - (end - start) * (T(1) - weight);
}
template <class T>
EMBER_HD T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}

#undef EMBER_LIBM

}  // namespace ember::inline v0::m
