// Which numbers have a place in which dtype; the limits are those of IEEE 754 and of two's
// complement.
#include "ember/tensor/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ember/base/error.h"
#include "tests/support/devices.h"

namespace ember::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Numbers, FitIntegersWithinTheirRange) {
  EXPECT_TRUE(fits(127, Dtype::int8));
  EXPECT_FALSE(fits(128, Dtype::int8));
  EXPECT_TRUE(fits(-128, Dtype::int8));
  EXPECT_FALSE(fits(-129, Dtype::int8));
  EXPECT_TRUE(fits(255, Dtype::uint8));
  EXPECT_FALSE(fits(256, Dtype::uint8));
  EXPECT_TRUE(fits(-255, Dtype::uint8)) << "the opposite of one";
  EXPECT_FALSE(fits(-256, Dtype::uint8));
  EXPECT_FALSE(fits(INT64_C(1) << 31, Dtype::int32));
  EXPECT_TRUE(fits(INT64_MIN, Dtype::int64));
  EXPECT_TRUE(fits(true, Dtype::int8));
  EXPECT_TRUE(fits(300, Dtype::bool_));
}

TEST(Numbers, AreCutOffButNotBeyondTheRange) {
  EXPECT_TRUE(fits(1.9, Dtype::uint8));
  EXPECT_FALSE(fits(255.5, Dtype::uint8));
  EXPECT_FALSE(fits(-0.5, Dtype::uint8));
  EXPECT_TRUE(fits(-127.5, Dtype::int8));
  EXPECT_FALSE(fits(0x1p63, Dtype::int64));
  EXPECT_TRUE(fits(-0x1p63, Dtype::int64));
  for (const double none : {kInf, -kInf, kNan}) {
    EXPECT_FALSE(fits(none, Dtype::int64));
    EXPECT_TRUE(fits(none, Dtype::bool_));
    EXPECT_TRUE(fits(none, Dtype::float16));
  }
}

TEST(Numbers, FitFloatsUpToTheLargest) {
  EXPECT_TRUE(fits(65504.0, Dtype::float16));
  EXPECT_FALSE(fits(65505.0, Dtype::float16));
  EXPECT_FALSE(fits(65505, Dtype::float16));
  EXPECT_FALSE(fits(-1e5, Dtype::float16));
  EXPECT_TRUE(fits(3.3e38, Dtype::bfloat16));
  EXPECT_FALSE(fits(3.4e38, Dtype::bfloat16));
  EXPECT_TRUE(fits(3.4e38, Dtype::float32));
  EXPECT_FALSE(fits(1e39, Dtype::float32));
  EXPECT_TRUE(fits(1e300, Dtype::float64));
  EXPECT_TRUE(fits(0.1, Dtype::float16)) << "rounding is no overflow";
}

TEST(Numbers, ComplexOnesFitWhereTheirPartsDo) {
  const Complex<double> real(2, 0);
  const Complex<double> both(2, 1);
  EXPECT_TRUE(fits(real, Dtype::int8));
  EXPECT_FALSE(fits(both, Dtype::int8));
  EXPECT_FALSE(fits(both, Dtype::float64));
  EXPECT_TRUE(fits(both, Dtype::bool_));
  EXPECT_TRUE(fits(both, Dtype::complex64));
  EXPECT_FALSE(fits(Complex<double>(0, 1e39), Dtype::complex64));
}

TEST(Numbers, ThatDoNotFitAreNamed) {
  EXPECT_ERROR(require_fits(300, Dtype::uint8), Error,
               "value cannot be converted to type uint8 without overflow: 300");
  EXPECT_ERROR(require_fits(kNan, Dtype::int32), Error, "int32 without overflow: nan");
  EXPECT_ERROR(require_fits(Complex<double>(1, -2), Dtype::float32), Error,
               "float32 without overflow: 1-2j");
}

}  // namespace
}  // namespace ember::test
