// Whether the numbers are random, and as distributed as they should be. Their bits are the same
// everywhere, so the CPU's are looked at.
#include <algorithm>
#include <limits>

#include "ember/random/distributions.h"
#include "tests/ops/support.h"
#include "tests/random/generators.h"
#include "tests/random/statistics.h"
#include "tests/support/fewer.h"

namespace ember::test {
namespace {

constexpr std::int64_t kMany = 1 << 20;
const std::vector<std::uint64_t> kSeeds =
    one_of_three_if_sanitized(std::vector<std::uint64_t>{0, 1, 123});

std::vector<double> scaled(std::vector<double> numbers, double mean, double deviation) {
  for (double& x : numbers) x = (x - mean) / deviation;
  return numbers;
}

void expect_uniform(const std::vector<double>& numbers, const std::string& what) {
  const auto n = static_cast<double>(numbers.size());
  EXPECT_LT(kolmogorov_smirnov(numbers, [](double x) { return x; }), kKolmogorovLimit) << what;
  EXPECT_LT(std::abs(moment(numbers, 1) - 0.5) * std::sqrt(12 * n), kNormalLimit) << what;
  EXPECT_LT(std::abs(moment(numbers, 2) - 1.0 / 3) * std::sqrt(n * 45.0 / 4), kNormalLimit) << what;
  for (const std::size_t distance : {1U, 2U, 3U, 4U, 32U, 256U})
    EXPECT_LT(std::abs(serial_correlation(numbers, distance)), kNormalLimit) << what << distance;
  std::vector<double> classes(1000);
  std::vector<double> pairs(1024);
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    ++classes[static_cast<std::size_t>(numbers[i] * 1000)];
    ++pairs[static_cast<std::size_t>(numbers[i] * 32) * 32 +
            static_cast<std::size_t>(numbers[i + 1] * 32)];
  }
  EXPECT_LT(std::abs(chi_square(classes)), kNormalLimit) << what;
  EXPECT_LT(std::abs(chi_square(pairs)), kNormalLimit) << what;
}

// Kolmogorov and Smirnov, moments, and correlation of neighbours.
TEST(Statistics, Uniform) {
  for (const Dtype dtype : {float32, float64})
    for (const std::uint64_t seed : kSeeds)
      expect_uniform(values<double>(rand({kMany}, dtype, generator_at("cpu", seed))),
                     std::string(dtype_name(dtype)) + " seed " + std::to_string(seed));
  for (const Dtype dtype : {float16, bfloat16}) {
    const auto numbers = values<double>(rand({kMany}, dtype, generator_at("cpu", 2)));
    EXPECT_NEAR(moment(numbers, 1), 0.5, 0.004);
    EXPECT_NEAR(moment(numbers, 2), 1.0 / 3, 0.004);
    EXPECT_LT(*std::max_element(numbers.begin(), numbers.end()), 1);
  }
}

TEST(Statistics, UniformStaysInItsRange) {
  for (const Dtype dtype : dtypes_in(dtypes::floating)) {
    for (const auto& [from, to] : {std::pair(-2.0, 3.0), std::pair(5.0, 5.0), std::pair(0.0, 1e-5),
                                   std::pair(1000.0, 1001.0)}) {
      Tensor made = empty({100000}, dtype);
      uniform_(made, from, to, generator_at("cpu", 4));
      const double low = full({}, from, dtype).item<double>();
      const double high = full({}, to, dtype).item<double>();
      for (const double x : values<double>(made)) {
        ASSERT_GE(x, low);
        if (high > low)
          ASSERT_LT(x, high);
        else
          ASSERT_EQ(x, low);
      }
    }
  }
}

// Kolmogorov and Smirnov, moments and tails.
TEST(Statistics, Normal) {
  const auto cumulative = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (const Dtype dtype : {float32, float64})
    for (const std::uint64_t seed : kSeeds) {
      const auto numbers = values<double>(randn({kMany}, dtype, generator_at("cpu", seed)));
      const auto n = static_cast<double>(numbers.size());
      EXPECT_LT(kolmogorov_smirnov(numbers, cumulative), kKolmogorovLimit);
      EXPECT_LT(std::abs(moment(numbers, 1)) * std::sqrt(n), kNormalLimit);
      EXPECT_LT(std::abs(moment(numbers, 2) - 1) * std::sqrt(n / 2), kNormalLimit);
      EXPECT_LT(std::abs(moment(numbers, 3)) * std::sqrt(n / 15), kNormalLimit);
      EXPECT_LT(std::abs(moment(numbers, 4) - 3) * std::sqrt(n / 96), kNormalLimit);
      for (const std::size_t distance : {1U, 2U, 4U, 256U})
        EXPECT_LT(std::abs(serial_correlation(numbers, distance)), kNormalLimit);
      // The tail: beyond four deviations lie 6.3e-5.
      double beyond = 0;
      for (const double x : numbers) beyond += std::abs(x) > 4 ? 1 : 0;
      const double expected = n * 2 * cumulative(-4);
      EXPECT_LT(std::abs(beyond - expected), kNormalLimit * std::sqrt(expected));
      // Sines and cosines of one pair share a radius, but not their squares' sum's parts.
      std::vector<double> classes(256);
      for (std::size_t i = 0; i < numbers.size() / 2; ++i) {
        const double a = cumulative(numbers[i]);
        const double b = cumulative(numbers[(i + kThreads) % numbers.size()]);
        ++classes[static_cast<std::size_t>(a * 16) * 16 + static_cast<std::size_t>(b * 16)];
      }
      EXPECT_LT(std::abs(chi_square(classes)), kNormalLimit);
    }
  Tensor made = empty({kMany}, float32);
  normal_(made, -3, 0.25, generator_at("cpu", 8));
  EXPECT_LT(kolmogorov_smirnov(scaled(values<double>(made), -3, 0.25), cumulative),
            kKolmogorovLimit);
}

// The mean is real, and each part has half of the variance.
TEST(Statistics, ComplexNormal) {
  const Tensor made = normal(2, 3, {kMany / 2}, complex64, generator_at("cpu", 8));
  const auto real = values<double>(made.real());
  const auto imaginary = values<double>(made.imag());
  EXPECT_NEAR(moment(real, 1), 2, 0.02);
  EXPECT_NEAR(moment(imaginary, 1), 0, 0.02);
  EXPECT_NEAR(moment(scaled(real, 2, 1), 2), 4.5, 0.05);
  EXPECT_NEAR(moment(imaginary, 2), 4.5, 0.05);
}

// Kolmogorov and Smirnov, the mean, and no zero.
TEST(Statistics, Exponential) {
  for (const Dtype dtype : {float32, float64}) {
    Tensor made = empty({kMany}, dtype);
    exponential_(made, 2, generator_at("cpu", 10));
    const auto numbers = values<double>(made);
    EXPECT_LT(kolmogorov_smirnov(numbers, [](double x) { return -std::expm1(-2 * x); }),
              kKolmogorovLimit);
    EXPECT_GT(*std::min_element(numbers.begin(), numbers.end()), 0);
    EXPECT_NEAR(moment(numbers, 1), 0.5, 0.003);
  }
}

// The share of ones within its standard error, also for one probability each.
TEST(Statistics, Bernoulli) {
  for (const double p : {0.0, 1e-4, 0.25, 0.5, 0.9, 1.0}) {
    Tensor one = empty({kMany}, float32);
    bernoulli_(one, p, generator_at("cpu", 11));
    const auto n = static_cast<double>(kMany);
    const double ones = moment(values<double>(one), 1) * n;
    EXPECT_LE(std::abs(ones - n * p), kNormalLimit * std::sqrt(n * p * (1 - p))) << p;
    // One probability for all, or the same one for each.
    Tensor each = empty({kMany}, bool_);
    bernoulli_(each, full({1}, p, float64), generator_at("cpu", 11));
    EXPECT_LE(std::abs(moment(values<double>(each), 1) * n - ones), p == 1e-4 ? 1 : 0) << p;
  }
  const Tensor p = rand({kMany}, float64, generator_at("cpu", 12));
  const auto chosen = values<double>(bernoulli(p, generator_at("cpu", 13)));
  const auto chances = values<double>(p);
  double difference = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) difference += chosen[i] - chances[i];
  EXPECT_LT(std::abs(difference), kNormalLimit * std::sqrt(kMany / 6.0));
}

