// What element-wise operations compute: against integers of more bits, the C++ library's functions
// in double or long double, and the values that the documents and IEEE 754 give special cases.
#include <bit>
#include <complex>
#include <limits>
#include <numeric>
#include <random>

#include "ember/scalar/math.h"
#include "tests/ops/support.h"

namespace ember::test {
namespace {

void expect_numbers(const std::vector<double>& found, const std::vector<double>& expected,
                    const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << what << ", element " << i << ": " << found[i];
    } else {
      EXPECT_EQ(found[i], expected[i]) << what << ", element " << i;
      EXPECT_EQ(std::signbit(found[i]), std::signbit(expected[i])) << what << ", element " << i;
    }
  }
}

/// All pairs of int8 with a sample of others: as wide integers say, cut to the type.
template <class T>
void integers(Dtype dtype) {
  std::vector<std::int64_t> list;
  if (sizeof(T) == 1)
    for (int i = std::numeric_limits<T>::min(); i <= std::numeric_limits<T>::max(); i += 3)
      list.push_back(i);
  for (const std::int64_t i : {0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100})
    list.push_back(i), list.push_back(static_cast<T>(-i));
  for (const std::int64_t i : {0, 1, 2}) {
    list.push_back(std::numeric_limits<T>::max() - i);
    list.push_back(static_cast<std::int64_t>(std::numeric_limits<T>::min()) + i);
  }
  std::vector<T> a;
  std::vector<T> b;
  for (const std::int64_t x : list)
    for (const std::int64_t y : list) {
      a.push_back(static_cast<T>(x));
      b.push_back(static_cast<T>(y));
    }
  __extension__ using Wide = __int128;
  const auto check = [&](const char* name, const Tensor& found, auto&& expected) {
    ASSERT_EQ(found.dtype(), dtype) << name;
    const std::vector<T> numbers = values<T>(found);
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(numbers[i], static_cast<T>(static_cast<std::int64_t>(
                                static_cast<std::uint64_t>(expected(Wide{a[i]}, Wide{b[i]})))))
          << name << " of " << std::int64_t{a[i]} << " and " << std::int64_t{b[i]} << " as "
          << dtype_name(dtype);
  };
  const auto floored = [](Wide x, Wide y) {
    const Wide q = x / y;
    return q - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
  };
  for (const Tensor& x : places(tensor(a))) {
    const Tensor y = tensor(b).to(x.device(), dtype);
    check("add", x + y, [](Wide p, Wide q) { return p + q; });
    check("sub", x - y, [](Wide p, Wide q) { return p - q; });
    check("mul", x * y, [](Wide p, Wide q) { return p * q; });
    check("floor_divide", floor_divide(x, y),
          [&](Wide p, Wide q) { return q == 0 ? 0 : floored(p, q); });
    check("remainder", x % y, [&](Wide p, Wide q) { return q == 0 ? 0 : p - q * floored(p, q); });
    check("fmod", fmod(x, y), [](Wide p, Wide q) { return q == 0 ? 0 : p % q; });
    check("maximum", maximum(x, y), [](Wide p, Wide q) { return p > q ? p : q; });
    check("fmin", fmin(x, y), [](Wide p, Wide q) { return p < q ? p : q; });
    check("and", x & y, [](Wide p, Wide q) { return p & q; });
    check("or", x | y, [](Wide p, Wide q) { return p | q; });
    check("xor", x ^ y, [](Wide p, Wide q) { return p ^ q; });
    check("neg", -x, [](Wide p, Wide) { return -p; });
    check("abs", x.abs(), [](Wide p, Wide) { return p < 0 ? -p : p; });
    check("sign", x.sign(), [](Wide p, Wide) { return (p > 0 ? 1 : 0) - (p < 0 ? 1 : 0); });
    check("not", ~x, [](Wide p, Wide) { return -p - 1; });
    check("square", x.square(), [](Wide p, Wide) { return p * p; });
    check("gcd", gcd(x, y), [](Wide p, Wide q) {
      p = p < 0 ? -p : p;
      for (q = q < 0 ? -q : q; q != 0; std::swap(p, q)) p %= q;
      return p;
    });
    constexpr int kBits = 8 * sizeof(T);
    check("<<", bitwise_left_shift(x, y), [](Wide p, Wide q) {
      return q < 0 || q >= kBits ? 0 : static_cast<Wide>(static_cast<std::uint64_t>(p) << int(q));
    });
    check(">>", bitwise_right_shift(x, y), [](Wide p, Wide q) {
      return q < 0 || q >= kBits ? (p < 0 ? -1 : 0) : p >> static_cast<int>(q);
    });
    check("pow", pow(x, y), [](Wide p, Wide q) {
      if (q < 0) return Wide{p == 1 ? 1 : p == -1 ? (q % 2 == 0 ? 1 : -1) : 0};
      std::uint64_t result = 1;  // modulo 2^64, and the type keeps fewer bits
      for (int i = 0; i < static_cast<int>(q > 255 ? 0 : q); ++i)
        result *= static_cast<std::uint64_t>(p);
      if (q > 255) {
        std::uint64_t square = static_cast<std::uint64_t>(p);
        for (auto left = static_cast<std::uint64_t>(q); left != 0; left >>= 1, square *= square)
          if (left & 1U) result *= square;
      }
      return static_cast<Wide>(result);
    });
  }
}
// Against 128-bit arithmetic, at the borders of the type: wrap-around, division, shifts.
TEST(Integers, Int8) { integers<std::int8_t>(int8); }
TEST(Integers, UInt8) { integers<std::uint8_t>(uint8); }
TEST(Integers, Int16) { integers<std::int16_t>(int16); }
TEST(Integers, Int32) { integers<std::int32_t>(int32); }
TEST(Integers, Int64) { integers<std::int64_t>(int64); }

