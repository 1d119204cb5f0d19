// The host's own functions of float: those of mathematics, rounded once but for rare ties, over all
// of float's range.
#include <bit>
#include <cmath>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

/// Within 0.51 units of the last place, NaN for NaN; infinities and zeros exactly, with their
/// signs.
testing::AssertionResult rounds_once(float found, long double exact) {
  const auto expected = static_cast<float>(exact);
  bool good = false;
  if (std::isnan(expected)) {
    good = std::isnan(found);
  } else if (std::isinf(expected) || expected == 0) {
    good = found == expected && std::signbit(found) == std::signbit(expected);
  } else {
    const int exponent = std::max(std::ilogb(expected), -126);
    good = std::abs(static_cast<double>(found - exact)) <= std::ldexp(0.51, exponent - 23);
  }
  if (good) return testing::AssertionSuccess();
  return testing::AssertionFailure() << found << ", expected " << expected;
}

/// A sample of all floats; zeros, infinities and the numbers beside them.
std::vector<float> sample(std::uint64_t step) {
  std::vector<float> list;
  for (std::uint64_t bits = 0; bits < 0x100000000U; bits += step) {
    const std::uint64_t nearest = bits >> 31 << 31 | (bits & 0x7f800000U);
    for (const std::uint64_t pattern : {bits, nearest, nearest + 1})
      list.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(pattern)));
  }
  return list;
}

TEST(FloatFunctions, OfOneNumberRoundOnce) {
  struct Case {
    const char* name;
    float (*function)(float);
    long double (*exact)(long double);
  };
#define EMBER_CASE(name)                                                                  \
  {                                                                                       \
#name, [](float x) { return m::name(x); }, [](long double x) { return std::name(x); } \
  }
  const std::vector<Case> cases{
      EMBER_CASE(exp),   EMBER_CASE(exp2),  EMBER_CASE(expm1), EMBER_CASE(log),   EMBER_CASE(log2),
      EMBER_CASE(log10), EMBER_CASE(log1p), EMBER_CASE(sin),   EMBER_CASE(cos),   EMBER_CASE(tan),
      EMBER_CASE(asin),  EMBER_CASE(acos),  EMBER_CASE(atan),  EMBER_CASE(sinh),  EMBER_CASE(cosh),
      EMBER_CASE(tanh),  EMBER_CASE(asinh), EMBER_CASE(acosh), EMBER_CASE(atanh), EMBER_CASE(erf),
      EMBER_CASE(erfc)};
#undef EMBER_CASE
  const std::vector<float> list = sample(40009);
  for (const Case& one : cases) {
    // The C library's, which takes over for large angles, is nearly as exact.
    const bool angle = std::string_view("sin cos tan").find(one.name) != std::string_view::npos;
    for (const float x : list)
      if (!angle || std::abs(x) < 0x1p25F) {
        ASSERT_TRUE(rounds_once(one.function(x), one.exact(x)))
            << " for " << one.name << "(" << x << ")";
      }
  }
}

TEST(FloatFunctions, OfTwoNumbersRoundOnce) {
  std::vector<float> list = sample(80000003);
  for (const float x : {0.5F,  1.0F,  1.0000001F, 0.9999999F,      2.0F,      2.5F,      3.0F,
                        -1.0F, -0.5F, 7.0F,       100.0F,          -3.0F,     10.0F,     0.1F,
                        1e-3F, 33.0F, 127.0F,     0x1.fffffep127F, HUGE_VALF, -HUGE_VALF})
    list.push_back(x);
  for (const float x : list)
    for (const float y : list) {
      ASSERT_TRUE(rounds_once(m::atan2(x, y), std::atan2(static_cast<long double>(x), y)))
          << " for atan2(" << x << ", " << y << ")";
      ASSERT_TRUE(rounds_once(m::hypot(x, y), std::hypot(static_cast<long double>(x), y)))
          << " for hypot(" << x << ", " << y << ")";
      ASSERT_TRUE(rounds_once(m::fmod(x, y), std::fmod(x, y)))
          << " for fmod(" << x << ", " << y << ")";
      // The C library's, which takes over for negative numbers and the like, is within one unit.
      if (x > 0 && y != 2 && y != 3 && y != -1) {
        ASSERT_TRUE(rounds_once(m::pow(x, y), std::pow(static_cast<long double>(x), y)))
            << " for pow(" << x << ", " << y << ")";
      }
    }
}

