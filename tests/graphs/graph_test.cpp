// Captures and replays of tensors' work. Chapter 7 of the documents.
#include "ember/graphs/graph.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::Event;
using cuda::Stream;

using test::kFloats;

class Graph : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

/// Captures `work` on a stream of its own.
void capture(CUDAGraph& graph, const std::function<void()>& work,
             const std::optional<cuda::MemPoolId>& pool = {}) {
  auto scope = cuda::graph(graph, pool);
  work();
  scope.end();
}

std::vector<float> read(const Tensor& tensor) {
  cuda::synchronize();
  const Tensor host = tensor.cpu();
  const auto* first = static_cast<const float*>(host.data_ptr());
  return {first, first + host.numel()};
}

TEST_F(Graph, ReplaysWithWhatItsInputsAreThen) {
  const Tensor x = zeros({64, 64}, kFloats);
  const auto step = [&] {
    const Tensor y = x * 2 + 1;
    return std::pair{matmul(y, x).sin(), y.sum()};
  };
  CUDAGraph graph;
  std::pair<Tensor, Tensor> out;
  capture(graph, [&] { out = step(); });
  for (const float value : {1.0F, -3.0F, 0.5F}) {
    x.fill_(value);
    x.select(0, 3).fill_(value + 1);
    graph.replay();
    const std::pair<Tensor, Tensor> eager = step();
    EXPECT_EQ(read(out.first), read(eager.first)) << value;
    EXPECT_EQ(read(out.second), read(eager.second)) << value;
  }
}

TEST_F(Graph, CapturingDoesNothing) {
  const Tensor x = ones({8}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { x.add_(1); });
  EXPECT_EQ(read(x)[0], 1);
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_EQ(read(x)[0], 4);
}

TEST_F(Graph, IsReplayedOnTheCurrentStream) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] { x.add_(1); });
  cuda::synchronize();
  const Stream stream(0);
  {
    test::Gate gate(stream);
    const cuda::StreamGuard on(stream);
    graph.replay();
    EXPECT_FALSE(stream.query());
    gate.open();
  }
  graph.replay();  // on the default stream: behind the other replay all the same
  EXPECT_EQ(read(x)[0], 2);
}

TEST_F(Graph, StreamsJoinedByEventsAreOfTheCapture) {
  const Tensor x = full({1000}, 2, kFloats);
  const Stream side(0);
  CUDAGraph graph;
  Tensor left, right, both;
  const auto work = [&] {
    const Stream main = cuda::current_stream();
    const Tensor shared = x + 1;
    side.wait_stream(main);
    {
      const cuda::StreamGuard on(side);
      EXPECT_TRUE(cuda::is_current_stream_capturing());
      right = shared * 10;
    }
    left = shared * 100;
    main.wait_stream(side);
    both = left + right;
  };
  capture(graph, work);
  EXPECT_FALSE(side.is_capturing());
  for (const float value : {2.0F, 4.0F}) {
    x.fill_(value);
    graph.replay();
    EXPECT_EQ(read(both)[999], (value + 1) * 110);
  }
}

TEST_F(Graph, ACapturedFreeIsNoUseOfOtherStreams) {  // shared dies, while the side stream reads it
  const Stream side(0);
  const Tensor x = full({1 << 16}, 1, kFloats);
  CUDAGraph graph;
  Tensor out;
  capture(graph, [&] {
    const Stream main = cuda::current_stream();
    Tensor shared = x + 1;
    side.wait_stream(main);
    {
      const cuda::StreamGuard on(side);
      out = shared * 3;
    }
    shared.record_stream(side);
    shared = Tensor();
    const Tensor other = x * 50;  // must not get the memory of `shared`
    main.wait_stream(side);
  });
  for (int i = 0; i < 20; ++i) graph.replay();
  EXPECT_EQ(read(out)[77], 6);
  EXPECT_EQ(read(x + 1)[0], 2) << "and what was parked is looked at later";
}

