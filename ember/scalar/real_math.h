// Functions of float and double by the same names on every kind of device.
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

#undef EMBER_LIBM

}  // namespace ember::inline v0::m
