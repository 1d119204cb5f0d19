// Functions of complex numbers, made from the real ones: with infinities, NaN and branch cuts as
// Annex G of the C standard has them, and to a few units of the last place of the larger component.
#pragma once

#include "ember/scalar/real_math.h"

namespace ember::inline v0::m {

namespace detail {
/// size * part, in which a part that is exactly zero stays so: the functions are real on the axes.
template <class T>
EMBER_HD T scaled(T size, T part) {
  return part == 0 && isinf(size) ? copysign(part, copysign(T(1), size) < 0 ? -part : part)
                                  : size * part;
}

/// So small that it may be subnormal: a half and a length of such numbers lose bits, unless they
/// are scaled by 2^48 or 2^108 first, which leaves them small.
template <class T>
EMBER_HD bool tiny(T x) {
  return x < T(sizeof(T) == 4 ? 0x1p-100 : 0x1p-900);
}
template <class T>
EMBER_HD T upscale() {
  return T(sizeof(T) == 4 ? 0x1p48 : 0x1p108);
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
    return {rounded::mul(root * cos(z.im), root), rounded::mul(root * sin(z.im), root)};
  }
  return {rounded::mul(size, cos(z.im)), rounded::mul(size, sin(z.im))};
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
    return {
        log1p(rounded::sum_of_products(larger - T(1), larger + T(1), smaller, smaller)) * T(0.5),
        angle};
  // Halved, the size stays finite.
  if (larger > T(1) && !isinf(larger))
    return {log(hypot(x * T(0.5), y * T(0.5))) + T(0.69314718055994530942), angle};
  if (detail::tiny(larger)) {
    const T up = detail::upscale<T>();
    return {log(hypot(x * up, y * up)) - T((sizeof(T) == 4 ? 48 : 108) * 0.69314718055994530942),
            angle};
  }
  return {log(hypot(x, y)), angle};
}
// 2 to the power z, in two steps of its root: neither is too large where the product is not.
template <class T>
EMBER_HD Complex<T> exp2(Complex<T> z) {
  if (z.im == 0) return {exp2(z.re), z.im};
  if (isinf(z.re) && !isfinite(z.im)) return exp(z);
  const T root = exp2(z.re * T(0.5));
  const T angle = z.im * T(0.69314718055994530942);
  return {root * cos(angle) * root, root * sin(angle) * root};
}
template <class T>
EMBER_HD Complex<T> expm1(Complex<T> z) {
  if (!(fabs(z.re) < T(1)) || !isfinite(z.im)) return exp(z) - Complex<T>(T(1));
  const T half = sin(z.im * T(0.5));
  return {rounded::difference_of_products(expm1(z.re), cos(z.im), T(2) * half, half),
          exp(z.re) * sin(z.im)};
}
template <class T>
EMBER_HD Complex<T> log2(Complex<T> z) {
  const Complex<T> w = log(z);
  return {w.re * T(1.4426950408889634074), w.im * T(1.4426950408889634074)};
}
template <class T>
EMBER_HD Complex<T> log10(Complex<T> z) {
  const Complex<T> w = log(z);
  return {w.re * T(0.43429448190325182765), w.im * T(0.43429448190325182765)};
}
template <class T>
EMBER_HD Complex<T> log1p(Complex<T> z) {
  if (!(hypot(z.re, z.im) < T(0.5))) return log(Complex<T>(T(1) + z.re, z.im));
  return {log1p(rounded::sum_of_products(z.re, T(2) + z.re, z.im, z.im)) * T(0.5),
          atan2(z.im, T(1) + z.re)};
}
template <class T>
EMBER_HD Complex<T> sqrt(Complex<T> z) {
  if (z.re == 0 && z.im == 0) return {T(0), z.im};
  if (isinf(z.im)) return {fabs(z.im), z.im};
  const T larger = fabs(z.re) > fabs(z.im) ? fabs(z.re) : fabs(z.im);
  T up = T(1);
  T down = T(1);
  if (detail::tiny(larger)) {
    up = detail::upscale<T>();
    down = T(sizeof(T) == 4 ? 0x1p-24 : 0x1p-54);
  } else if (larger > T(sizeof(T) == 4 ? 0x1p125 : 0x1p1021)) {
    up = T(0.25);  // the sum of the length and a part stays finite
    down = T(2);
  }
  const T x = fabs(z.re) * up;
  const T y = z.im * up;
  // Of the two ways to the components, the one without cancellation.
  const T root = sqrt((hypot(x, y) + x) * T(0.5));
  const T other = y / (T(2) * root) * down;
  if (z.re >= 0) return {root * down, other};
  return {fabs(other), copysign(root * down, z.im)};
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

// Inverse functions, after W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987): of the
// roots of 1 - z and 1 + z, in products that do not cancel. Far out, the square of z is all that
// counts, and would overflow.
namespace detail {
template <class T>
EMBER_HD bool far_out(Complex<T> z) {
  const T limit = sizeof(T) == 4 ? T(0x1p13) : T(0x1p28);
  return fabs(z.re) > limit || fabs(z.im) > limit;
}
/// log(2 |z|)
template <class T>
EMBER_HD T log_of_double(Complex<T> z) {
  return log(hypot(z.re * T(0.5), z.im * T(0.5))) + T(1.3862943611198906188);
}
}  // namespace detail
template <class T>
EMBER_HD Complex<T> asin(Complex<T> z) {
  const T nan = z.re + z.im;
  if (isnan(z)) {
    if (isinf(z.re) || isinf(z.im)) return {nan, isinf(z.im) ? z.im : z.re};
    return {z.re == 0 ? z.re : nan, nan};
  }
  if (detail::far_out(z))
    return {atan2(z.re, fabs(z.im)), copysign(detail::log_of_double(z), z.im)};
  const Complex<T> a = sqrt(Complex<T>(T(1) - z.re, -z.im));
  const Complex<T> b = sqrt(Complex<T>(T(1) + z.re, z.im));
  return {atan2(z.re, rounded::difference_of_products(a.re, b.re, a.im, b.im)),
          asinh(rounded::difference_of_products(a.re, b.im, a.im, b.re))};
}
template <class T>
EMBER_HD Complex<T> acos(Complex<T> z) {
  const T nan = z.re + z.im;
  if (isnan(z)) {
    if (isinf(z.re) || isinf(z.im)) return {nan, isinf(z.im) ? -z.im : z.re};
    return {z.re == 0 ? T(1.5707963267948966192) : nan, nan};
  }
  if (detail::far_out(z))
    return {atan2(fabs(z.im), z.re), copysign(detail::log_of_double(z), -z.im)};
  const Complex<T> a = sqrt(Complex<T>(T(1) - z.re, -z.im));
  const Complex<T> b = sqrt(Complex<T>(T(1) + z.re, z.im));
  return {T(2) * atan2(a.re, b.re), asinh(rounded::difference_of_products(b.re, a.im, b.im, a.re))};
}
template <class T>
EMBER_HD Complex<T> asinh(Complex<T> z) {
  const Complex<T> w = asin(Complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}
template <class T>
EMBER_HD Complex<T> acosh(Complex<T> z) {
  const Complex<T> w = acos(z);
  return {fabs(w.im), copysign(w.re, z.im)};
}
template <class T>
EMBER_HD Complex<T> atanh(Complex<T> z) {
  const T quarter_turn = T(1.5707963267948966192);
  const T nan = z.re + z.im;
  if (isnan(z)) {
    if (isinf(z.im)) return {copysign(T(0), z.re), copysign(quarter_turn, z.im)};
    if (isinf(z.re)) return {copysign(T(0), z.re), nan};
    return {z.re == 0 ? z.re : nan, nan};
  }
  const T x = fabs(z.re);
  const T y = fabs(z.im);
  const T limit = sizeof(T) == 4 ? T(0x1p30) : T(0x1p500);
  T re = 0;
  T im = quarter_turn;
  if (x > limit || y > limit) {
    // The real part of 1 / z.
    if (!isinf(x) && !isinf(y)) re = x > y ? T(1) / (x + y / x * y) : x / y / (y + x / y * x);
  } else {
    im = atan2(T(2) * y, rounded::difference_of_products(T(1) - x, T(1) + x, y, y)) * T(0.5);
    // Beside the pole the square of y may be too small.
    if (x == T(1) && y < T(1))
      re = rounded::difference_of_products(log(T(4) + y * y), T(0.25), log(y), T(0.5));
    else
      re = log1p(T(4) * x / rounded::sum_of_products(T(1) - x, T(1) - x, y, y)) * T(0.25);
  }
  return {copysign(re, z.re), copysign(im, z.im)};
}
template <class T>
EMBER_HD Complex<T> atan(Complex<T> z) {
  const Complex<T> w = atanh(Complex<T>(-z.im, z.re));
  return {w.im, -w.re};
}

}  // namespace ember::inline v0::m