TEST(Bools, ComputeAsLogic) {
  const Tensor a = tensor<bool>({false, false, true, true});
  const Tensor b = tensor<bool>({false, true, false, true});
  using Bools = std::vector<bool>;
  for (const Tensor& x : places(a)) {
    const Tensor y = b.to(x.device(), bool_);
    EXPECT_EQ((x + y).dtype(), bool_);
    EXPECT_EQ(values<bool>(x + y), Bools({false, true, true, true}));
    EXPECT_EQ(values<bool>(x * y), Bools({false, false, false, true}));
    EXPECT_EQ(values<bool>(x ^ y), Bools({false, true, true, false}));
    EXPECT_EQ(values<bool>(~x), Bools({true, true, false, false}));
    EXPECT_EQ(values<bool>(maximum(x, y)), Bools({false, true, true, true}));
    EXPECT_EQ(values<bool>(x < y), Bools({false, true, false, false}));
    EXPECT_EQ((x / y).dtype(), float32);
    EXPECT_EQ(values<float>(x + 2.5), std::vector<float>({2.5, 2.5, 3.5, 3.5}));
    EXPECT_ERROR(x - y, Error, "with two bool tensors is not supported. Use the `^`");
    EXPECT_ERROR(-x, Error, "Negation, the `-` operator, on a bool tensor is not supported.");
    EXPECT_ERROR(bitwise_left_shift(x, y), NotImplementedError, "not implemented for 'Bool'");
  }
}

