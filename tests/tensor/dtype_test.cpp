// Element types: their facts, torch's table of promotion, conversions, and numbers without a
// tensor.
#include <complex>
#include <limits>
#include <map>
#include <random>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

TEST(Dtypes, HaveTheirSizesAndNames) {
  const std::map<Dtype, std::pair<std::size_t, std::string>> facts{{bool_, {1, "bool"}},
                                                                   {uint8, {1, "uint8"}},
                                                                   {int8, {1, "int8"}},
                                                                   {int16, {2, "int16"}},
                                                                   {int32, {4, "int32"}},
                                                                   {int64, {8, "int64"}},
                                                                   {float16, {2, "float16"}},
                                                                   {bfloat16, {2, "bfloat16"}},
                                                                   {float32, {4, "float32"}},
                                                                   {float64, {8, "float64"}},
                                                                   {complex32, {4, "complex32"}},
                                                                   {complex64, {8, "complex64"}},
                                                                   {complex128, {16, "complex128"}},
                                                                   {uint16, {2, "uint16"}},
                                                                   {uint32, {4, "uint32"}},
                                                                   {uint64, {8, "uint64"}}};
  ASSERT_EQ(facts.size(), static_cast<std::size_t>(kDtypes));
  for (const auto& [dtype, fact] : facts) {
    EXPECT_EQ(item_size(dtype), fact.first) << fact.second;
    EXPECT_EQ(dtype_name(dtype), fact.second);
  }
  EXPECT_STREQ(legacy_name(int64), "Long");
  EXPECT_STREQ(legacy_name(uint8), "Byte");
  EXPECT_STREQ(legacy_name(complex128), "ComplexDouble");
  EXPECT_EQ(real_dtype(complex128), float64);
  EXPECT_EQ(real_dtype(int8), int8);
  EXPECT_STREQ(legacy_name(complex32), "ComplexHalf");
  EXPECT_EQ(real_dtype(complex32), float16);
  EXPECT_EQ(complex_dtype(float16), complex32);
  EXPECT_EQ(complex_dtype(bfloat16), complex64);
  EXPECT_EQ(complex_dtype(float64), complex128);
  EXPECT_EQ(byte_count(3, complex128), 48U);
  EXPECT_ERROR((void)byte_count(std::int64_t{1} << 62, float32), ValueError,
               "more than 2^64 bytes");
}

/// torch's rules, stated once more and otherwise: the categories bool < integer < floating <
/// complex; the higher category decides, and within one category the wider type, with three
/// exceptions.
Dtype promoted(Dtype a, Dtype b) {
  const auto category = [](Dtype d) {
    return d == bool_                                                      ? 0
           : d == complex32 || d == complex64 || d == complex128           ? 3
           : d == float16 || d == bfloat16 || d == float32 || d == float64 ? 2
                                                                           : 1;
  };
  if (a == b) return a;
  const Dtype high = category(a) >= category(b) ? a : b;
  const Dtype low = category(a) >= category(b) ? b : a;
  if (category(high) == 3) {
    if (category(low) < 2) return high;
    // Two bytes for float16, four for whatever needs more than its digits or range.
    const auto width = [](Dtype d) { return d == bfloat16 ? 4 : item_size(real_dtype(d)); };
    const std::size_t widest = std::max<std::size_t>(width(high), width(low));
    return widest == 2 ? complex32 : widest == 4 ? complex64 : complex128;
  }
  if (category(high) != category(low)) return high;
  if (category(high) == 2 && item_size(a) == 2 && item_size(b) == 2) return float32;
  if (item_size(a) != item_size(b)) return item_size(a) > item_size(b) ? a : b;
  return int16;  // uint8 and int8
}

TEST(Dtypes, PromoteAsInTorchsTable) {
  for (const Dtype a : all_dtypes())
    for (const Dtype b : all_dtypes()) {
      const bool promotes = a == b || (!is_unsigned_wide(a) && !is_unsigned_wide(b)) ||
                            is_floating_point(a) || is_floating_point(b);
      if (promotes)
        EXPECT_EQ(promote_types(a, b), promoted(a, b)) << dtype_name(a) << ", " << dtype_name(b);
      else
        EXPECT_ERROR(
            (void)promote_types(a, b), Error,
            std::string("attempted to promote ") + legacy_name(a) + " and " + legacy_name(b));
    }
  // Rows of the published table.
  EXPECT_EQ(promote_types(uint8, int8), int16);
  EXPECT_EQ(promote_types(float16, bfloat16), float32);
  EXPECT_EQ(promote_types(int64, float16), float16);
  EXPECT_EQ(promote_types(float64, complex64), complex128);
  EXPECT_EQ(promote_types(bool_, uint8), uint8);
}

