// Random permutations: that they are permutations, the same everywhere, and random. Property D5.
#include "ember/scalar/permutation.h"

#include <numeric>

#include "ember/random/distributions.h"
#include "tests/ops/support.h"
#include "tests/random/statistics.h"

namespace ember::test {
namespace {

using Order = std::vector<std::int64_t>;

Generator seeded(const char* place, std::uint64_t seed) {
  Generator made{Device(place)};
  return made.manual_seed(seed);
}

Order permutation(std::int64_t n, std::uint64_t seed, const char* place = "cpu") {
  return values<std::int64_t>(randperm(n, place, seeded(place, seed)));
}

bool is_permutation(Order order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

TEST(Randperm, HasEveryNumberOnceAndIsTheSameEverywhere) {
  NEEDS_DEVICES(1);
  for (const std::int64_t n :
       {0,    1,    2,    3,    7,     255,   256,   257,   2047,   2048,
        2049, 4095, 4096, 4097, 20000, 65535, 65536, 65537, 300000, 1 << 20}) {
    const Order order = permutation(n, 5);
    ASSERT_EQ(order.size(), static_cast<std::size_t>(n));
    ASSERT_TRUE(is_permutation(order)) << n;
    ASSERT_EQ(permutation(n, 5, kDevice), order) << n;
  }
}

// As far as a dtype can count exactly.
TEST(Randperm, EveryDtype) {
  NEEDS_DEVICES(1);
  for (const Dtype dtype : dtypes_in(dtypes::real_number))
    for (const std::int64_t n : {std::int64_t{100}, std::int64_t{3000}}) {
      if (n > 2049 && item_size(dtype) < 4 && dtype != int16) continue;
      const Tensor here = randperm(n, dtype, seeded("cpu", 6));
      EXPECT_EQ(here.dtype(), dtype);
      EXPECT_EQ(values<std::int64_t>(here), permutation(n, 6)) << dtype_name(dtype);
      expect_same(randperm(n, {dtype, kDevice}, seeded(kDevice, 6)), here, 0, dtype_name(dtype));
    }
}

TEST(Randperm, MovesTheOffsetByFour) {
  Generator generator = seeded("cpu", 1);
  (void)randperm(10, {}, generator);
  EXPECT_EQ(generator.get_offset(), 4U);
  (void)randperm(10000, {}, generator);
  EXPECT_EQ(generator.get_offset(), 8U);
  (void)randperm(0, {}, generator);
  EXPECT_EQ(generator.get_offset(), 8U);
  // The next one is another one.
  EXPECT_NE(values<std::int64_t>(randperm(100, {}, generator)),
            values<std::int64_t>(randperm(100, {}, generator)));
  EXPECT_NE(values<std::int64_t>(randperm(5000, {}, generator)),
            values<std::int64_t>(randperm(5000, {}, generator)));
}

TEST(Randperm, RefusesWhatMakesNoSense) {
  EXPECT_ERROR(randperm(-1), Error, "n must be non-negative");
  EXPECT_ERROR(randperm(257, uint8), Error, "n is too large for result tensor type");
  EXPECT_ERROR(randperm(2050, float16), Error, "n is too large for result tensor type");
  EXPECT_ERROR(randperm((1 << 24) + 2, float32), Error, "n is too large for result tensor type");
  EXPECT_ERROR(randperm(2, bool_), NotImplementedError, "\"randperm\" not implemented for 'Bool'");
  EXPECT_ERROR(randperm(2, complex64), NotImplementedError,
               "\"randperm\" not implemented for 'ComplexFloat'");
  EXPECT_ERROR(randperm(3, "cuda:99"), AcceleratorError, "invalid device ordinal");
  EXPECT_EQ(values<double>(randperm(2049, float16)).size(), 2049U);
  EXPECT_EQ(values<std::int64_t>(randperm(256, uint8)).size(), 256U);
}

TEST(Randperm, D5EqualKeysAreOrderedWithinTheirGroup) {
  // Keys of two bits: groups of equal ones must be permuted among themselves, the others be left.
  constexpr std::uint64_t n = 200;
  std::vector<std::uint64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto key = [](std::uint64_t i) {
    ShuffleKey made = shuffle_key(3, 0, i);
    made.high &= 3;
    return made;
  };
  std::sort(order.begin(), order.end(),
            [&](std::uint64_t i, std::uint64_t j) { return comes_before(key(i), i, key(j), j); });
  std::vector<bool> seen(n);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_FALSE(seen[order[i]]);
    seen[order[i]] = true;
    EXPECT_LE(key(order[i > 0 ? i - 1 : 0]).high, key(order[i]).high);
  }
  // Equal altogether: by number.
  const ShuffleKey same{1, 2};
  EXPECT_TRUE(comes_before(same, 1, same, 2));
  EXPECT_FALSE(comes_before(same, 2, same, 1));
  EXPECT_FALSE(comes_before(same, 1, same, 1));
}

TEST(Feistel, IsAPermutationOfEverySize) {
  FeistelKeys keys{};
  for (int call = 0; call < FeistelKeys::kCalls; ++call) keys.draw(9, 0, call);
  for (const std::uint64_t n : {3U, 4U, 5U, 8U, 9U, 100U, 128U, 129U, 1000U}) {
    const Feistel feistel(n);
    std::vector<bool> seen(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      std::uint64_t number = Feistel::exchanged(keys, i);
      do number = feistel.pass(keys, number);
      while (number >= n);
      ASSERT_FALSE(seen[number]) << n;
      seen[number] = true;
      // Both widths of the arithmetic agree.
      ASSERT_EQ(feistel.pass(keys, i), feistel.pass(keys, static_cast<std::uint32_t>(i)));
    }
  }
  // Beyond 32 bits: different numbers stay different, and in range.
  const std::uint64_t huge = (std::uint64_t{1} << 40) - 12345;
  const Feistel feistel(huge);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = huge - 100000; i < huge; ++i) numbers.push_back(feistel.pass(keys, i));
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
  EXPECT_LT(numbers.back(), std::uint64_t{1} << 40);
}

// ---- Are they random?

TEST(Statistics, SmallPermutationsAreEquallyLikely) {
  for (const std::int64_t n : {2, 3, 4, 5}) {
    std::size_t all = 1;
    for (std::int64_t i = 2; i <= n; ++i) all *= static_cast<std::size_t>(i);
    std::vector<double> counts(all);
    Generator generator = seeded("cpu", 7);
    for (int k = 0; k < 24000; ++k) {
      const Order order = values<std::int64_t>(randperm(n, {}, generator));
      // Which of the n! it is: by the ranks among what is left.
      std::size_t which = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        std::size_t smaller = 0;
        for (std::size_t j = i + 1; j < order.size(); ++j) smaller += order[j] < order[i] ? 1 : 0;
        which = which * (order.size() - i) + smaller;
      }
      ++counts[which];
    }
    EXPECT_LT(std::abs(chi_square(counts)), kNormalLimit) << n;
  }
}