// Chi squared over all numbers of a range.
TEST(Statistics, Integers) {
  for (const std::int64_t range : {2, 3, 10, 1000, 65536, 65537, 1000003}) {
    const auto numbers =
        values<std::int64_t>(randint(-7, range - 7, {kMany}, int64, generator_at("cpu", 14)));
    const std::int64_t classes = std::min<std::int64_t>(range, 1000);
    std::vector<double> counts(static_cast<std::size_t>(classes));
    for (const std::int64_t x : numbers) {
      ASSERT_GE(x, -7);
      ASSERT_LT(x, range - 7);
      if (range <= 1000 || x + 7 < range / 1000 * 1000)
        ++counts[static_cast<std::size_t>((x + 7) % classes)];
    }
    EXPECT_LT(std::abs(chi_square(counts)), kNormalLimit) << range;
  }
  // Ranges that are no divisor of 2^64: the residues must be equally likely all the same.
  for (const std::int64_t range : {std::int64_t{3} << 40, std::int64_t{3} << 61}) {
    std::vector<double> counts(3);
    for (const std::int64_t x :
         values<std::int64_t>(randint(range, {kMany}, int64, generator_at("cpu", 15)))) {
      ASSERT_GE(x, 0);
      ASSERT_LT(x, range);
      ++counts[static_cast<std::size_t>(x % 3)];
    }
    EXPECT_LT(std::abs(chi_square(counts)), kNormalLimit) << range;
  }
}