// NaN, infinities and signed zeros in every comparison and division.
TEST(Floats, SpecialValues) {
  const std::vector<double> a{kNaN, 1, kNaN, 0.0, -0.0, kInf, -kInf, kInf, 5, -5, 5, -5, 0};
  const std::vector<double> b{1, kNaN, kNaN, -0.0, 0.0, kInf, kInf, -kInf, -3, 3, 0, 0, 0};
  for (const Dtype dtype : {float32, float64, float16, bfloat16}) {
    for (const Tensor& x : places(tensor(a).to(dtype))) {
      const Tensor y = tensor(b).to(x.device(), dtype);
      const auto expect = [&](const Tensor& found, const std::vector<double>& expected,
                              const char* what) {
        expect_numbers(values<double>(found), expected, what);
      };
      expect(maximum(x, y), {kNaN, kNaN, kNaN, -0.0, 0.0, kInf, kInf, kInf, 5, 3, 5, 0, 0}, "max");
      expect(minimum(x, y), {kNaN, kNaN, kNaN, -0.0, 0.0, kInf, -kInf, -kInf, -3, -5, 0, -5, 0},
             "min");
      expect(fmax(x, y), {1, 1, kNaN, 0.0, -0.0, kInf, kInf, kInf, 5, 3, 5, 0, 0}, "fmax");
      expect(fmin(x, y), {1, 1, kNaN, 0.0, -0.0, kInf, -kInf, -kInf, -3, -5, 0, -5, 0}, "fmin");
      expect(floor_divide(x, y),
             {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, -2, -2, kInf, -kInf, kNaN},
             "floor_divide");
      expect(x % y, {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, -1, 1, kNaN, kNaN, kNaN},
             "remainder");
      expect(fmod(x, y), {kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, kNaN, 2, -2, kNaN, kNaN, kNaN},
             "fmod");
      expect(x.sign(), {0, 1, 0, 0, 0, 1, -1, 1, 1, -1, 1, -1, 0}, "sign");
      expect(x.angle(),
             {kNaN, 0, kNaN, 0, 0, 0, x.angle()[6].item<double>(), 0, 0,
              x.angle()[9].item<double>(), 0, x.angle()[11].item<double>(), 0},
             "angle");
      EXPECT_NEAR(x.angle()[6].item<double>(), 3.14159265, item_size(dtype) == 2 ? 1e-2 : 1e-6);
      expect(clamp(x, -2, 2), {kNaN, 1, kNaN, 0.0, -0.0, 2, -2, 2, 2, -2, 2, -2, 0}, "clamp");
      const auto bools = [&](const Tensor& found, const std::vector<bool>& expected) {
        EXPECT_EQ(values<bool>(found), expected);
      };
      bools(x == y, {false, false, false, true, true, true, false, false, false, false, false,
                     false, true});
      bools(x != y,
            {true, true, true, false, false, false, true, true, true, true, true, true, false});
      bools(x < y, {false, false, false, false, false, false, true, false, false, true, false, true,
                    false});
      bools(x.isnan(), {true, false, true, false, false, false, false, false, false, false, false,
                        false, false});
      bools(x.isinf(), {false, false, false, false, false, true, true, true, false, false, false,
                        false, false});
      bools(x.signbit() == x.signbit(), std::vector<bool>(13, true));
      EXPECT_TRUE(x.signbit()[4].item<bool>());
      EXPECT_FALSE(x.signbit()[3].item<bool>());
      bools(x.logical_not(), {false, false, false, true, true, false, false, false, false, false,
                              false, false, true});
    }
  }
  EXPECT_TRUE(std::isnan(tensor<float>({static_cast<float>(kNaN)}).relu().item<double>()));
}

// Halves go to even; infinities, NaN and large numbers stay.
TEST(Floats, RoundAsIeeeSays) {
  const std::vector<double> a{-2.5, -1.5, -0.5, -0.2, 0.5, 1.5, 2.5, kInf, kNaN, 1e30};
  for (const Tensor& x : places(tensor(a))) {
    const auto expect = [&](const Tensor& found, auto&& function, const char* what) {
      std::vector<double> expected;
      for (const double number : a) expected.push_back(function(number));
      expect_numbers(values<double>(found), expected, what);
    };
    expect(
        x.round(), [](double v) { return std::nearbyint(v); }, "round");
    expect(
        x.floor(), [](double v) { return std::floor(v); }, "floor");
    expect(
        x.ceil(), [](double v) { return std::ceil(v); }, "ceil");
    expect(
        x.trunc(), [](double v) { return std::trunc(v); }, "trunc");
    expect(
        x.frac(), [](double v) { return v - std::trunc(v); }, "frac");
  }
}

// 16-bit arithmetic is that of float, rounded once; in double it is exact enough to say what that
// is.
TEST(Floats, NarrowOnesRoundOnce) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < 5000; ++i) {
    a.push_back(static_cast<float>(Half(static_cast<float>(std::sin(i) * std::exp2(i % 9)))));
    b.push_back(static_cast<float>(Half(static_cast<float>(std::cos(3 * i) + 1.5))));
  }
  for (const Tensor& x : places(tensor(a).to(float16))) {
    const Tensor y = tensor(b).to(x.device(), float16);
    const auto sum = values<double>(x + y);
    const auto product = values<double>(x * y);
    const auto larger = values<bool>(x > y);
    const auto strided = values<double>(x.slice(0, 1, {}, 3) * y.slice(0, 1, {}, 3));
    const auto scaled = values<double>(x * 0.1);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(sum[i], static_cast<float>(Half(static_cast<float>(a[i] + b[i]))));
      ASSERT_EQ(product[i], static_cast<float>(Half(static_cast<float>(a[i] * b[i]))));
      ASSERT_EQ(larger[i], a[i] > b[i]);
      ASSERT_EQ(scaled[i], static_cast<float>(Half(static_cast<float>(a[i]) * 0.1F)));
    }
    for (std::size_t i = 0; i < strided.size(); ++i) ASSERT_EQ(strided[i], product[3 * i + 1]);
  }
}