/// What a random permutation of n numbers does, on average over many of them.
void expect_random(std::int64_t n, int repeats) {
  const auto size = static_cast<double>(n);
  const auto times = static_cast<double>(repeats);
  Generator generator = seeded("cpu", 8);
  double fixed = 0;       // numbers at their place: one per permutation
  double pairs = 0;       // neighbours that stay neighbours in order: one
  double ascents = 0;     // half of the steps go up
  double cycles = 0;      // ln n + 0.577 of them
  double odd = 0;         // half of the permutations are odd
  double product = 0;     // places and numbers do not correlate
  double first_bits = 0;  // images of numbers that differ in one bit differ in half of the bits
  std::vector<double> cells(64 * 64);
  std::vector<double> starts(32);
  std::vector<double> steps(64);
  for (int k = 0; k < repeats; ++k) {
    const Order order = values<std::int64_t>(randperm(n, {}, generator));
    std::vector<bool> seen(order.size());
    std::size_t loops = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto x = static_cast<double>(order[i]);
      fixed += order[i] == static_cast<std::int64_t>(i) ? 1 : 0;
      product += (x / size - 0.5) * (static_cast<double>(i) / size - 0.5);
      ++cells[static_cast<std::size_t>(static_cast<double>(i) * 64 / size) * 64 +
              static_cast<std::size_t>(x * 64 / size)];
      if (i + 1 < order.size()) {
        pairs += order[i + 1] == order[i] + 1 ? 1 : 0;
        ascents += order[i + 1] > order[i] ? 1 : 0;
        const std::int64_t step = (order[i + 1] - order[i] + n) % n;
        ++steps[static_cast<std::size_t>(static_cast<double>(step) * 64 / size)];
      }
      if ((i ^ 1U) < order.size())
        first_bits += __builtin_popcountll(static_cast<std::uint64_t>(order[i] ^ order[i ^ 1U]));
      if (seen[i]) continue;
      ++loops;
      for (std::size_t j = i; !seen[j]; j = static_cast<std::size_t>(order[j])) seen[j] = true;
    }
    ++starts[static_cast<std::size_t>(static_cast<double>(order[0]) * 32 / size)];
    cycles += static_cast<double>(loops);
    odd += static_cast<double>((order.size() - loops) % 2);
  }
  EXPECT_LT(std::abs(fixed - times), kNormalLimit * std::sqrt(times)) << n;
  EXPECT_LT(std::abs(pairs - times), kNormalLimit * std::sqrt(times)) << n;
  EXPECT_LT(std::abs(ascents - times * (size - 1) / 2),
            kNormalLimit * std::sqrt(times * (size + 1) / 12))
      << n;
  EXPECT_LT(std::abs(cycles - times * (std::log(size) + 0.5772)),
            kNormalLimit * std::sqrt(times * std::log(size)))
      << n;
  EXPECT_LT(std::abs(odd - times / 2), kNormalLimit * std::sqrt(times) / 2) << n;
  EXPECT_LT(std::abs(product), kNormalLimit * std::sqrt(times * size) / 12) << n;
  if (n % 64 == 0) {
    // A table of places against numbers has 63 * 63 free cells instead of 4095, since its rows are
    // filled exactly: the limit is for the larger number.
    EXPECT_LT(chi_square(cells), kNormalLimit) << n;
    EXPECT_GT(chi_square(cells), -kNormalLimit - 2) << n;
    EXPECT_LT(std::abs(chi_square(starts)), kNormalLimit) << n;
    steps[0] += times;  // a step of zero does not occur
    EXPECT_LT(std::abs(chi_square(steps)), kNormalLimit) << n;
  }
  if ((n & (n - 1)) == 0) {
    // Two different numbers of b bits differ in b / 2 * 2^b / (2^b - 1) bits.
    const double bits = std::log2(size);
    const double expected = times * size * bits / 2 * size / (size - 1);
    EXPECT_LT(std::abs(first_bits - expected), 2 * kNormalLimit * std::sqrt(times * size * bits))
        << n;
  }
}

// Fixed points, neighbours, ascents, cycles, signs and cells, on both sides of each algorithm.
TEST(Statistics, Permutations) {
  expect_random(100, 4000);
  expect_random(2048, 400);
  expect_random(2049, 2000);
  expect_random(64 * 40, 1000);
  expect_random(4096, 1000);
  expect_random(64 * 65, 1000);
  expect_random(1 << 16, 60);
}

}  // namespace
}  // namespace ember::test