TEST(Dtypes, CastOnlyUpThroughTheCategories) {
  EXPECT_TRUE(can_cast(float64, float16));
  EXPECT_TRUE(can_cast(int64, uint8));
  EXPECT_TRUE(can_cast(bool_, int8));
  EXPECT_TRUE(can_cast(float32, complex64));
  EXPECT_FALSE(can_cast(float16, int64));
  EXPECT_FALSE(can_cast(complex64, float64));
  EXPECT_FALSE(can_cast(uint8, bool_));
}

/// The nearest half of a double, ties to even, by search among all of them.
TEST(Halves, RoundToTheNearest) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::uint32_t> bits;
  for (int i = 0; i < 200000; ++i) {
    const float x = detail::float_from_bits(bits(random));
    if (!(std::abs(x) < 65504)) continue;
    // Units of the last place at x: 2^(exponent - 10), at least 2^-24.
    const int exponent = std::max(std::ilogb(x == 0 ? 1e-30F : x), -14);
    const double unit = std::ldexp(1.0, exponent - 10);
    const double expected = std::nearbyint(static_cast<double>(x) / unit) * unit;
    ASSERT_EQ(static_cast<double>(static_cast<float>(Half(x))), expected) << x;
    ASSERT_EQ(std::signbit(static_cast<float>(Half(x))), std::signbit(x)) << x;
  }
  EXPECT_EQ(Half(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0F).bits, 0x7c00);  // a tie, to the even: infinity
  EXPECT_EQ(Half(-INFINITY).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(NAN))));
  EXPECT_EQ(Half(0x1p-25F).bits, 0);  // a tie with zero
  EXPECT_EQ(Half(0x1.8p-25F).bits, 1);
}

TEST(Halves, EveryOneIsItself) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    Half half{};
    half.bits = static_cast<std::uint16_t>(i);
    BFloat16 narrow{};
    narrow.bits = half.bits;
    const float x = static_cast<float>(half);
    const float y = static_cast<float>(narrow);
    ASSERT_TRUE(std::isnan(x) || Half(x).bits == i);
    ASSERT_TRUE(std::isnan(y) || BFloat16(y).bits == i);
    ASSERT_EQ(std::isnan(x), (i & 0x7fff) > 0x7c00);
    ASSERT_EQ(std::isnan(y), (i & 0x7fff) > 0x7f80);
  }
  EXPECT_EQ(BFloat16(detail::float_from_bits(0x3f808000)).bits, 0x3f80);  // ties to even
  EXPECT_EQ(BFloat16(detail::float_from_bits(0x3f818000)).bits, 0x3f82);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Converting, KeepsWhatItCan) {
  EXPECT_EQ(convert<std::int8_t>(300.7F), 44);  // the low bits of 300
  EXPECT_EQ(convert<std::uint8_t>(-1.0), 255);
  EXPECT_EQ(convert<std::int32_t>(-2.9), -2);
  EXPECT_EQ(convert<std::uint8_t>(std::int64_t{257}), 1);
  EXPECT_TRUE(convert<bool>(0.25F));
  EXPECT_TRUE(convert<bool>(NAN));
  EXPECT_FALSE(convert<bool>(-0.0));
  EXPECT_TRUE(convert<bool>(Complex<float>(0, 1)));
  EXPECT_EQ(convert<float>(Complex<double>(2, 5)), 2.0F);
  EXPECT_EQ(convert<Complex<double>>(true), Complex<double>(1, 0));
  EXPECT_EQ(static_cast<float>(convert<Half>(std::int64_t{2049})), 2048.0F);
}

TEST(Numbers, RememberTheirKind) {
  EXPECT_EQ(Scalar().dtype(), int64);
  EXPECT_EQ(Scalar(true).dtype(), bool_);
  EXPECT_EQ(Scalar(std::uint8_t{3}).dtype(), int64);
  EXPECT_EQ(Scalar(1.5F).dtype(), float64);
  EXPECT_EQ(Scalar(Half(1.5F)).dtype(), float64);
  EXPECT_EQ(Scalar(std::complex<float>(1, 2)).dtype(), complex128);
  EXPECT_EQ(Scalar(INT64_MIN).to<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(Scalar(7).to<double>(), 7.0);
  EXPECT_EQ(Scalar(2.75).to<std::int32_t>(), 2);
  EXPECT_EQ(Scalar(std::complex<double>(1, 2)).to<Complex<float>>(), Complex<float>(1, 2));
  EXPECT_EQ(Scalar(-3).to<Complex<float>>(), Complex<float>(-3, 0));
  EXPECT_TRUE(Scalar(0.5).to<bool>());
}

}  // namespace
}  // namespace ember::test