// Each bit that random_ may set is set in half of the numbers.
TEST(Statistics, EveryBitOfIntegers) {
  for (const Dtype dtype : dtypes_in(dtypes::integer_or_bool)) {
    Tensor made = empty({100000}, dtype);
    random_(made, generator_at("cpu", 16));
    const int bits = dtype == bool_   ? 1
                     : dtype == uint8 ? 8
                                      : static_cast<int>(item_size(dtype)) * 8 - 1;
    std::vector<double> ones(64);
    for (const std::int64_t x : values<std::int64_t>(made)) {
      ASSERT_GE(x, 0);
      for (int bit = 0; bit < 64; ++bit)
        ones[static_cast<std::size_t>(bit)] += static_cast<double>((x >> bit) & 1);
    }
    for (int bit = 0; bit < 64; ++bit) {
      if (bit < bits)
        EXPECT_LT(std::abs(ones[static_cast<std::size_t>(bit)] - 50000), 5 * 158) << bit;
      else
        EXPECT_EQ(ones[static_cast<std::size_t>(bit)], 0) << bit << dtype_name(dtype);
    }
  }
  // Floating types: whole numbers up to where they hold all of them.
  for (const Dtype dtype : dtypes_in(dtypes::floating)) {
    Tensor made = empty({100000}, dtype);
    random_(made, generator_at("cpu", 17));
    const double most = 2 / epsilon(dtype);
    double largest = 0;
    for (const double x : values<double>(made)) {
      ASSERT_EQ(x, std::floor(x));
      ASSERT_GE(x, 0);
      ASSERT_LE(x, most);
      largest = std::max(largest, x);
    }
    EXPECT_GT(largest, 0.99 * most) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace ember::test
