// The memory of captures: private pools, which graphs share or keep.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "tests/graphs/common.h"
#include "tests/support/gate.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::MemorySnapshot;
using cuda::MemPoolId;

using test::kFloats;

class GraphPools : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_CACHING();
    cuda::synchronize();
    cuda::empty_cache();
  }
  static bool is_in(const void* address, const MemPoolId& pool) {
    const auto position = reinterpret_cast<std::uintptr_t>(address);
    for (const MemorySnapshot::Segment& segment : cuda::memory_snapshot(pool).segments)
      if (position - segment.address < segment.total_size) return true;
    return false;
  }
  static std::size_t segments(const MemPoolId& pool) {
    return cuda::memory_snapshot(pool).segments.size();
  }
};

TEST_F(GraphPools, ACaptureAllocatesFromItsOwn) {
  CUDAGraph graph;
  Tensor inside, of_thread;
  {
    auto scope = cuda::graph(graph);
    inside = ones({1000}, kFloats);
    std::thread([&] { of_thread = empty({1000}, kFloats); }).join();
    scope.end();
  }
  EXPECT_GT(graph.pool().first, 0U);
  EXPECT_EQ(graph.pool().second, 0U);
  EXPECT_TRUE(is_in(inside.data_ptr(), graph.pool()));
  EXPECT_FALSE(is_in(of_thread.data_ptr(), graph.pool()));
  EXPECT_FALSE(is_in(ones({1000}, kFloats).data_ptr(), graph.pool())) << "and not later";
}

TEST_F(GraphPools, StaysReservedWhileTheGraphLives) {
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    (void)ones({1000}, kFloats).sum();
    scope.end();
  }
  const MemPoolId pool = graph.pool();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 1U);
  graph.replay();
  cuda::synchronize();
  graph.reset();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 0U);
}

TEST_F(GraphPools, ALivingTensorOutlivesTheGraph) {
  CUDAGraph graph;
  Tensor out;
  {
    auto scope = cuda::graph(graph);
    out = full({1000}, 3, kFloats);
    scope.end();
  }
  const MemPoolId pool = graph.pool();
  graph.replay();
  graph.reset();
  cuda::synchronize();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 1U);
  EXPECT_EQ(out.cpu().select(0, 999).item().to<float>(), 3);
  out = Tensor();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 0U);
}

TEST_F(GraphPools, TwoGraphsShareOne) {
  const MemPoolId pool = cuda::graph_pool_handle();
  const Tensor x = ones({1000}, kFloats);
  CUDAGraph first, second;
  Tensor y, z;
  {
    auto scope = cuda::graph(first, pool);
    y = (x + 1) * 2;
    scope.end();
  }
  {
    auto scope = cuda::graph(second, first.pool());
    z = y * 10;
    scope.end();
  }
  EXPECT_EQ(first.pool(), pool);
  EXPECT_EQ(second.pool(), pool);
  EXPECT_EQ(segments(pool), 1U) << "two small captures share one segment";
  for (const float value : {1.0F, 2.0F}) {
    x.fill_(value);
    first.replay();
    second.replay();
    cuda::synchronize();
    EXPECT_EQ(z.cpu().select(0, 0).item().to<float>(), (value + 1) * 20);
  }
  y = z = Tensor();
  first.reset();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 1U) << "the other one needs it";
  second.reset();
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 0U);
}

// As chapter 14 has it: nobody else gets what a captured copy uses, in the same capture or after
// it.
TEST_F(GraphPools, PinnedMemoryOfCapturedCopiesIsKept) {
  const Options pinned(float32, Device(Device::Type::cpu), true);
  const std::int64_t before = cuda::pinned_counters().active_bytes.current;
  const Tensor there = zeros({64}, kFloats);
  CUDAGraph reads, writes;
  std::vector<const void*> kept;
  {
    auto scope = cuda::graph(reads);
    for (float value : {1, 2}) {
      const Tensor from = full({64}, value, pinned);
      kept.push_back(from.data_ptr());
      there.copy_(from, true);
    }
    scope.end();
  }
  {
    auto scope = cuda::graph(writes, reads.pool());
    const Tensor to = empty({64}, pinned);
    kept.push_back(to.data_ptr());
    to.copy_(there, true);
    scope.end();
  }
  std::vector<Tensor> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(full({64}, 7, pinned));
    EXPECT_EQ(std::find(kept.begin(), kept.end(), others.back().data_ptr()), kept.end());
  }
  reads.replay();
  writes.replay();
  cuda::synchronize();
  EXPECT_TRUE(equal(there.cpu(), full({64}, 2)));
  for (const Tensor& other : others) EXPECT_TRUE(equal(other, full({64}, 7)));
  others.clear();
  EXPECT_EQ(cuda::pinned_counters().active_bytes.current - before, 3 * 256);
  reads.reset();
  writes.reset();
  cuda::synchronize();
  (void)empty({1}, pinned);  // an allocation looks which copies are done
  EXPECT_EQ(cuda::pinned_counters().active_bytes.current, before);
}

TEST_F(GraphPools, PinnedMemoryOfCapturedWorkGoesBehindItsReplays) {
  const Options pinned(float32, Device(Device::Type::cpu), true);
  const Tensor there = zeros({64}, kFloats);
  const void* address = nullptr;
  const cuda::Stream stream(0);
  std::optional<test::Gate> gate;
  {
    CUDAGraph step;
    {
      auto scope = cuda::graph(step);
      const Tensor from = full({64}, 3, pinned);
      address = from.data_ptr();
      there.copy_(from, true);
      scope.end();
    }
    gate.emplace(stream);
    const cuda::StreamGuard on(stream);
    step.replay();
  }
  // The graph is gone, and its replay has not begun.
  std::vector<Tensor> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(full({64}, 7, pinned));
    EXPECT_NE(others.back().data_ptr(), address);
  }
  gate->open();
  stream.synchronize();
  EXPECT_TRUE(equal(there.cpu(), full({64}, 3)));
}

TEST_F(GraphPools, TwoCapturesAtOnceCannotShare) {
  const MemPoolId pool = cuda::graph_pool_handle();
  const cuda::Stream stream(0), other(0);
  CUDAGraph graph, refused;
  const cuda::StreamGuard on(stream);
  graph.capture_begin(pool);
  {
    const cuda::StreamGuard elsewhere(other);
    EXPECT_ERROR(refused.capture_begin(pool), Error,
                 "beginAllocateToPool: already recording to mempool_id");
  }
  graph.capture_end();
}

TEST_F(GraphPools, AFailedCaptureGivesItBack) {
  const MemPoolId pool = cuda::graph_pool_handle();
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph, pool);
    const Tensor x = ones({1}, kFloats);
    EXPECT_ERROR((void)x.item(), AcceleratorError, "item");
    EXPECT_ERROR(scope.end(), AcceleratorError, "previous error during capture");
  }
  cuda::empty_cache();
  EXPECT_EQ(segments(pool), 0U);
  EXPECT_ERROR(cuda::release_pool(pool), Error, "nobody needs");
}

TEST_F(GraphPools, OutOfMemoryIsAnErrorOfTheAllocation) {
  CUDAGraph graph;
  auto scope = cuda::graph(graph);
  const Tensor x = ones({4}, kFloats);
  EXPECT_THROW((void)empty({std::int64_t{1} << 40}, kFloats), OutOfMemoryError);
  scope.end();
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 1);
}

}  // namespace
}  // namespace ember
