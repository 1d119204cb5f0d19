// The engine, against the published vectors of Philox4x32-10 and the documents' properties R1 to
// R4, and the mathematics of distributions.h against long double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ember/scalar/distributions.h"

namespace ember::test {
namespace {

TEST(Philox, GivesThePublishedVectors) {
  // "kat_vectors" of Random123, the authors' own implementation.
  EXPECT_EQ(philox({{0, 0, 0, 0}}, 0, 0),
            (PhiloxWords{{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}}));
  constexpr std::uint32_t ones = 0xffffffffU;
  EXPECT_EQ(philox({{ones, ones, ones, ones}}, ones, ones),
            (PhiloxWords{{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}}));
  EXPECT_EQ(
      philox({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, 0xa4093822U, 0x299f31d0U),
      (PhiloxWords{{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}}));
}

std::vector<std::uint32_t> numbers(PhiloxEngine engine, int count) {
  std::vector<std::uint32_t> list;
  for (int i = 0; i < count; ++i) list.push_back(engine());
  return list;
}

TEST(Philox, R1SamePlaceSameNumbers) {
  EXPECT_EQ(numbers(PhiloxEngine(123, 1, 4), 100), numbers(PhiloxEngine(123, 1, 4), 100));
  EXPECT_NE(numbers(PhiloxEngine(123, 1, 4), 4), numbers(PhiloxEngine(124, 1, 4), 4));
}

TEST(Philox, R2OffsetCountsStepsOfFour) {
  PhiloxEngine from_start(123, 1, 0);
  for (int i = 0; i < 8; ++i) from_start();
  EXPECT_EQ(numbers(from_start, 20), numbers(PhiloxEngine(123, 1, 2), 20));
  PhiloxEngine skipped(123, 1, 0);
  skipped.skip(2);
  EXPECT_EQ(numbers(skipped, 20), numbers(PhiloxEngine(123, 1, 2), 20));
}

TEST(Philox, R3TheOffsetsEndCarriesIntoTheSubsequence) {
  constexpr std::uint64_t last = ~std::uint64_t{0};
  PhiloxEngine at_end(123, 0, last);
  at_end.skip(1);
  EXPECT_EQ(numbers(at_end, 8), numbers(PhiloxEngine(123, 1, 0), 8));
  PhiloxEngine skipped(123, 0, 0);
  skipped.skip(last);
  EXPECT_EQ(numbers(skipped, 4), numbers(PhiloxEngine(123, 0, last), 4));
  // Drawing over the end is the same as skipping over it.
  PhiloxEngine drawn(123, 0, last);
  for (int i = 0; i < 4; ++i) drawn();
  EXPECT_EQ(numbers(drawn, 8), numbers(PhiloxEngine(123, 1, 0), 8));
  PhiloxEngine wrapped(123, last, last);
  wrapped.skip(1);
  EXPECT_EQ(numbers(wrapped, 4), numbers(PhiloxEngine(123, 0, 0), 4));
}

TEST(Philox, R4SubsequencesDiffer) {
  EXPECT_NE(numbers(PhiloxEngine(123456, 1, 4), 4), numbers(PhiloxEngine(123456, 2, 4), 4));
}

TEST(Philox, SkippingKeepsWhatIsLeftOfTheFour) {
  PhiloxEngine engine(5, 6, 7);
  engine();
  engine.skip(1);
  const auto four = numbers(PhiloxEngine(5, 6, 7), 4);
  EXPECT_EQ(engine(), four[1]);
  EXPECT_EQ(engine(), four[2]);
  EXPECT_EQ(engine(), four[3]);
  EXPECT_EQ(engine(), PhiloxEngine(5, 6, 9)());
}

TEST(DrawMath, UnitNumbersStayInTheirInterval) {
  EXPECT_EQ(draw::unit(0), 0x1p-33F);
  EXPECT_EQ(draw::unit(0xffffffffU), 1.0F);
  EXPECT_EQ(draw::unit(0x80000000U), 0.5F);
  EXPECT_EQ(draw::unit(0U, 0U), 0x1p-54);
  EXPECT_LE(draw::unit(0xffffffffU, 0xffffffffU), 1.0);
  PhiloxEngine engine(4);
  for (int i = 0; i < 1000; ++i) {
    // One rounding to float of the word, then half a step is added and rounded again.
    const std::uint32_t word = engine() >> (i % 32);
    ASSERT_EQ(draw::unit(word), static_cast<float>(word) / 4294967296.0F + 0x1p-33F);
    const std::uint32_t other = engine();
    const std::uint64_t bits = word ^ (std::uint64_t{other} << 21);
    ASSERT_EQ(draw::unit(word, other), static_cast<double>(bits) / 0x1p53 + 0x1p-54);
  }
}

TEST(DrawMath, LogarithmsAreAccurate) {
  PhiloxEngine engine(1);
  double worst = 0;
  double worst_double = 0;
  const auto check = [&](float u) {
    const long double exact = -2 * std::log(static_cast<long double>(u));
    const double got = draw::minus_two_log(u);
    if (exact > 0)
      worst = std::max(worst, static_cast<double>(std::abs(got - exact) / exact));
    else
      EXPECT_TRUE(got > 0 && got <= 0x1p-60) << got;  // never zero: a square root follows
    const double wide = draw::minus_two_log(static_cast<double>(u));
    if (exact > 0)
      worst_double = std::max(worst_double, static_cast<double>(std::abs(wide - exact) / exact));
  };
  for (int i = 0; i < 200000; ++i) check(draw::unit(engine()));
  for (float u = 1; u > 0.99F; u = std::nextafter(u, 0.0F)) check(u);
  for (float u = 0x1p-33F; u < 1; u *= 1.01F) check(u);
  EXPECT_LT(worst, 5 * 0x1p-24);
  EXPECT_LT(worst_double, 8 * 0x1p-53);
}

TEST(DrawMath, NormalPairsAreARadiusAndADirection) {
  PhiloxEngine engine(2);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t a = engine();
    const std::uint32_t b = engine();
    float pair[2];
    draw::normal_pair(draw::unit(a), b, 0.0F, 1.0F, pair);
    const double radius = std::sqrt(-2 * std::log(static_cast<double>(draw::unit(a))));
    const double sign = (b >> 31) != 0 ? -1 : 1;
    const double angle = static_cast<double>(static_cast<std::int32_t>(b * 2 + 1)) * 0x1p-32 *
                         3.14159265358979323846;
    ASSERT_NEAR(pair[0], sign * radius * std::sin(angle), 4e-7 * (1 + radius));
    ASSERT_NEAR(pair[1], sign * radius * std::cos(angle), 4e-7 * (1 + radius));
  }
  for (int i = 0; i < 100000; ++i) {
    const PhiloxWords words = philox_at(3, 4, static_cast<std::uint64_t>(i));
    double pair[2];
    draw::normal_pair(draw::unit(words.w[0], words.w[1]), words.pair(1), 0.0, 1.0, pair);
    const long double u = draw::unit(words.w[0], words.w[1]);
    const long double radius = std::sqrt(-2 * std::log(u));
    const long double sign = (words.w[3] >> 31) != 0 ? -1 : 1;
    const long double angle =
        static_cast<long double>(static_cast<std::int64_t>(words.pair(1) * 2 + 1)) * 0x1p-64L *
        3.14159265358979323846264338327950288L;
    ASSERT_NEAR(pair[0], static_cast<double>(sign * radius * std::sin(angle)),
                1e-15 * static_cast<double>(1 + radius));
    ASSERT_NEAR(pair[1], static_cast<double>(sign * radius * std::cos(angle)),
                1e-15 * static_cast<double>(1 + radius));
  }
}

TEST(DrawMath, NormalPairsAtTheEdgesAreFinite) {
  for (const std::uint32_t a : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xfffffffeU, 0xffffffffU})
    for (const std::uint32_t b :
         {0U, 1U, 0x3fffffffU, 0x40000000U, 0x7fffffffU, 0x80000000U, 0xbfffffffU, 0xffffffffU}) {
      float pair[2];
      draw::normal_pair(draw::unit(a), b, 0.0F, 1.0F, pair);
      EXPECT_TRUE(std::isfinite(pair[0]) && std::isfinite(pair[1])) << a << " " << b;
      EXPECT_LT(std::hypot(pair[0], pair[1]), 6.9);
      double wide[2];
      draw::normal_pair(draw::unit(a, a), b | std::uint64_t{b} << 32, 0.0, 1.0, wide);
      EXPECT_TRUE(std::isfinite(wide[0]) && std::isfinite(wide[1])) << a << " " << b;
      EXPECT_LT(std::hypot(wide[0], wide[1]), 8.8);
    }
}

TEST(DrawMath, WideIntegersAreScaledExactly) {
  // floor(bits * range / 2^128) for a range that is no power of two, by long multiplication.
  __extension__ using Wide = unsigned __int128;
  PhiloxEngine engine(9);
  for (int i = 0; i < 1000; ++i) {
    PhiloxWords words{{engine(), engine(), engine(), engine()}};
    DrawParams params;
    params.u = (std::uint64_t{engine()} << 32) | engine();
    std::int64_t got[1];
    draw::Integers128<std::int64_t> draw(params);
    draw(words, got);
    const Wide low = static_cast<Wide>(words.pair(0)) * params.u;
    const Wide high = static_cast<Wide>(words.pair(1)) * params.u + (low >> 64);
    ASSERT_EQ(static_cast<std::uint64_t>(got[0]), static_cast<std::uint64_t>(high >> 64));
  }
}

}  // namespace
}  // namespace ember::test
