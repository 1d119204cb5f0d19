// Functions of angles, and inverse ones, of float on the host; as in float_math.h.
#pragma once

#include "ember/scalar/float_math.h"

namespace ember::inline v0::m::detail {

/// Angles up to which a multiple of pi / 2 can be taken away in two steps. Others, infinity and NaN
/// are left to the C library.
EMBER_HD bool is_ordinary_angle(float x) { return size_of(x) < 0x1p25; }

struct Angle {
  double sin;
  double cos;
  std::uint64_t quarter;  ///< the last places of how many quarters of a turn were taken away
};
/// Sine and cosine of what is left of x within an eighth of a turn around zero; the errors are
/// 2^-38 and 2^-34.
EMBER_HD Angle angle_parts(double x) {
  const double shifted = x * 0.63661977236758134 + kShift;
  const double n = shifted - kShift;
  // pi / 2 in two parts, of which the first has so few places that its product with n is exact.
  const double r = (x - n * 0x1.921fb54p+0) - n * 0x1.10b4611a62633p-30;
  const double u = r * r;
  const double s =
      r * polynomial(u, 0x1.6cb0a84092cadp-19, -0x1.a00ec71907557p-13, 0x1.111107186e73fp-7,
                     -0x1.55555548e34f7p-3, 0x1.fffffffff5feep-1);
  const double c = polynomial(u, 0x1.98e7dc2234392p-16, -0x1.6c06eb6bdf7bcp-10,
                              0x1.555538a590dcep-5, -0x1.ffffffb665277p-2, 0x1.ffffffff84b95p-1);
  return {s, c, double_bits(shifted)};
}
EMBER_HD float sin_float(float value) {
  const Angle angle = angle_parts(value);
  const double size = (angle.quarter & 1) != 0 ? angle.cos : angle.sin;
  const double result = double_from_bits(double_bits(size) ^ (angle.quarter & 2) << 62);
  return value == 0 ? value : static_cast<float>(result);  // keeps the sign of zero
}
EMBER_HD float cos_float(float value) {
  const Angle angle = angle_parts(value);
  const double size = (angle.quarter & 1) != 0 ? angle.sin : angle.cos;
  const std::uint64_t quarter = angle.quarter + 1;
  return static_cast<float>(double_from_bits(double_bits(size) ^ (quarter & 2) << 62));
}
EMBER_HD float tan_float(float value) {
  const Angle angle = angle_parts(value);
  const bool odd = (angle.quarter & 1) != 0;
  const double above = odd ? -angle.cos : angle.sin;
  const double below = odd ? angle.sin : angle.cos;
  return value == 0 ? value : static_cast<float>(above / below);
}

/// The angle of a point in the first quadrant, neither coordinate negative or infinite: of the
/// point turned by none, one or two eighths, so that the tangent is at most that of a sixteenth.
/// The error is 2^-35.
EMBER_HD double angle_of(double y, double x) {
  constexpr double kPi = 3.14159265358979324;
  constexpr double kTangent = 0.41421356237309505;  // of pi / 8; that of 3 pi / 8 is 1 / kTangent
  const bool low = y <= kTangent * x;
  const bool high = y * kTangent > x;
  const double above = low ? y : high ? -x : y - x;
  const double below = low ? x : high ? y : y + x;
  const double start = low ? 0 : high ? kPi / 2 : kPi / 4;
  const double q = above / (below == 0 ? 1 : below);  // the angle of nothing is 0
  return start + q * polynomial(q * q, 0x1.82329cd6bf213p-5, -0x1.5a8362448a494p-4,
                                0x1.c43f3c964fa94p-4, -0x1.247cfba59c883p-3, 0x1.999901193962ep-3,
                                -0x1.5555548774b57p-2, 0x1.ffffffffd27a3p-1);
}
/// Infinity as a number that is as good as that beside any float, and less than which its products
/// with others are.
EMBER_HD double instead_of_infinity(double x) { return x > 0x1p300 ? 0x1p300 : x; }

EMBER_HD float atan_float(float value) {
  const double x = value;
  const double result = angle_of(instead_of_infinity(size_of(x)), 1);
  return static_cast<float>(with_sign_of(result, x));
}
EMBER_HD float atan2_float(float above, float below) {
  const double y = above;
  const double x = below;
  const double right = angle_of(instead_of_infinity(size_of(y)), instead_of_infinity(size_of(x)));
  const double result =
      with_sign_of(1, x) < 0 ? 3.14159265358979324 - right : right;  // -0.0 is to the left too
  return static_cast<float>(with_sign_of(result, y));
}

/// asin(x) / x for u = x * x <= 1/4; the error is 2^-35.
EMBER_HD double asin_polynomial(double u) {
  return polynomial(u, 0x1.1e52ae740152dp-5, 0x1.d96c1d5694ec3p-8, 0x1.94dfadea8460ep-6,
                    0x1.ed07e215af63ep-6, 0x1.6ddf139d3ca00p-5, 0x1.33328d4efe81fp-4,
                    0x1.55555658bc51dp-3, 0x1.ffffffffdece6p-1);
}
/// Of sizes above 1/2 by the half angle of the complement. NaN above one, as the root is.
EMBER_HD float asin_float(float value) {
  const double x = size_of(value);
  const bool small = x <= 0.5;
  const double u = small ? x * x : (1 - x) * 0.5;
  const double part = (small ? x : __builtin_sqrt(u)) * asin_polynomial(u);
  const double result = small ? part : 1.57079632679489662 - 2 * part;
  return static_cast<float>(x > 1 ? __builtin_nan("") : with_sign_of(result, value));
}
EMBER_HD float acos_float(float value) {
  constexpr double kPi = 3.14159265358979324;
  const double x = value;
  const double size = size_of(x);
  const bool small = size <= 0.5;
  const double u = small ? x * x : (1 - size) * 0.5;
  const double part = (small ? x : __builtin_sqrt(u)) * asin_polynomial(u);
  const double large = x < 0 ? kPi - 2 * part : 2 * part;
  const double result = small ? kPi / 2 - part : large;
  return static_cast<float>(size > 1 ? __builtin_nan("") : result);
}

}  // namespace ember::inline v0::m::detail
