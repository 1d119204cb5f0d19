// Functions of float and double by the same names on every kind of device.
#pragma once

#include "ember/scalar/float_angles.h"
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
EMBER_MATH_1(sqrt)
EMBER_MATH_1(ceil)
EMBER_MATH_1(floor)
EMBER_MATH_1(trunc)
EMBER_MATH_1(rint)
EMBER_MATH_1(fabs)
EMBER_MATH_2(copysign)
EMBER_MATH_2(nextafter)

// Where compilers make no vectors of a call, those of float are our own on the host: those for any
// argument, and those for ordinary ones, of which the C library does the others.
#if defined(__CUDA_ARCH__)
#define EMBER_FLOAT_1(name) EMBER_MATH_1(name)
#define EMBER_FLOAT_2(name) EMBER_MATH_2(name)
#define EMBER_ORDINARY_1(name, is_ordinary) EMBER_MATH_1(name)
#define EMBER_ORDINARY_2(name, is_ordinary) EMBER_MATH_2(name)
#else
#define EMBER_FLOAT_1(name)                                        \
  EMBER_HD float name(float x) { return detail::name##_float(x); } \
  EMBER_HD double name(double x) { return EMBER_LIBM(name)(x); }
#define EMBER_FLOAT_2(name)                                                    \
  EMBER_HD float name(float x, float y) { return detail::name##_float(x, y); } \
  EMBER_HD double name(double x, double y) { return EMBER_LIBM(name)(x, y); }
#define EMBER_ORDINARY_1(name, is_ordinary)                                           \
  EMBER_HD float name(float x) {                                                      \
    return detail::is_ordinary(x) ? detail::name##_float(x) : EMBER_LIBM(name##f)(x); \
  }                                                                                   \
  EMBER_HD double name(double x) { return EMBER_LIBM(name)(x); }
#define EMBER_ORDINARY_2(name, is_ordinary)                                                    \
  EMBER_HD float name(float x, float y) {                                                      \
    return detail::is_ordinary(x, y) ? detail::name##_float(x, y) : EMBER_LIBM(name##f)(x, y); \
  }                                                                                            \
  EMBER_HD double name(double x, double y) { return EMBER_LIBM(name)(x, y); }
#endif
EMBER_FLOAT_1(exp)
EMBER_FLOAT_1(exp2)
EMBER_FLOAT_1(expm1)
EMBER_FLOAT_1(log)
EMBER_FLOAT_1(log2)
EMBER_FLOAT_1(log10)
EMBER_FLOAT_1(log1p)
EMBER_ORDINARY_1(sin, is_ordinary_angle)
EMBER_ORDINARY_1(cos, is_ordinary_angle)
EMBER_ORDINARY_1(tan, is_ordinary_angle)
EMBER_FLOAT_1(asin)
EMBER_FLOAT_1(acos)
EMBER_FLOAT_1(atan)
EMBER_FLOAT_1(sinh)
EMBER_FLOAT_1(cosh)
EMBER_FLOAT_1(tanh)
EMBER_FLOAT_1(asinh)
EMBER_FLOAT_1(acosh)
EMBER_FLOAT_1(atanh)
EMBER_FLOAT_1(erf)
EMBER_FLOAT_1(erfc)
EMBER_FLOAT_2(atan2)
EMBER_FLOAT_2(hypot)
EMBER_ORDINARY_2(fmod, is_ordinary_quotient)
#undef EMBER_FLOAT_1
#undef EMBER_FLOAT_2
#undef EMBER_ORDINARY_1
#undef EMBER_ORDINARY_2
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
