// Functions of float on the host, as short sequences without branches and calls, which the compiler
// makes vectors of. They compute in double, where a polynomial of modest degree is exact to a few
// thousandths of a float's last place: the results are those of mathematics, rounded once, but for
// very rare ties.
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

// The polynomials have the smallest relative error that their degree allows in the interval, found
// by Remez' exchanges. A sum of a product each, without divisions: vectors divide slowly.

/// 2^n * e^r for n + kShift and |r| <= ln(2) / 2; the error is 2^-34.
EMBER_HD double exp_parts(double shifted, double r) {
  double p = 0x1.9eb6fa8803451p-13;
  p = p * r + 0x1.6da4c0b56f3eap-10;
  p = p * r + 0x1.1112fa750237ep-7;
  p = p * r + 0x1.55546859be1a8p-5;
  p = p * r + 0x1.5555534398a7fp-3;
  p = p * r + 0x1.00000059d9230p-1;
  p = p * r + 0x1.000000010b8b9p+0;
  p = p * r + 0x1.ffffffffababcp-1;
  return p * power_of_two(shifted);
}
/// Beyond the range of float the argument is cut, so far outside that it becomes infinity or zero.
/// NaN stays.
EMBER_HD float exp_float(float value) {
  double x = value;
  x = x < -110 ? -110 : x;
  x = x > 100 ? 100 : x;
  const double shifted = x * 1.4426950408889634 + kShift;
  return static_cast<float>(exp_parts(shifted, x - (shifted - kShift) * 0.69314718055994531));
}

EMBER_HD float exp2_float(float value) {
  double x = value;
  x = x < -160 ? -160 : x;
  x = x > 140 ? 140 : x;
  const double shifted = x + kShift;
  return static_cast<float>(exp_parts(shifted, (x - (shifted - kShift)) * 0.69314718055994531));
}

/// With e = exp(2x) - 1, which is small for small x without cancellation: e / (e + 2).
EMBER_HD float tanh_float(float value) {
  double x = value;
  x = x < -10 ? -10 : x;
  x = x > 10 ? 10 : x;
  const double shifted = x * 2.8853900817779268 + kShift;
  const double r = 2 * x - (shifted - kShift) * 0.69314718055994531;
  // exp(r) - 1 over r; the error is 2^-32.
  double p = 0x1.a1aa3a7d28f04p-13;
  p = p * r + 0x1.6d7546db105b3p-10;
  p = p * r + 0x1.11108639d44c7p-7;
  p = p * r + 0x1.5554accc7d68cp-5;
  p = p * r + 0x1.5555559572249p-3;
  p = p * r + 0x1.0000002881200p-1;
  p = p * r + 0x1.ffffffffec4b4p-1;
  const double power = power_of_two(shifted);
  const double e = p * r * power + (power - 1);
  const double result = e / (e + 2);
  return x == 0 ? value : static_cast<float>(result);  // keeps the sign of zero
}

/// log(x) * unit, where log(2) * unit is `whole`.
EMBER_HD float log_float(float value, double whole, double unit) {
  const double x = value;
  // x = 2^exponent * (1 + f), where 1 + f is at least sqrt(1/2) and less than sqrt(2). The exponent
  // becomes a double by the bits of 2^52.
  constexpr std::uint64_t kOne = 0x3ff0000000000000;
  constexpr std::uint64_t kHalfRoot = 0x3fe6a09e667f3bcd;
  const std::uint64_t bits = double_bits(x);
  const std::uint64_t biased = bits + (kOne - kHalfRoot);
  const double exponent = double_from_bits(0x4330000000000000 | biased >> 52) - (0x1p52 + 1023);
  const double f = double_from_bits(bits - (biased & 0xfff0000000000000) + kOne) - 1;
  // log(1 + f) over f; the error is 2^-33.
  double p = -0x1.ea4f369987f53p-5;
  p = p * f + 0x1.b7aa1d8541302p-4;
  p = p * f - 0x1.bdb1141892773p-4;
  p = p * f + 0x1.c36cdb0df91eep-4;
  p = p * f - 0x1.fc567cc36b245p-4;
  p = p * f + 0x1.249130f101a09p-3;
  p = p * f - 0x1.55695209a95ebp-3;
  p = p * f + 0x1.999a31ac587fep-3;
  p = p * f - 0x1.ffffa6b8d2f44p-3;
  p = p * f + 0x1.5555541d0aa58p-2;
  p = p * f - 0x1.0000001c646e1p-1;
  p = p * f + 0x1.000000002663dp+0;
  double result = exponent * whole + f * p * unit;
  result = x < __builtin_inf() ? result : x;  // infinity and NaN stay
  result = x == 0 ? -__builtin_inf() : result;
  result = x < 0 ? __builtin_nan("") : result;
  return static_cast<float>(result);
}

}  // namespace ember::inline v0::m::detail
