// What makes no sense is a clear error, nothing is lost by it, and the next capture works.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::Stream;
using test::kFloats;

class GraphBadInput : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
  /// Captures an addition to what it returns with the graph, and replays it.
  static Tensor captures(CUDAGraph& graph) {
    Tensor x = zeros({8}, kFloats);
    {
      auto scope = cuda::graph(graph);
      x.add_(1);
      scope.end();
    }
    graph.replay();
    EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 1);
    return x;
  }
};

TEST_F(GraphBadInput, ACaptureInACapture) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph outer, inner;
  {
    auto scope = cuda::graph(outer);
    x.add_(1);
    EXPECT_ERROR(outer.capture_begin(), Error,
                 "capture_begin() called on a CUDAGraph that is capturing already");
    x.add_(1);
    scope.end();
  }
  outer.replay();
  cuda::synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 2) << "the refused call changed nothing";
  {
    // Of another graph on the same stream it is the machine that refuses it, which ends both.
    const Stream stream(0);
    const cuda::StreamGuard on(stream);
    CUDAGraph first;
    first.capture_begin();
    x.add_(1);
    EXPECT_THROW(inner.capture_begin(), AcceleratorError);
    EXPECT_ERROR(inner.capture_end(), Error, "capture_end() called before capture_begin().");
    try {
      first.capture_end();  // a real device lets it go on
    } catch (const AcceleratorError&) {
    }
    EXPECT_FALSE(stream.is_capturing());
  }
  (void)captures(inner);
}

TEST_F(GraphBadInput, AnEndWithoutABegin) {
  CUDAGraph graph;
  EXPECT_ERROR(graph.capture_end(), Error, "capture_end() called before capture_begin().");
  const Tensor x = captures(graph);
  EXPECT_ERROR(graph.capture_end(), Error, "capture_end() called before capture_begin().");
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 2);
}

TEST_F(GraphBadInput, AGraphThatIsDestroyedWhileItReplays) {
  const Stream stream(0);
  const Tensor x = zeros({8}, kFloats);
  cuda::synchronize();
  {
    CUDAGraph graph(false, cuda::GraphCheck::error);
    {
      auto scope = cuda::graph(graph);
      x.add_((x + 1) * 2);
      scope.end();
    }
    const test::Gate gate(stream);
    {
      const cuda::StreamGuard on(stream);
      graph.replay();
      graph.replay();
    }
    graph.reset();
    EXPECT_ERROR(graph.replay(), Error, "without a preceding successful capture");
  }
  stream.synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 8);
}

TEST_F(GraphBadInput, APoolOfAnotherDevice) {
  NEEDS_DEVICES(2);
  const Options there(float32, Device(Device::Type::cuda, 1));
  const Tensor x = zeros({8}, kFloats), y = zeros({8}, there);
  CUDAGraph first(false, cuda::GraphCheck::error), second(false, cuda::GraphCheck::error);
  {
    const cuda::DeviceGuard on(1);
    const Stream stream(1);
    auto scope = cuda::graph(second, {}, stream);
    y.add_(y + 1);
    scope.end();
  }
  {
    // An id means a pool of its own on each device: memory does not come from the other one.
    auto scope = cuda::graph(first, second.pool(), Stream(0));
    x.add_(x + 2);
    scope.end();
  }
  for (const auto& segment : cuda::memory_snapshot(second.pool()).segments)
    EXPECT_TRUE(segment.device == 0 || segment.device == 1);
  second.replay();
  first.replay();
  cuda::synchronize(0);
  cuda::synchronize(1);
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 2);
  EXPECT_EQ(y.cpu().select(0, 0).item().to<float>(), 1);
}

TEST_F(GraphBadInput, ACaptureThatRunsOutOfMemory) {
  CUDAGraph graph;
  EXPECT_THROW(
      {
        auto scope = cuda::graph(graph);
        const Tensor x = ones({4}, kFloats);
        (void)empty({std::int64_t{1} << 40}, kFloats);
        scope.end();
      },
      OutOfMemoryError);
  EXPECT_FALSE(cuda::is_current_stream_capturing());
  graph.reset();
  (void)captures(graph);
}

TEST_F(GraphBadInput, AForkWithGraphs) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer starts no work in a forked child";
#endif
  CUDAGraph graph(false, cuda::GraphCheck::error), other(false, cuda::GraphCheck::error);
  const Tensor x = zeros({8}, kFloats);
  for (CUDAGraph* const each : {&graph, &other}) {
    auto scope = cuda::graph(*each, each == &other ? std::optional(graph.pool()) : std::nullopt);
    x.add_(x + 1);
    scope.end();
  }
  graph.replay();
  cuda::synchronize();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int status = 1;
    try {
      graph.replay();
    } catch (const Error& error) {
      if (std::string(error.what()).find("forked subprocess") != std::string::npos) status = 0;
    }
    try {
      graph.reset();
      other = CUDAGraph();
    } catch (...) {
      status = 2;
    }
    _exit(status);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  other.replay();
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 7);
}

}  // namespace
}  // namespace ember