TEST_F(Graph, BranchesRunBesideEachOther) {
  NEEDS_CONCURRENCY();
  if (!test::machine().simulated()) GTEST_SKIP() << "CUDA may call host functions one by one";
  const Stream main(0), side(0);
  std::atomic<int> arrived{0};
  const auto meet = [&] {
    ++arrived;
    while (arrived.load() % 2 != 0) std::this_thread::yield();
  };
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph, {}, main);
    side.wait_stream(main);
    cuda::host_function(meet, side, {});
    cuda::host_function(meet, main, {});
    main.wait_stream(side);
    scope.end();
  }
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(arrived, 2) << "each has waited for the other";
}

TEST_F(Graph, HostFunctionsAreCalledByEachReplayAndLiveAsLongAsIt) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  CUDAGraph graph;
  capture(graph, [&] { cuda::host_function([calls] { ++*calls; }, cuda::current_stream(), {}); });
  EXPECT_EQ(*calls, 0);
  for (int i = 0; i < 3; ++i) graph.replay();
  cuda::synchronize();
  EXPECT_EQ(*calls, 3);
  EXPECT_EQ(calls.use_count(), 2);
  graph.reset();
  cuda::synchronize();
  // CUDA does it some time later.
  if (test::machine().simulated()) {
    EXPECT_EQ(calls.use_count(), 1);
  }
}

TEST_F(Graph, CopiesOfPinnedMemoryAndFillsAreCaptured) {
  const test::Pinned<float> in(16), out(16);
  const Tensor x = zeros({16}, kFloats);
  CUDAGraph graph;
  capture(graph, [&] {
    cuda::copy_async(x.data_ptr(), in.get(), 64);
    cuda::fill_async(x.data_ptr(), 0, 4);
    cuda::copy_async(out.get(), x.data_ptr(), 64);
  });
  for (const float value : {3.0F, 5.0F}) {
    for (std::size_t i = 0; i < 16; ++i) in[i] = value;
    cuda::host_writes(in.get(), 64);
    graph.replay();
    cuda::synchronize();
    cuda::host_reads(out.get(), 64);
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[15], value);
  }
}

TEST_F(Graph, ConcatenationsOfManyTensorsKeepTheirTables) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 900; ++i) parts.push_back(full({3}, i, kFloats));
  CUDAGraph graph;
  Tensor out;
  capture(graph, [&] { out = cat(parts, 0); });
  parts[899].fill_(-1);
  graph.replay();
  const std::vector<float> values = read(out);
  ASSERT_EQ(values.size(), 2700U);
  EXPECT_EQ(values[3 * 450], 450);
  EXPECT_EQ(values[2699], -1);
}

TEST_F(Graph, DifferentGraphsAtOnce) {
  const Stream first(0), second(0);
  const Tensor x = zeros({1000}, kFloats), y = zeros({1000}, kFloats);
  CUDAGraph of_x, of_y;
  capture(of_x, [&] { x.add_(matmul(ones({1000, 4}, kFloats), ones({4}, kFloats))); });
  capture(of_y, [&] { y.add_(matmul(ones({1000, 4}, kFloats), ones({4}, kFloats))); });
  cuda::synchronize();
  for (int i = 0; i < 10; ++i) {
    const cuda::StreamGuard on(i % 2 == 0 ? first : second);
    of_x.replay();
    of_y.replay();
  }
  EXPECT_EQ(read(x)[500], 40);
  EXPECT_EQ(read(y)[500], 40);
}

TEST_F(Graph, AKeptGraphIsMadeReadyByHand) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph graph(/*keep_graph=*/true);
  EXPECT_ERROR(graph.instantiate(), Error,
               "capture_end() must have been called before calling instantiate");
  EXPECT_ERROR(
      graph.raw_cuda_graph(), Error,
      "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  capture(graph, [&] { x.add_(1); });
  EXPECT_NE(graph.raw_cuda_graph(), nullptr);
  EXPECT_ERROR(graph.raw_cuda_graph_exec(), Error, "until instantiate() has been called");
  graph.instantiate();
  EXPECT_NE(graph.raw_cuda_graph_exec(), nullptr);
  graph.replay();
  graph.instantiate();
  graph.replay();
  EXPECT_EQ(read(x)[0], 2);

  CUDAGraph other;
  EXPECT_ERROR(other.instantiate(), Error,
               "instantiate() is intended to be called by the user only when keep_graph=true");
  EXPECT_ERROR(other.raw_cuda_graph(), Error, "keep_graph=true");
}

