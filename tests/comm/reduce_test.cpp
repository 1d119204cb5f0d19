#include "ember/base/sanitizer.h"
#include "tests/comm/support.h"

namespace ember::test {
namespace {

using ReduceAdd = OnDevices;

TEST_P(ReduceAdd, AddsWhatEveryDeviceHas) {
  for (const Dtype dtype : {float32, float64, int32, uint8, bfloat16, complex64})
    for (const std::int64_t size : {0, 1, 1000, 700001})
      for (int root = 0; root < count(); ++root) {
        std::vector<Tensor> inputs;
        Tensor expected;
        for (int i = 0; i < count(); ++i) {
          inputs.push_back(numbers({size}, dtype, cuda_device(i), i));
          const Tensor here = inputs.back().cpu();
          expected = expected.defined() ? expected + here : here;
        }
        const Tensor sum = comm::reduce_add(inputs, root);
        EXPECT_EQ(sum.get_device(), root);
        expect_equal(sum, expected, dtype_name(dtype) + std::string(" ") + std::to_string(size));
        EXPECT_EQ(sum.is(inputs[0]), count() == 1);
      }
}

// The destination's input is first in the order of additions, which rounding shows.
TEST_P(ReduceAdd, TheRootComesFirst) {
  if (count() < 3) GTEST_SKIP() << "the order of two does not matter";
  // In float32, (1e8 + -1e8) + 1 is 1, and 1e8 + (-1e8 + 1) is 0.
  for (const std::int64_t size : {std::int64_t{10}, std::int64_t{3} << 20}) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < count(); ++i) inputs.push_back(zeros({size}, cuda_device(i)));
    inputs[0].fill_(-1e8);
    inputs[1].fill_(1);
    inputs[2].fill_(1e8);
    const auto value = [&](int root) {
      const auto all = values<float>(comm::reduce_add(inputs, root));
      EXPECT_EQ(all.front(), all.back());
      return all.front();
    };
    EXPECT_EQ(value(2), 1.0F);  // 1e8 - 1e8 + 1
    EXPECT_EQ(value(0), 0.0F);  // -1e8 + 1 + 1e8
    EXPECT_EQ(value(1), 0.0F);  // 1 - 1e8 + 1e8
  }
}

TEST_P(ReduceAdd, NeedsNoMemoryBesideTheSum) {
  NEEDS_CACHING();
  if (count() < 2) GTEST_SKIP() << "a single input is its own sum";
  // What kernels read from the peers, and what copies bring in pieces.
  for (const std::int64_t size : {std::int64_t{1000}, (std::int64_t{25} << 20) - 5}) {
    // Much memory, and nothing new.
    if (size > 1000 && count() > (kThreadSanitizer ? 2 : 3)) continue;
    std::vector<Tensor> inputs;
    for (int i = 0; i < count(); ++i) inputs.push_back(arange(size, {int64, cuda_device(i)}));
    static_cast<void>(comm::reduce_add(inputs, 0));
    Tensor sum;
    {
      const Counts counts;
      sum = comm::reduce_add(inputs, 0);
      EXPECT_EQ(counts[Counts::Kind::memory_allocated], 1);
      EXPECT_EQ(counts[Counts::Kind::event_created], 0);
      // 200 MiB go in pieces of 124, 46, 18 and 12.
      EXPECT_EQ(counts[Counts::Kind::copied], size > 1000 ? 4 : 0);
      EXPECT_EQ(counts[Counts::Kind::kernel_launched], (count() - 1) * (size > 1000 ? 4 : 1));
    }
    inputs[0] *= count();
    inputs[0] -= sum;
    EXPECT_EQ(inputs[0].max().item<std::int64_t>(), 0);
    EXPECT_EQ(inputs[0].min().item<std::int64_t>(), 0);
  }
}

// Inputs may be transposed, and several may lie on one device.
TEST_P(ReduceAdd, AnyLayoutAndSeveralOnOneDevice) {
  std::vector<Tensor> inputs;
  Tensor expected = zeros({5, 6});
  for (int i = 0; i < count(); ++i) {
    const Tensor plain = numbers({5, 6}, float32, cuda_device(i), i);
    const Tensor turned = numbers({6, 5}, float32, cuda_device(i), i + 9).t();
    inputs.push_back(plain);
    inputs.push_back(turned);
    expected += plain.cpu() + turned.cpu();
  }
  expect_equal(comm::reduce_add(inputs, 0), expected, "mixed");
  const Tensor large = ones({std::int64_t{1} << 20}, cuda_device(count() - 1));
  std::vector<Tensor> same(3, large);
  for (int i = 0; i < count(); ++i) same.push_back(ones({std::int64_t{1} << 20}, cuda_device(i)));
  expect_equal(comm::reduce_add(same, count() - 1), full({std::int64_t{1} << 20}, 3.0 + count()),
               "one device");
  const cuda::DeviceGuard guard(count() - 1);
  EXPECT_EQ(comm::reduce_add(inputs).get_device(), count() - 1);
}

// Many tensors of mixed dtypes are summed as one by one.
TEST_P(ReduceAdd, Coalesced) {
  std::vector<std::vector<Tensor>> lists(static_cast<std::size_t>(count()));
  std::vector<Tensor> expected;
  for (int t = 0; t < 40; ++t) {
    const Dtype dtype = t % 2 == 0 ? float32 : int32;
    const Shape sizes{t % 4, 5};
    Tensor sum = zeros(sizes, dtype);
    for (int i = 0; i < count(); ++i) {
      lists[static_cast<std::size_t>(i)].push_back(numbers(sizes, dtype, cuda_device(i), t + i));
      sum += lists[static_cast<std::size_t>(i)].back().cpu();
    }
    expected.push_back(sum);
  }
  for (const std::size_t buffer : {std::size_t{1}, std::size_t{100}, comm::kBufferSize}) {
    const auto sums = comm::reduce_add_coalesced(lists, count() - 1, buffer);
    ASSERT_EQ(sums.size(), expected.size());
    for (std::size_t t = 0; t < sums.size(); ++t) {
      EXPECT_EQ(sums[t].get_device(), count() - 1);
      expect_equal(sums[t], expected[t], "sum " + std::to_string(t));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ReduceAdd, ::testing::Range(1, 5));

}  // namespace
}  // namespace ember::test
