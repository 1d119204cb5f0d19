// Tensors of as many dimensions as there can be: kernels take a few, and plans cut and merge.
#include "tests/ops/support.h"

namespace ember::test {
namespace {

constexpr int kLong = 14;  // dimensions that have two places; the others have one

/// The numbers from 0 on in 64 dimensions, every fourth of them of size two, from the front.
Tensor numbers() {
  Shape sizes = Shape::repeat(kMaxDims, 1);
  for (int d = 0; d < kLong; ++d) sizes[4 * d] = 2;
  return arange(1 << kLong).view(sizes);
}
std::int64_t reversed(std::int64_t bits) {
  std::int64_t result = 0;
  for (int b = 0; b < kLong; ++b) result |= (bits >> b & 1) << (kLong - 1 - b);
  return result;
}

TEST(ManyDimensions, ArePermutedCopiedAndAdded) {
  std::vector<std::int64_t> backwards;
  for (int d = kMaxDims - 1; d >= 0; --d) backwards.push_back(d);
  for (const Tensor& x : places(numbers())) {
    const Tensor turned = x.permute(backwards);
    const std::vector<std::int64_t> copied = values<std::int64_t>(turned);
    const std::vector<std::int64_t> sums =
        values<std::int64_t>(turned + turned.contiguous().permute(backwards).permute(backwards));
    for (std::int64_t i = 0; i < 1 << kLong; ++i) {
      ASSERT_EQ(copied[static_cast<std::size_t>(i)], reversed(i));
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], 2 * reversed(i));
    }
    // Broadcasting: of a line along the first dimension, and of one of fewer dimensions.
    const Tensor first = x.select(0, 1).unsqueeze(0);
    EXPECT_EQ((x - first).amin().item<std::int64_t>(), -(1 << (kLong - 1)));
    EXPECT_EQ((x * full({1, 1}, 2, x.options())).sum().item<std::int64_t>(),
              (1LL << kLong) * ((1LL << kLong) - 1));
  }
}

TEST(ManyDimensions, AreReduced) {
  for (const Tensor& x : places(numbers())) {
    // Every second of the long ones: what is left is a sum over the others.
    std::vector<std::int64_t> gone;
    for (int d = 0; d < kLong; d += 2) gone.push_back(4 * d);
    const Tensor sum = x.sum(gone);
    EXPECT_EQ(sum.dim(), kMaxDims - kLong / 2);
    const std::vector<std::int64_t> found = values<std::int64_t>(sum);
    std::vector<std::int64_t> expected(found.size());
    for (std::int64_t i = 0; i < 1 << kLong; ++i) {
      std::int64_t place = 0;
      for (int d = 1; d < kLong; d += 2) place = place * 2 + (i >> (kLong - 1 - d) & 1);
      expected[static_cast<std::size_t>(place)] += i;
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(x.argmax().item<std::int64_t>(), (1 << kLong) - 1);
    EXPECT_EQ(x.amax(gone, true).dim(), kMaxDims);
    EXPECT_EQ(values<std::int64_t>(cumsum(x, 0).select(0, 1)), values<std::int64_t>(x.sum(0)));
  }
}

TEST(ManyDimensions, AreChosenFrom) {
  for (const Tensor& x : places(numbers())) {
    const Tensor places_of_last = nonzero(x == (1 << kLong) - 1);
    ASSERT_EQ(places_of_last.sizes(), Shape({1, kMaxDims}));
    const std::vector<std::int64_t> place = values<std::int64_t>(places_of_last);
    for (int d = 0; d < kMaxDims; ++d)
      EXPECT_EQ(place[static_cast<std::size_t>(d)], d % 4 == 0 && d < 4 * kLong ? 1 : 0);
    const Tensor one = tensor<std::int64_t>({1}).to(x.device());
    EXPECT_EQ(values<std::int64_t>(index_select(x, 4, one)), values<std::int64_t>(x.select(4, 1)));
    EXPECT_EQ(values<std::int64_t>(flip(x, {0, 4, 8})),
              values<std::int64_t>(flip(x.flatten(0, 8).view({8, -1}), {0})));
    EXPECT_EQ(values<std::int64_t>(cat({x, x}, 63).select(63, 1)), values<std::int64_t>(x));
    EXPECT_ERROR(x.unsqueeze(0), ValueError, "a tensor of 65 dimensions, expected at most 64");
  }
}

}  // namespace
}  // namespace ember::test