TEST_F(Graph, SaysWhatItWasNotReadyFor) {
  CUDAGraph graph;
  EXPECT_ERROR(graph.replay(), Error,
               "Called CUDAGraph::replay without a preceding successful capture.");
  EXPECT_ERROR(graph.pool(), Error,
               "Called CUDAGraph::pool() without a preceding successful capture.");
  EXPECT_ERROR(graph.capture_end(), Error, "capture_end() called before capture_begin().");
  EXPECT_ERROR(graph.capture_begin(), Error,
               "CUDA graphs must be captured on a non-default stream. (However, after capture, "
               "it's ok to replay them on the default stream.)");
  EXPECT_ERROR(cuda::capture_error_mode("loose"), Error,
               "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`");
  EXPECT_EQ(cuda::capture_error_mode("thread_local"), cuda::CaptureErrorMode::thread_local_);
  graph.reset();

  const Tensor x = zeros({8}, kFloats);
  const Stream stream(0), other(0);
  {
    const cuda::StreamGuard on(stream);
    graph.capture_begin();
    x.add_(1);
    {
      const cuda::StreamGuard elsewhere(other);
      EXPECT_ERROR(graph.capture_end(), Error, "Capture must end on the same stream it began on.");
    }
    std::thread([&] {
      const cuda::StreamGuard here(stream);
      EXPECT_ERROR(graph.capture_end(), AcceleratorError, "on the thread it began on");
    }).join();
    graph.capture_end();
    EXPECT_ERROR(graph.capture_begin(), Error,
                 "This CUDAGraph instance already owns a captured graph. To capture a new graph, "
                 "create a new instance.");
  }
  graph.replay();
  EXPECT_EQ(read(x)[0], 1);
  graph.reset();
  EXPECT_ERROR(graph.replay(), Error, "without a preceding successful capture");
  capture(graph, [&] { x.mul_(5); });
  graph.replay();
  EXPECT_EQ(read(x)[0], 5);
}

TEST_F(Graph, AScopeThatLeavesAnotherStreamCurrentLeavesNoCapture) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph graph;
  const cuda::StreamGuard before{Stream(0)};
  {
    auto scope = cuda::graph(graph);
    x.add_(1);
    cuda::set_stream(Stream(0));
    EXPECT_ERROR(scope.end(), Error, "Capture must end on the same stream it began on.");
  }
  EXPECT_EQ(read(x)[0], 0);
  EXPECT_ERROR(graph.replay(), Error, "without a preceding successful capture");
  capture(graph, [&] { x.add_(1); });
  graph.abandon_capture();  // there is none: nothing happens
  graph.replay();
  EXPECT_EQ(read(x)[0], 1);
}

TEST_F(Graph, MayBeMovedAndDestroyedWhileItRuns) {
  const Tensor x = zeros({8}, kFloats);
  cuda::synchronize();
  const Stream stream(0);
  test::Gate gate(stream);
  {
    CUDAGraph graph;
    {
      // Not cuda::graph(), which would wait for the gate.
      const Stream own(0);
      const cuda::StreamGuard on(own);
      graph.capture_begin();
      x.add_(1);
      graph.capture_end();
    }
    CUDAGraph moved = std::move(graph);
    const cuda::StreamGuard on(stream);
    moved.replay();
  }
  gate.open();
  EXPECT_EQ(read(x)[0], 1);
}

