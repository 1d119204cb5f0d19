// Functions of float on the host, as short sequences without branches and calls, which the compiler
// makes vectors of. They compute in double, where a polynomial of modest degree is exact to a few
// thousandths of a float's last place: the results are those of mathematics, rounded once, but for
// very rare ties.
#pragma once

#include "ember/scalar/config.h"

namespace ember::m::detail {

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

/// 2^n * e^r for a whole number n, given as n + kShift, and |r| <= ln(2) / 2.
inline constexpr double kShift = 0x1.8p52;
EMBER_HD double exp_parts(double shifted, double r) {
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * double_from_bits((double_bits(shifted) + 1023) << 52);
}
/// Within the range of float, and so far beyond that it becomes infinity or zero. NaN stays.
EMBER_HD double exp_of_float(double x) {
  x = x < -110 ? -110 : x;
  x = x > 100 ? 100 : x;
  const double shifted = x * 1.4426950408889634 + kShift;
  return exp_parts(shifted, x - (shifted - kShift) * 0.69314718055994531);
}
EMBER_HD float exp_float(float x) { return static_cast<float>(exp_of_float(x)); }

EMBER_HD float exp2_float(float value) {
  double x = value;
  x = x < -160 ? -160 : x;
  x = x > 140 ? 140 : x;
  const double shifted = x + kShift;
  return static_cast<float>(exp_parts(shifted, (x - (shifted - kShift)) * 0.69314718055994531));
}

EMBER_HD float tanh_float(float value) {
  const double x = value;
  const double size = x < 0 ? -x : x;
  const double power = exp_of_float(2 * size);
  const double large = 1 - 2 / (power + 1);
  const double s = x * x;
  double p = -1382.0 / 155925;
  p = p * s + 62.0 / 2835;
  p = p * s - 17.0 / 315;
  p = p * s + 2.0 / 15;
  p = p * s - 1.0 / 3;
  const double small = x * (1 + s * p);  // keeps the sign of zero
  return static_cast<float>(size < 0.25 ? small : (x < 0 ? -large : large));
}

/// log(x) * unit, where log(2) * unit is `whole`.
EMBER_HD float log_float(float value, double whole, double unit) {
  const double x = value;
  const std::uint64_t bits = double_bits(x);
  // The exponent as a double, by the bits of 2^52.
  double exponent = double_from_bits(0x4330000000000000U | (bits >> 52 & 0x7ffU)) - (0x1p52 + 1023);
  double part = double_from_bits((bits & 0xfffffffffffffU) | 0x3ff0000000000000U);
  exponent = part > 1.4142135623730951 ? exponent + 1 : exponent;
  part = part > 1.4142135623730951 ? part * 0.5 : part;
  const double q = (part - 1) / (part + 1);
  const double s = q * q;
  double p = 1.0 / 11;
  p = p * s + 1.0 / 9;
  p = p * s + 1.0 / 7;
  p = p * s + 1.0 / 5;
  p = p * s + 1.0 / 3;
  p = p * s + 1;
  double result = exponent * whole + 2 * q * p * unit;
  result = x < __builtin_inf() ? result : x;  // infinity and NaN stay
  result = x == 0 ? -__builtin_inf() : result;
  result = x < 0 ? __builtin_nan("") : result;
  return static_cast<float>(result);
}

}  // namespace ember::m::detail