// The numbers between which nothing lies, also of 16 bits.
TEST(Floats, NextAfter) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64}) {
    const double last = dtype == float16 ? 0x1p-10 : dtype == bfloat16 ? 0x1p-7 : epsilon(dtype);
    const double smallest = dtype == float16    ? 0x1p-24
                            : dtype == bfloat16 ? 0x1p-133
                            : dtype == float32  ? 0x1p-149
                                                : 0x1p-1074;
    const double largest = dtype == float16    ? 65504
                           : dtype == bfloat16 ? 0x1.fep127
                           : dtype == float32  ? 0x1.fffffep127
                                               : 0x1.fffffffffffffp1023;
    const Tensor from =
        tensor<double>({1, 1, -1, 0, -0.0, 0, largest, kInf, 2, kNaN, 1, 0}).to(dtype);
    const Tensor to = tensor<double>({2, 0, 0, 1, -1, -0.0, kInf, 0, 2, 1, kNaN, 0}).to(dtype);
    const std::vector<double> expected{1 + last,  1 - last / 2, -1 + last / 2, smallest,
                                       -smallest, -0.0,         kInf,          largest,
                                       2,         kNaN,         kNaN,          0};
    const auto ends = places(to);
    std::size_t place = 0;
    for (const Tensor& x : places(from)) {
      const Tensor result = nextafter(x, ends[place++]);
      EXPECT_EQ(result.dtype(), dtype);
      const auto found = values<double>(result.to(float64));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i])
            << i << ": " << found[i] << ", expected " << expected[i] << " as " << dtype_name(dtype);
        EXPECT_TRUE(std::isnan(expected[i]) || std::signbit(found[i]) == std::signbit(expected[i]));
      }
    }
  }
}

/// Real functions against long double.
TEST(Floats, FunctionsAreThoseOfMathematics) {
  struct Case {
    const char* name;
    Tensor (*operation)(const Tensor&);
    long double (*function)(long double);
    double low, high, ulp;
  };
  const std::vector<Case> cases{
      {"exp", &ember::exp, [](long double x) { return std::exp(x); }, -80, 80, 2},
      {"exp2", &ember::exp2, [](long double x) { return std::exp2(x); }, -100, 100, 2},
      {"expm1", &ember::expm1, [](long double x) { return std::expm1(x); }, -3, 3, 3},
      {"log", &ember::log, [](long double x) { return std::log(x); }, 1e-9, 30, 2},
      {"log2", &ember::log2, [](long double x) { return std::log2(x); }, 1e-9, 30, 2},
      {"log10", &ember::log10, [](long double x) { return std::log10(x); }, 1e-9, 30, 3},
      {"log1p", &ember::log1p, [](long double x) { return std::log1p(x); }, -0.9, 5, 3},
      {"sin", &ember::sin, [](long double x) { return std::sin(x); }, -30, 30, 2},
      {"cos", &ember::cos, [](long double x) { return std::cos(x); }, -30, 30, 2},
      {"tan", &ember::tan, [](long double x) { return std::tan(x); }, -5, 5, 4},
      {"asin", &ember::asin, [](long double x) { return std::asin(x); }, -1, 1, 3},
      {"acos", &ember::acos, [](long double x) { return std::acos(x); }, -1, 1, 3},
      {"atan", &ember::atan, [](long double x) { return std::atan(x); }, -50, 50, 3},
      {"sinh", &ember::sinh, [](long double x) { return std::sinh(x); }, -20, 20, 4},
      {"cosh", &ember::cosh, [](long double x) { return std::cosh(x); }, -20, 20, 4},
      {"tanh", &ember::tanh, [](long double x) { return std::tanh(x); }, -10, 10, 4},
      {"asinh", &ember::asinh, [](long double x) { return std::asinh(x); }, -50, 50, 4},
      {"acosh", &ember::acosh, [](long double x) { return std::acosh(x); }, 1, 50, 4},
      {"atanh", &ember::atanh, [](long double x) { return std::atanh(x); }, -0.99, 0.99, 4},
      {"erf", &ember::erf, [](long double x) { return std::erf(x); }, -4, 4, 3},
      {"erfc", &ember::erfc, [](long double x) { return std::erfc(x); }, -4, 8, 8},
      {"sqrt", &ember::sqrt, [](long double x) { return std::sqrt(x); }, 0, 1e6, 1},
      {"rsqrt", &ember::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1e-3, 1e6, 3},
      {"sigmoid", &ember::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -30, 30,
       8},
      {"lgamma", &ember::lgamma, [](long double x) { return std::lgamma(x); }, 0.1, 50, 16},
  };
  for (const Case& one : cases) {
    for (const Dtype dtype : {float32, float64}) {
      std::vector<double> list;
      for (int i = 0; i <= 1003; ++i) list.push_back(one.low + (one.high - one.low) * i / 1003);
      const Tensor rounded = tensor(list).to(dtype);
      list = values<double>(rounded);
      for (const Tensor& x : places(rounded)) {
        const auto found = values<double>(one.operation(x));
        for (std::size_t i = 0; i < list.size(); ++i) {
          const auto expected = static_cast<double>(one.function(list[i]));
          // Near zeros of the function (of log and lgamma), to the last places of one.
          const double size = std::string_view(one.name) == "lgamma"
                                  ? std::max(1.0, std::abs(expected))
                                  : std::abs(expected);
          ASSERT_NEAR(found[i], expected, one.ulp * epsilon(dtype) * size + 1e-300)
              << one.name << "(" << list[i] << ") as " << dtype_name(dtype);
        }
      }
    }
  }
}

