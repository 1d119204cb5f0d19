// Arithmetic whose rounding does not depend on what a compiler makes of the code around it.
#pragma once

#include "ember/scalar/config.h"

// Arithmetic that no compiler may contract or reassociate.
namespace ember::inline v0::m::rounded {
#if defined(__CUDA_ARCH__)
EMBER_HD float mul(float x, float y) { return __fmul_rn(x, y); }
EMBER_HD double mul(double x, double y) { return __dmul_rn(x, y); }
EMBER_HD float add(float x, float y) { return __fadd_rn(x, y); }
EMBER_HD double add(double x, double y) { return __dadd_rn(x, y); }
EMBER_HD float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
EMBER_HD double fma(double x, double y, double z) { return __fma_rn(x, y, z); }
EMBER_HD double div(double x, double y) { return __ddiv_rn(x, y); }
// For numbers from 2^-60 to 2^60: __fsqrt_rn without its question whether x is one, which costs
// normal numbers a tenth of their speed.
EMBER_HD float sqrt(float x) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float root = mul(x, inverse);
  return fma(fma(-root, root, x), mul(inverse, 0.5F), root);
}
EMBER_HD double sqrt(double x) { return __dsqrt_rn(x); }
#else
// What promises bits (element-wise operations, reductions, random numbers, Fourier transforms, and
// generated kernels) is compiled with -ffp-contract=off.
EMBER_HD float mul(float x, float y) { return x * y; }
EMBER_HD double mul(double x, double y) { return x * y; }
EMBER_HD float add(float x, float y) { return x + y; }
EMBER_HD double add(double x, double y) { return x + y; }
EMBER_HD float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
EMBER_HD double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
EMBER_HD double div(double x, double y) { return x / y; }
EMBER_HD float sqrt(float x) { return __builtin_sqrtf(x); }
EMBER_HD double sqrt(double x) { return __builtin_sqrt(x); }
#endif

/// a * b + c * d and a * b - c * d. A compiler may fuse either product with the sum, and does not
/// choose the same one wherever the expression stands: on devices it is always the first. Hosts
/// fuse neither, nor do kernels of users, whose bits are the hosts' (EMBER_FUSES_NOTHING).
template <class T>
EMBER_HD T sum_of_products(T a, T b, T c, T d) {
#if defined(__CUDA_ARCH__) && !defined(EMBER_FUSES_NOTHING)
  return fma(a, b, mul(c, d));
#else
  return a * b + c * d;
#endif
}
template <class T>
EMBER_HD T difference_of_products(T a, T b, T c, T d) {
#if defined(__CUDA_ARCH__) && !defined(EMBER_FUSES_NOTHING)
  return fma(a, b, -mul(c, d));
#else
  return a * b - c * d;
#endif
}

/// c[0] + x * (c[1] + x * (...)). By recursion: a loop in it would keep callers from becoming
/// vectors.
template <int i = 0, class T, int n>
EMBER_HD T polynomial(T x, const T (&c)[n]) {
  if constexpr (i == n - 1)
    return c[i];
  else
    return fma(polynomial<i + 1>(x, c), x, c[i]);
}

}  // namespace ember::inline v0::m::rounded