// The largest quotients whose remainder takes the short way, beside those that are wholes: there a
// quotient that was rounded up would show.
TEST(FloatFunctions, RemaindersAreExact) {
  std::uint64_t state = 1;
  const auto random = [&state] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state >> 32);
  };
  for (int i = 0; i < 1'000'000; ++i) {
    const float y = std::ldexp(static_cast<float>(random() >> 8), static_cast<int>(random() % 40));
    const float whole = static_cast<float>(random() >> (random() % 32));
    float x = y * whole;
    for (std::uint32_t step = random() % 3; step > 0; --step) x = std::nextafter(x, 0.0F);
    if (y == 0) continue;
    ASSERT_EQ(m::fmod(x, y), std::fmod(x, y)) << x << ", " << y;
  }
}

/// Every element has the bits that are expected; any NaN is as good as another.
testing::AssertionResult same_bits(const Tensor& found, const std::vector<float>& expected) {
  const std::vector<float> list = values<float>(found);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::bit_cast<std::uint32_t>(list[i]) != std::bit_cast<std::uint32_t>(expected[i]) &&
        !(std::isnan(list[i]) && std::isnan(expected[i])))
      return testing::AssertionFailure() << list[i] << ", expected " << expected[i] << " at " << i;
  return testing::AssertionSuccess();
}
/// The same elements at a stride.
Tensor strided(const Tensor& x) {
  const Tensor wide = empty({x.numel(), 3}, x.options());
  wide.select(1, 1).copy_(x);
  return wide.select(1, 1);
}

// Loops take the short forms where all of a piece's arguments are ordinary: adjacent or not, with
// anything among them, they give what the function gives. Ordinary in the first half of the list.
class FloatLoops : public testing::Test {
 protected:
  FloatLoops() : list(sample(1000003)) {
    for (std::size_t i = 0; i < list.size() / 2; ++i) list[i] = std::fmod(list[i], 1000.0F);
    x = tensor(list);
  }
  template <class Function>
  std::vector<float> each(const Function& function) const {
    std::vector<float> results;
    for (const float value : list) results.push_back(function(value));
    return results;
  }
  std::vector<float> list;
  Tensor x;
};

TEST_F(FloatLoops, OfOneNumberAreTheFunctions){
#define EMBER_LOOP(name)                                                            \
  {                                                                                 \
    const auto expected = each([](float value) { return m::name(value); });         \
    EXPECT_TRUE(same_bits(ember::name(x), expected)) << #name;                      \
    EXPECT_TRUE(same_bits(ember::name(strided(x)), expected)) << #name;             \
    EXPECT_TRUE(same_bits(x.clone().name##_(), expected)) << #name << ", in place"; \
  }
    EMBER_LOOP(sin) EMBER_LOOP(cos) EMBER_LOOP(tan) EMBER_LOOP(atan) EMBER_LOOP(asinh)
        EMBER_LOOP(erf) EMBER_LOOP(expm1)
#undef EMBER_LOOP
}

TEST_F(FloatLoops, OfTwoNumbersAreTheFunctions) {
#define EMBER_LOOP(name)                                                                        \
  for (const float y : {0.37F, -2.5F, 1e-30F, 3e7F, 2.0F, 3.0F, -1.0F, 0.0F}) {                 \
    const auto expected = each([y](float value) { return m::name(value, y); });                 \
    EXPECT_TRUE(same_bits(ember::name(x, y), expected)) << #name << ", " << y;                  \
    EXPECT_TRUE(same_bits(ember::name(strided(x), y), expected)) << #name << ", " << y;         \
    EXPECT_TRUE(same_bits(ember::name(x, full(x.sizes(), y)), expected)) << #name << ", " << y; \
    const auto turned = each([y](float value) { return m::name(y, value); });                   \
    EXPECT_TRUE(same_bits(ember::name(tensor(y), x), turned)) << #name << " of " << y;          \
  }
  EMBER_LOOP(pow)
  EMBER_LOOP(fmod)
  EMBER_LOOP(remainder)
  EMBER_LOOP(floor_divide)
  EMBER_LOOP(atan2)
#undef EMBER_LOOP
}

}  // namespace
}  // namespace ember::test
