// What cannot be captured: refused by name, and what is left then.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::Event;
using cuda::Stream;

using test::kFloats;

class GraphRefusals : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
  /// A call that is refused with a text that names it leaves an invalid capture, whose end fails,
  /// and then a program that goes on.
  template <class Call>
  void refuses(const Call& call, const char* name) {
    SCOPED_TRACE(name);
    const Tensor x = zeros({8}, kFloats);
    cuda::synchronize();
    CUDAGraph graph;
    {
      const cuda::StreamGuard on(stream_);
      graph.capture_begin();
      x.add_(1);
      EXPECT_ERROR(call(), AcceleratorError, name);
      EXPECT_TRUE(stream_.is_capturing());
      EXPECT_ERROR(x.add_(1), AcceleratorError, "previous error during capture");
      expect_end_names(graph, name);
      EXPECT_FALSE(stream_.is_capturing());
      EXPECT_ERROR(graph.replay(), Error, "without a preceding successful capture");
      EXPECT_ERROR(graph.pool(), Error, "without a preceding successful capture");
      x.add_(2);
      graph.capture_begin();
      x.add_(3);
      graph.capture_end();
    }
    stream_.synchronize();
    graph.replay();
    cuda::synchronize();
    EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 5);
  }

  /// The end says which call it was, and where.
  static void expect_end_names(CUDAGraph& graph, const char* name) {
    try {
      graph.capture_end();
      ADD_FAILURE() << "expected an error of the capture's end";
    } catch (const AcceleratorError& error) {
      const std::string text = error.what();
      for (const char* part : {"previous error during capture", "it became invalid by this: ", name,
                               "Called with stack trace:\n"})
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }

  const Stream stream_{0};
};

TEST_F(GraphRefusals, WaitsOfTheHost) {
  refuses([&] { stream_.synchronize(); }, "Stream.synchronize");
  refuses([&] { cuda::synchronize(); }, "synchronize");
  refuses(
      [&] {
        Event event;
        event.record(stream_);
        event.synchronize();
      },
      "Event.synchronize");
}

TEST_F(GraphRefusals, Looks) {
  refuses([&] { (void)stream_.query(); }, "query");
  refuses(
      [&] {
        Event event;
        event.record(stream_);
        (void)event.query();
      },
      "event");
}

TEST_F(GraphRefusals, NumbersOnTheHost) {
  const Tensor number = ones({1}, kFloats);
  refuses([&] { (void)number.item(); }, "item");
}

TEST_F(GraphRefusals, CopiesOfOrdinaryMemory) {
  constexpr const char* kText =
      "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
      "pinned";
  const Tensor here = ones({100}), there = zeros({100}, kFloats);
  refuses([&] { there.copy_(here, true); }, kText);
  refuses([&] { there.copy_(here); }, kText);
  refuses([&] { here.copy_(there); }, kText);
  refuses([&] { (void)there.cpu(); }, kText);
  float value = 0;
  refuses([&] { cuda::copy_async(&value, there.data_ptr(), 4); }, kText);
}

TEST_F(GraphRefusals, CopiesThatWaitEvenIfPinned) {
  const Tensor there = zeros({100}, kFloats);
  const Tensor pinned = ones({100}, Options(float32, Device(Device::Type::cpu), true));
  refuses([&] { there.copy_(pinned); }, "a copy to a device");
}

TEST_F(GraphRefusals, ReplaysInACapture) {
  const Tensor x = zeros({8}, kFloats);
  CUDAGraph other;
  {
    auto scope = cuda::graph(other);
    x.add_(1);
    scope.end();
  }
  refuses([&] { other.replay(); }, "CUDAGraph.replay");
}

TEST_F(GraphRefusals, EventsAreNotPolledForTheLibrary) {
  const Tensor x = zeros({8}, kFloats);
  const Stream side(0);
  cuda::synchronize();
  CUDAGraph graph;
  {
    const cuda::StreamGuard on(stream_);
    graph.capture_begin();
    x.add_(1);
    // Another thread frees what two streams have used, and allocates: its events are looked at by
    // nobody until the capture is over.
    std::thread([&] {
      for (int i = 0; i < 5; ++i) {
        cuda::DeviceBuffer memory = cuda::allocate(1 << 20, cuda::default_stream(0));
        record_stream(memory, side);
        memory.reset();
        Event().record(side);
      }
    }).join();
    graph.capture_end();
  }
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(x.cpu().select(0, 0).item().to<float>(), 1);
  cuda::empty_cache();
}

TEST_F(GraphRefusals, AThreadThatPollsKillsAGlobalCapture) {
  Event event;
  const Stream side(0);
  event.record(side);
  event.synchronize();
  const Tensor x = zeros({8}, kFloats);
  cuda::synchronize();
  const cuda::StreamGuard on(stream_);
  const auto poll = [&] {
    std::thread([&] {
      try {
        (void)event.query();
      } catch (const AcceleratorError&) {
      }
    }).join();
  };
  CUDAGraph graph;
  graph.capture_begin();
  x.add_(1);
  poll();
  EXPECT_ERROR(graph.capture_end(), AcceleratorError, "previous error during capture");

  graph.capture_begin({}, cuda::CaptureErrorMode::thread_local_);
  x.add_(1);
  poll();
  graph.capture_end();
}

TEST_F(GraphRefusals, ABranchThatIsNotJoined) {
  const Tensor x = zeros({8}, kFloats);
  const Stream side(0);
  cuda::synchronize();
  CUDAGraph graph;
  const cuda::StreamGuard on(stream_);
  graph.capture_begin();
  side.wait_stream(stream_);
  {
    const cuda::StreamGuard there(side);
    x.add_(1);
  }
  EXPECT_ERROR(graph.capture_end(), AcceleratorError, "unjoined work");
  EXPECT_FALSE(side.is_capturing());
  EXPECT_TRUE(side.query());
}

}  // namespace
}  // namespace ember
