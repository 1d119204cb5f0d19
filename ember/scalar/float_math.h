// Functions of float on the host, as short sequences without branches and calls, which the compiler
// makes vectors of. They compute in double, where a polynomial of modest degree is exact to a few
// thousandths of a float's last place: the results are those of mathematics, rounded once, but for
// very rare ties. Those of angles are in float_angles.h.
#pragma once

#include "ember/scalar/config.h"

namespace ember::inline v0::m::detail {

EMBER_HD std::uint64_t double_bits(double value) {
  std::uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
EMBER_HD double double_from_bits(std::uint64_t bits) {
  double value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// The last places of n + kShift are those of the whole number n, which is nearest to what was
/// added.
inline constexpr double kShift = 0x1.8p52;
EMBER_HD double power_of_two(double shifted) {
  return double_from_bits((double_bits(shifted) + 1023) << 52);
}

/// A polynomial, from its highest coefficient down.
template <class... Coefficients>
EMBER_HD double polynomial(double x, double highest, Coefficients... others) {
  double value = highest;
  ((value = value * x + others), ...);
  return value;
}
/// The sign of another number, where it does not cost a call.
EMBER_HD double with_sign_of(double size, double other) {
  constexpr std::uint64_t kSign = 0x8000000000000000;
  return double_from_bits((double_bits(size) & ~kSign) | (double_bits(other) & kSign));
}
EMBER_HD double size_of(double x) { return double_from_bits(double_bits(x) & 0x7fffffffffffffff); }

// The polynomials have the smallest relative error that their degree allows in the interval, found
// by Remez' exchanges. A sum of a product each, without divisions: vectors divide slowly.

/// 2^n * e^r for n + kShift and |r| <= ln(2) / 2; the error is 2^-34.
EMBER_HD double exp_parts(double shifted, double r) {
  return polynomial(r, 0x1.9eb6fa8803451p-13, 0x1.6da4c0b56f3eap-10, 0x1.1112fa750237ep-7,
                    0x1.55546859be1a8p-5, 0x1.5555534398a7fp-3, 0x1.00000059d9230p-1,
                    0x1.000000010b8b9p+0, 0x1.ffffffffababcp-1) *
         power_of_two(shifted);
}
/// e^x for -700 < x < 700.
EMBER_HD double exp_double(double x) {
  const double shifted = x * 1.4426950408889634 + kShift;
  return exp_parts(shifted, x - (shifted - kShift) * 0.69314718055994531);
}
/// Beyond the range of float the argument is cut, so far outside that it becomes infinity or zero.
/// NaN stays.
EMBER_HD float exp_float(float value) {
  double x = value;
  x = x < -110 ? -110 : x;
  x = x > 100 ? 100 : x;
  return static_cast<float>(exp_double(x));
}

EMBER_HD float exp2_float(float value) {
  double x = value;
  x = x < -160 ? -160 : x;
  x = x > 140 ? 140 : x;
  const double shifted = x + kShift;
  return static_cast<float>(exp_parts(shifted, (x - (shifted - kShift)) * 0.69314718055994531));
}

/// e^x - 1, without cancellation for small x.
EMBER_HD double expm1_double(double x) {
  const double shifted = x * 1.4426950408889634 + kShift;
  const double r = x - (shifted - kShift) * 0.69314718055994531;
  // e^r - 1 over r; the error is 2^-32.
  const double p = polynomial(r, 0x1.a1aa3a7d28f04p-13, 0x1.6d7546db105b3p-10, 0x1.11108639d44c7p-7,
                              0x1.5554accc7d68cp-5, 0x1.5555559572249p-3, 0x1.0000002881200p-1,
                              0x1.ffffffffec4b4p-1);
  const double power = power_of_two(shifted);
  return p * r * power + (power - 1);
}
EMBER_HD float expm1_float(float value) {
  double x = value;
  x = x < -40 ? -40 : x;
  x = x > 100 ? 100 : x;
  return x == 0 ? value : static_cast<float>(expm1_double(x));  // keeps the sign of zero
}
/// With e = exp(2x) - 1: e / (e + 2).
EMBER_HD float tanh_float(float value) {
  double x = value;
  x = x < -10 ? -10 : x;
  x = x > 10 ? 10 : x;
  const double e = expm1_double(2 * x);
  return x == 0 ? value : static_cast<float>(e / (e + 2));
}

/// The parts of the exponential: those of x = n * ln(2) + r.
struct Hyperbolic {
  double sinh;
  double cosh;
};
EMBER_HD Hyperbolic hyperbolic(double x) {
  x = x < -100 ? -100 : x;
  x = x > 100 ? 100 : x;
  const double shifted = x * 1.4426950408889634 + kShift;
  const double r = x - (shifted - kShift) * 0.69314718055994531;
  const double u = r * r;
  // The errors are 2^-38 and 2^-35.
  const double s = r * polynomial(u, 0x1.a17d87a05fdc6p-13, 0x1.1110a66f824e0p-7,
                                  0x1.5555557e396dep-3, 0x1.fffffffff637ap-1);
  const double c = polynomial(u, 0x1.6da5e1e4c3c4bp-10, 0x1.555466b46863ap-5, 0x1.0000005b0bb84p-1,
                              0x1.ffffffffa99f1p-1);
  const double up = power_of_two(shifted) * 0.5;
  const double down = power_of_two(kShift - (shifted - kShift)) * 0.5;
  return {(up - down) * c + (up + down) * s, (up + down) * c + (up - down) * s};
}
EMBER_HD float sinh_float(float x) { return x == 0 ? x : static_cast<float>(hyperbolic(x).sinh); }
EMBER_HD float cosh_float(float x) { return static_cast<float>(hyperbolic(x).cosh); }

/// log(x) * unit, where log(2) * unit is `whole`; for numbers that double does not hold in full
/// precision only if they are zero, infinite or NaN.
EMBER_HD double log_double(double x, double whole = 0.69314718055994531, double unit = 1) {
  // x = 2^exponent * (1 + f), where 1 + f is at least sqrt(1/2) and less than sqrt(2). The exponent
  // becomes a double by the bits of 2^52.
  constexpr std::uint64_t kOne = 0x3ff0000000000000;
  constexpr std::uint64_t kHalfRoot = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = double_bits(x);
  const std::uint64_t biased = bits + (kOne - kHalfRoot);
  const double exponent = double_from_bits(0x4330000000000000 | biased >> 52) - (0x1p52 + 1023);
  const double f = double_from_bits(bits - (biased & 0xfff0000000000000) + kOne) - 1;
  // log(1 + f) over f; the error is 2^-33.
  const double p = polynomial(f, -0x1.ea4f369987f53p-5, 0x1.b7aa1d8541302p-4, -0x1.bdb1141892773p-4,
                              0x1.c36cdb0df91eep-4, -0x1.fc567cc36b245p-4, 0x1.249130f101a09p-3,
                              -0x1.55695209a95ebp-3, 0x1.999a31ac587fep-3, -0x1.ffffa6b8d2f44p-3,
                              0x1.5555541d0aa58p-2, -0x1.0000001c646e1p-1, 0x1.000000002663dp+0);
  double result = exponent * whole + f * p * unit;
  result = x < __builtin_inf() ? result : x;  // infinity and NaN stay
  result = x == 0 ? -__builtin_inf() : result;
  return x < 0 ? __builtin_nan("") : result;
}
EMBER_HD float log_float(float x) { return static_cast<float>(log_double(x)); }
EMBER_HD float log2_float(float x) {
  return static_cast<float>(log_double(x, 1, 1.4426950408889634));
}
EMBER_HD float log10_float(float x) {
  return static_cast<float>(log_double(x, 0.30102999566398120, 0.43429448190325183));
}
/// Near zero 1 + x loses what counts, and three terms of the series are enough.
EMBER_HD float log1p_float(float value) {
  const double x = value;
  const double series = x + x * x * (x * 0.33333333333333333 - 0.5);
  const double result = size_of(x) < 0x1p-15 ? series : log_double(1 + x);
  return x == 0 ? value : static_cast<float>(result);
}
EMBER_HD float asinh_float(float value) {
  const double x = size_of(value);
  const double series = x - x * x * x * 0.16666666666666667;
  const double result = x < 0x1p-12 ? series : log_double(x + __builtin_sqrt(x * x + 1));
  return static_cast<float>(with_sign_of(result, value));
}
/// NaN below one, as the root is.
EMBER_HD float acosh_float(float value) {
  const double x = value;
  const double over = x - 1;
  const double result = log_double(x + __builtin_sqrt(over * (x + 1)));
  return static_cast<float>(x < 1 ? __builtin_nan("") : result);
}
EMBER_HD float atanh_float(float value) {
  const double x = value;
  const double series = x + x * x * x * 0.33333333333333333;
  const double result = size_of(x) < 0x1p-12 ? series : 0.5 * log_double((1 + x) / (1 - x));
  return x == 0 ? value : static_cast<float>(result);
}

/// x to the power y for ordinary arguments: 2^(y * log2(x)), whose error grows with the size of
/// the exponent, to 2^-26.
EMBER_HD bool is_ordinary_power(float x, float y) {
  return x > 0 && x < __builtin_inff() && size_of(y) < __builtin_inf();
}
EMBER_HD float pow_float(float x, float y) {
  double exponent = y * log_double(x, 1, 1.4426950408889634);
  exponent = exponent < -160 ? -160 : exponent;
  exponent = exponent > 140 ? 140 : exponent;
  const double shifted = exponent + kShift;
  return static_cast<float>(
      exp_parts(shifted, (exponent - (shifted - kShift)) * 0.69314718055994531));
}

/// What dividing towards zero leaves, if the quotient is so small that its product with y is exact.
EMBER_HD bool is_ordinary_quotient(float x, float y) {
  const double size = size_of(y);
  return size_of(x) < 0x1p28 * size && size < __builtin_inf();
}
EMBER_HD float fmod_float(float x, float y) {
  const double quotient = __builtin_trunc(static_cast<double>(x) / y);
  return static_cast<float>(with_sign_of(x - quotient * y, x));
}

/// The squares and their sum are exact enough, and do not overflow.
EMBER_HD float hypot_float(float x, float y) {
  const double a = x;
  const double b = y;
  const double result = __builtin_sqrt(a * a + b * b);
  // Infinite beside NaN, too.
  const double above = size_of(a) == __builtin_inf() ? __builtin_inf() : result;
  return static_cast<float>(size_of(b) == __builtin_inf() ? __builtin_inf() : above);
}

/// 1 - erf(x) for x >= 1, up to where float has nothing left: e^(-x^2) times what varies slowly, a
/// polynomial of (x - 2) / (x + 2). The error is 2^-33.
EMBER_HD double erfc_tail(double x) {
  x = x > 10.25 ? 10.25 : x;
  x = x < 1 ? 1 : x;
  const double p = polynomial((x - 2) / (x + 2), -0x1.b17d5007fd5d7p-15, 0x1.d6a6e3a2f6c7dp-13,
                              0x1.89faa632091c6p-15, -0x1.04b4365297d0bp-10, -0x1.bafcd0a694564p-11,
                              0x1.caa5b79b02d19p-8, 0x1.e93f041617775p-9, -0x1.437f11da77f12p-4,
                              0x1.eeea7eb0e36a5p-3, -0x1.b57034ed491c9p-2, 0x1.058671b4b0f6bp-2);
  return p * exp_double(-x * x);
}
/// erf(x) for |x| <= 1; the error is 2^-34.
EMBER_HD double erf_middle(double x) {
  return x * polynomial(x * x, -0x1.4383ed35ce1b2p-17, 0x1.d82687f780fe5p-14,
                        -0x1.bcbe98ef4e0b1p-11, 0x1.5628edd14ba4dp-8, -0x1.b829a7a3eb952p-6,
                        0x1.ce2f0798a7d07p-4, -0x1.8127465fb9db7p-2, 0x1.20dd7504007f9p+0);
}
EMBER_HD float erf_float(float value) {
  const double x = value;
  const double size = size_of(x);
  const double outer = with_sign_of(1 - erfc_tail(size), x);
  const double result = size <= 1 ? erf_middle(x) : outer;
  return x != x ? value : static_cast<float>(result);
}
EMBER_HD float erfc_float(float value) {
  const double x = value;
  const double tail = erfc_tail(size_of(x));
  const double outer = x < 0 ? 2 - tail : tail;
  const double result = size_of(x) <= 1 ? 1 - erf_middle(x) : outer;
  return x != x ? value : static_cast<float>(result);
}

}  // namespace ember::inline v0::m::detail
