// From shapes and strides to loops: which dimensions become one (T4), and that every element is
// met once, in loops that have to be cut.
#include "ember/ops/plan.h"

#include <sys/mman.h>

#include <random>
#include <set>

#include "tests/ops/support.h"

namespace ember::test {
namespace {

using ops::Dims;
using ops::PlanOperand;

struct Layout {
  Shape sizes;
  Shape strides;
};

Dims merged(const Shape& sizes, const std::vector<Layout>& layouts) {
  std::vector<PlanOperand> operands;
  for (const Layout& layout : layouts)
    operands.push_back({nullptr, &layout.sizes, &layout.strides, 4});
  return ops::merge_dims(sizes, operands);
}

TEST(Merging, LeavesAsFewDimensionsAsTheStridesAllow) {
  const auto count = [](const Shape& sizes, const Shape& a, const Shape& b) {
    return merged(sizes, {{sizes, a}, {sizes, b}}).count;
  };
  EXPECT_EQ(count({2, 3, 4}, {12, 4, 1}, {12, 4, 1}), 1);
  EXPECT_EQ(count({2, 3, 4}, {12, 4, 1}, {24, 8, 2}), 1);  // every second element
  EXPECT_EQ(count({2, 3, 4}, {12, 4, 1}, {24, 4, 1}), 2);  // rows merge, not planes
  EXPECT_EQ(count({2, 3, 4}, {12, 4, 1}, {1, 2, 6}), 3);
  EXPECT_EQ(count({2, 3, 4}, {1, 2, 6}, {1, 2, 6}), 1);   // in any order of the dimensions
  EXPECT_EQ(count({2, 1, 4}, {4, 99, 1}, {4, 7, 1}), 1);  // size one goes
  EXPECT_EQ(count({1, 1, 1}, {3, 2, 1}, {5, 5, 5}), 0);   // a point
  EXPECT_EQ(count({}, {}, {}), 0);
  EXPECT_EQ(count({2, 3}, {3, 1}, {0, 0}), 1);
  EXPECT_EQ(count({2, 3}, {3, 1}, {0, 1}), 2);
  const Dims wide = merged({5, 4}, {{{5, 4}, {4, 1}}, {{4}, {1}}, {{}, {}}});
  ASSERT_EQ(wide.count, 2);
  EXPECT_EQ(wide.size[0], 4);
  EXPECT_EQ(wide.stride[1][0], 1);
  EXPECT_EQ(wide.stride[1][1], 0);
  EXPECT_EQ(wide.stride[2][0], 0);
}

/// All elements as tuples of offsets.
template <class Size, class Stride>
std::multiset<std::vector<std::int64_t>> offsets(int dims, std::size_t operands, const Size& size,
                                                 const Stride& stride) {
  std::multiset<std::vector<std::int64_t>> all;
  std::vector<std::int64_t> index(static_cast<std::size_t>(dims), 0);
  for (;;) {
    std::vector<std::int64_t> at(operands, 0);
    for (std::size_t k = 0; k < operands; ++k)
      for (int d = 0; d < dims; ++d) at[k] += index[static_cast<std::size_t>(d)] * stride(k, d);
    all.insert(at);
    int d = 0;
    for (; d < dims; ++d) {
      if (++index[static_cast<std::size_t>(d)] < size(d)) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
    if (d == dims) return all;
  }
}

// Random layouts: the merged loop meets the same tuples of offsets, each once.
TEST(Merging, KeepsTheElements) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int dims = static_cast<int>(random() % 6);
    Shape sizes;
    for (int d = 0; d < dims; ++d) sizes.push_back(1 + static_cast<std::int64_t>(random() % 4));
    std::vector<Layout> layouts(3);
    for (Layout& layout : layouts) {
      Shape order;
      for (int d = 0; d < dims; ++d)
        order.insert(static_cast<int>(random() % static_cast<unsigned>(d + 1)), d);
      layout.sizes = sizes;
      layout.strides = sizes;
      std::int64_t next = 1 + static_cast<std::int64_t>(random() % 2);
      for (int i = 0; i < dims; ++i) {
        const int d = static_cast<int>(order[i]);
        layout.strides[d] = &layout != layouts.data() && random() % 4 == 0 ? 0 : next;
        next *= sizes[d] + (random() % 3 == 0 ? 1 : 0);
      }
    }
    const Dims found = merged(sizes, layouts);
    const auto plain = offsets(
        dims, 3, [&](int d) { return sizes[d]; },
        [&](std::size_t k, int d) { return sizes[d] == 1 ? 0 : layouts[k].strides[d]; });
    const auto after = offsets(
        found.count, 3, [&](int d) { return found.size[static_cast<std::size_t>(d)]; },
        [&](std::size_t k, int d) { return found.stride[k][static_cast<std::size_t>(d)]; });
    ASSERT_EQ(plain, after) << sizes.str();
  }
}

// Twelve dimensions that cannot be merged: the slowest ones are walked outside of the loop.
TEST(Loops, MayHaveManyDimensions) {
  for (const char* place : {"cpu", kDevice}) {
    if (std::string(place) != "cpu" && cuda::device_count() == 0) continue;
    const Tensor base = arange(4096, Options(float32, place)).view(Shape::repeat(12, 2));
    Shape order;
    for (int d = 0; d < 12; ++d) order.push_back(d % 2 == 0 ? 10 - d : d);
    const Tensor mixed = base.permute(order);
    const auto found = values<float>(mixed * 2 + base);
    for (std::size_t i = 0; i < 4096; ++i) {
      std::size_t other = 0;  // the place in memory of element i of `mixed`
      for (int d = 0; d < 12; ++d)
        other += (i >> (11 - d) & 1U) << (11 - static_cast<std::size_t>(order[d]));
      ASSERT_EQ(found[i], static_cast<float>(2 * other + i));
    }
    Tensor out = zeros(Shape::repeat(12, 3), Options(float32, place));
    for (int d = 0; d < 12; ++d) out = out.slice(d, 0, 3, 2);
    out.copy_(mixed);
    EXPECT_EQ(values<float>(out), values<float>(mixed));
  }
}

// Strides beyond 2^31: in memory that is reserved, and touched at a few places only.
TEST(Loops, MayReachFar) {
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 12345;
  constexpr std::size_t kBytes = static_cast<std::size_t>(5 * kFar) * 4;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 40 GiB of addresses to reserve";
  const Tensor far = from_blob(memory, {5, 3}, float32, {}, Shape{kFar, 1});
  Tensor out = far;
  out.copy_(arange(15, float32).view({5, 3}));
  EXPECT_EQ(static_cast<float*>(memory)[4 * kFar + 2], 14);
  out += far;
  EXPECT_EQ(values<float>(far.t())[14], 28);
  EXPECT_EQ(values<float>(far.select(1, 1) * 10), std::vector<float>({20, 80, 140, 200, 260}));
  const Tensor sum = far.t() + far.t().contiguous();
  EXPECT_EQ(values<float>(sum)[4], 48);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace ember::test