// Quotients that are whole numbers, or nearly, up to those beyond 2^19 at which the short way ends,
// and of tiny and huge numbers: rests are exact, and where the sign of y wants another one that is
// rounded once.
TEST(Values, RestsOfFloatsAreExact) {
  std::mt19937 random(1);
  std::vector<float> a;
  std::vector<float> b;
  for (int i = 0; i < 300'000; ++i) {
    const int exponent = i % 5 == 0 ? static_cast<int>(random() % 250) - 125 : 0;
    const float y = std::ldexp(static_cast<float>(random() >> 8), exponent - 24);
    float x = y * static_cast<float>(random() >> (random() % 32));
    for (std::uint32_t step = random() % 4; step > 0; --step)
      x = std::nextafter(x, step % 2 != 0 ? 0.0F : 1e30F);
    if (y == 0 || !std::isfinite(x)) continue;
    a.push_back(random() % 2 != 0 ? -x : x);
    b.push_back(random() % 2 != 0 ? -y : y);
  }
  const auto expect = [](const Tensor& found, const std::vector<float>& expected, const char* what,
                         const std::vector<float>& x, const std::vector<float>& y) {
    const std::vector<float> numbers = values<float>(found);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(numbers[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << what << "(" << x[i] << ", " << y[i] << "): " << numbers[i] << " on "
          << found.device().str() << ", expected " << expected[i];
  };
  const auto check = [&](const std::vector<float>& x, const std::vector<float>& y, bool number) {
    std::vector<float> truncated;
    std::vector<float> floored;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float rest = std::fmod(x[i], y[i]);
      truncated.push_back(rest);
      floored.push_back(rest != 0 && std::signbit(rest) != std::signbit(y[i]) ? rest + y[i] : rest);
    }
    for (const Tensor& given : places(tensor(x))) {
      const Tensor divisors = tensor(y).to(given.device());
      const Operand by = number ? Operand(y[0]) : Operand(divisors);
      expect(ember::fmod(given, by), truncated, "fmod", x, y);
      expect(ember::remainder(given, by), floored, "remainder", x, y);
    }
  };
  check(a, b, false);
  for (const float y : {3.0F, -0.1F, 1e-37F, 1e-45F, 3e38F})
    check(a, std::vector<float>(a.size(), y), true);
}

}  // namespace
}  // namespace ember::test