TEST_F(Graph, OneThatWasMovedFromIsANewOne) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph graph(/*keep_graph=*/true);
  capture(graph, [&] { x.add_(1); });
  const auto moved_from = [&] {
    CUDAGraph from;
    const CUDAGraph to = std::move(from);
    return from;  // NOLINT(bugprone-use-after-move)
  };
  EXPECT_ERROR(moved_from().replay(), Error, "without a preceding successful capture");
  EXPECT_ERROR(moved_from().replay({{x, x}}), Error, "without a preceding successful capture");
  EXPECT_ERROR(moved_from().capture_end(), Error, "capture_end() called before capture_begin()");
  EXPECT_ERROR((void)moved_from().pool(), Error, "without a preceding successful capture");
  EXPECT_ERROR((void)moved_from().describe(), Error, "without a preceding successful capture");
  EXPECT_ERROR(moved_from().instantiate(), Error, "only when keep_graph=true");
  EXPECT_ERROR((void)moved_from().raw_cuda_graph(), Error, "keep_graph=true");
  EXPECT_ERROR((void)moved_from().raw_cuda_graph_exec(), Error, "until instantiate()");
  EXPECT_EQ(moved_from().log(), nullptr);
  CUDAGraph other = std::move(graph);
  graph.reset();  // NOLINT(bugprone-use-after-move)
  graph.enable_debug_mode();
  capture(graph, [&] { x.add_(10); });
  graph.replay();
  other.replay();
  EXPECT_EQ(read(x)[0], 11);
  CUDAGraph& self = other;
  other = std::move(self);
  other.replay();
  EXPECT_EQ(read(x)[0], 12);
}

// The memory of the one that is replaced must not wait for the end of the one that was moved from.
TEST_F(Graph, MovingIntoOneDropsWhatItWas) {
  const Tensor x = ones({1 << 20}, kFloats);
  CUDAGraph kept, dropped;
  capture(kept, [&] { x.add_(1); });
  cuda::empty_cache();
  const std::size_t before = cuda::memory_reserved();
  capture(dropped, [&] { x.copy_(x.mul(2).add(1)); });
  EXPECT_GT(cuda::memory_reserved(), before);
  dropped = std::move(kept);
  cuda::empty_cache();
  EXPECT_EQ(cuda::memory_reserved(), before);
  dropped.replay();
  EXPECT_EQ(read(x)[0], 2);
}

TEST_F(Graph, OneThatIsDestroyedInACaptureEndsIt) {
  const Stream stream(0);
  const cuda::StreamGuard on(stream);
  {
    CUDAGraph graph;
    graph.capture_begin();
    EXPECT_TRUE(stream.is_capturing());
  }
  EXPECT_FALSE(stream.is_capturing());
  EXPECT_TRUE(stream.query());
}

TEST_F(Graph, StreamsOfOtherDevicesAreOfTheCapture) {
  NEEDS_DEVICES(2);
  const Options there(float32, Device(Device::Type::cuda, 1));
  const Tensor x = ones({100}, kFloats), y = zeros({100}, there);
  cuda::synchronize(1);
  const Stream side(1);
  CUDAGraph graph;
  capture(graph, [&] {
    const Stream main = cuda::current_stream(0);
    x.add_(1);
    side.wait_stream(main);
    {
      const cuda::StreamGuard on(side);
      y.add_((y + 1) * 3);  // what is freed here must stay the graph's
    }
    main.wait_stream(side);
  });
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(full({100}, -5, there));
  cuda::synchronize(1);
  graph.replay();
  graph.replay();
  cuda::synchronize(0);
  cuda::synchronize(1);
  EXPECT_EQ(read(x)[0], 3);
  EXPECT_EQ(y.cpu().select(0, 99).item().to<float>(), 15);
  for (const Tensor& other : others) EXPECT_EQ(other.cpu().sum().item().to<float>(), -500);
}

TEST_F(Graph, UsesItsPoolWithoutTheCache) {
  const cuda::CachingAllocatorDisabled disabled;
  const Tensor x = ones({100}, kFloats);
  CUDAGraph graph;
  Tensor out;
  capture(graph, [&] { out = (x + 1) * 2 + (x + 3); });
  graph.replay();
  EXPECT_EQ(read(out)[99], 8);
}

TEST(GraphWithoutCaching, IsRefused) {
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == nullptr)
    GTEST_SKIP() << "needs PYTORCH_NO_CUDA_MEMORY_CACHING";
  const Stream stream(0);
  const cuda::StreamGuard on(stream);
  CUDAGraph graph;
  EXPECT_ERROR(graph.capture_begin(), Error, "CUDA graphs need the caching allocator");
  EXPECT_FALSE(stream.is_capturing());
}

}  // namespace
}  // namespace ember
