// Events that a graph's replays record and wait for, beside work outside of the graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/graphs/common.h"
#include "tests/support/gate.h"

namespace ember {
namespace {

using cuda::CUDAGraph;
using cuda::Event;
using cuda::Stream;
using cuda::StreamGuard;

using test::kFloats;

Event external(bool timing = false) { return Event(timing, false, false, true); }

class ExternalEvents : public testing::Test {
 protected:
  void SetUp() override { NEEDS_CACHING(); }
};

float first_of(const Tensor& tensor) { return tensor.cpu().view({-1})[0].item<float>(); }

/// What `x` holds, read on a stream when its turn comes there.
float read_on(const Stream& stream, const Tensor& x) {
  const StreamGuard on(stream);
  const Tensor copy = x * 1;
  stream.synchronize();
  return first_of(copy);
}

TEST_F(ExternalEvents, ArePointsOfEachReplay) {
  const Tensor x = zeros({64}, kFloats), y = zeros({64}, kFloats);
  const Stream side(0), other(0);
  Event reached = external(), go = external();
  go.record(side);
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    x.add_(1);
    reached.record();
    go.wait();
    y.add_(1);
    scope.end();
  }
  EXPECT_TRUE(reached.query()) << "only replays record it";
  for (const float round : {1.0F, 2.0F}) {
    test::Gate gate(side);
    go.record(side);
    graph.replay();
    reached.wait(other);
    EXPECT_EQ(read_on(other, x), round);
    EXPECT_TRUE(reached.query());
    EXPECT_FALSE(cuda::current_stream().query()) << "the replay waits for the gate";
    gate.open();
    cuda::synchronize();
    EXPECT_EQ(first_of(y), round);
  }
}

TEST_F(ExternalEvents, TakeTimesWithinAReplay) {
  const Tensor x = zeros({4096}, kFloats);
  Event begin = external(true), end = external(true);
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    begin.record();
    for (int i = 0; i < 20; ++i) x.add_(1);
    end.record();
    scope.end();
  }
  EXPECT_THROW((void)begin.elapsed_time(end), AcceleratorError) << "nothing has recorded them";
  for (int i = 0; i < 2; ++i) {
    graph.replay();
    end.synchronize();
    EXPECT_GE(begin.elapsed_time(end), 0);
  }
  EXPECT_EQ(first_of(x), 40);
}

TEST_F(ExternalEvents, AreOrdinaryOnesOutsideOfCaptures) {
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  Event event = external();
  EXPECT_TRUE(event.query());
  x.add_(1);
  event.record();
  event.wait(side);
  EXPECT_EQ(read_on(side, x), 1);
  event.synchronize();
}

TEST_F(ExternalEvents, JoinNoStreams) {
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  Event event = external();
  event.record(side);
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    x.add_(1);
    event.record();
    event.wait(side);  // for the record before the capture
    EXPECT_FALSE(side.is_capturing());
    scope.end();
  }
  graph.replay();
  event.wait(side);
  EXPECT_EQ(read_on(side, x), 1);
}

TEST_F(ExternalEvents, OfBranchesAreReachedWhenTheseAre) {
  const Tensor x = zeros({64}, kFloats), y = zeros({64}, kFloats);
  const Stream side(0), other(0);
  Event reached = external(true);
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    const Stream main = cuda::current_stream(0);
    x.add_(1);
    side.wait_stream(main);
    {
      const StreamGuard on(side);
      y.copy_(x);
      reached.record();
    }
    main.wait_stream(side);
    x.add_(1);
    scope.end();
  }
  for (const float round : {1.0F, 3.0F}) {
    graph.replay();
    reached.wait(other);
    EXPECT_EQ(read_on(other, y), round);
  }
  cuda::synchronize();
}

TEST_F(ExternalEvents, HaveToBeJoinedAsOtherWork) {
  const Stream side(0);
  Event event = external();
  CUDAGraph graph;
  auto scope = cuda::graph(graph);
  const Tensor x = zeros({64}, kFloats);
  side.wait_stream(cuda::current_stream(0));
  event.record(side);
  EXPECT_THROW(scope.end(), AcceleratorError);
}

TEST_F(ExternalEvents, LiveAsLongAsTheGraph) {
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  CUDAGraph graph;
  {
    Event reached = external(true), go = external();
    go.record(side);
    auto scope = cuda::graph(graph);
    go.wait();
    x.add_(1);
    reached.record();
    scope.end();
  }
  graph.replay();
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(first_of(x), 2);
}

/// The events that observers were told of since it was made.
struct EventsSeen : cuda::Observer {
  EventsSeen() { cuda::add_observer(*this); }
  ~EventsSeen() override { cuda::remove_observer(*this); }
  EventsSeen(const EventsSeen&) = delete;
  EventsSeen& operator=(const EventsSeen&) = delete;
  void notice(const cuda::Activity& activity) noexcept override {
    using Kind = cuda::Activity::Kind;
    if (activity.kind == Kind::event_recorded) recorded.push_back(activity.event);
    if (activity.kind == Kind::event_waited) waited.push_back(activity.event);
  }
  std::vector<const void*> recorded, waited;
};

TEST_F(ExternalEvents, AreToldToObserversByReplays) {
  const Tensor x = zeros({64}, kFloats);
  const Stream side(0);
  Event reached = external(), go = external();
  go.record(side);
  CUDAGraph graph;
  const auto count = [](const std::vector<const void*>& events, const Event& event) {
    return std::count(events.begin(), events.end(), event.native());
  };
  {
    const EventsSeen seen;
    auto scope = cuda::graph(graph);
    go.wait();
    x.add_(1);
    reached.record();
    scope.end();
    EXPECT_EQ(count(seen.waited, go) + count(seen.recorded, reached), 0);
  }
  const EventsSeen seen;
  graph.replay();
  graph.replay();
  EXPECT_EQ(count(seen.waited, go), 2);
  EXPECT_EQ(count(seen.recorded, reached), 2);
  cuda::synchronize();
}

TEST_F(ExternalEvents, AreNodes) {
  const Tensor x = zeros({64}, kFloats);
  Event go = external(), reached = external();
  go.record();
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    go.wait();
    x.add_(1);
    reached.record();
    scope.end();
  }
  const cuda::GraphDescription described = graph.describe();
  ASSERT_EQ(described.nodes.size(), 3U);
  EXPECT_EQ(described.nodes[0].kind, "event wait");
  EXPECT_EQ(described.nodes[2].kind, "event record");
  EXPECT_EQ(described.nodes[2].after, std::vector<std::size_t>{1});
  const Tensor other = ones({64}, kFloats);
  graph.replay({{x, other}});  // they touch no memory
  cuda::synchronize();
  EXPECT_EQ(first_of(other), 2);
}

TEST_F(ExternalEvents, OrderReplaysAndTheHostForChecks) {
  const Tensor x = zeros({64}, kFloats);
  const Tensor pinned = zeros({64}).pin_memory();
  const Stream other(0);
  Event go = external(), done = external();
  go.record(other);
  const cuda::MemPoolId pool = cuda::graph_pool_handle();
  CUDAGraph one(false, cuda::GraphCheck::error), two(false, cuda::GraphCheck::error);
  Tensor y, z;
  {
    auto scope = cuda::graph(one, pool);
    go.wait();
    y = (x + 1) * 2;
    pinned.copy_(y, true);
    done.record();
    scope.end();
  }
  {
    auto scope = cuda::graph(two, pool);
    z = (x + 2) * 3;
    scope.end();
  }
  for (int round = 0; round < 3; ++round) {
    one.replay();
    {
      const StreamGuard on(other);
      done.wait();
      two.replay();
      go.record();
    }
    done.synchronize();
    EXPECT_EQ(first_of(pinned), 2);
  }
  cuda::synchronize();
  EXPECT_EQ(first_of(z), 6);
}

TEST_F(ExternalEvents, OfOtherDevices) {
  NEEDS_DEVICES(2);
  const Tensor x = zeros({64}, kFloats);
  const Stream there(1);
  Event go = external(), done = external();
  go.record(there);
  CUDAGraph graph;
  {
    auto scope = cuda::graph(graph);
    go.wait();
    x.add_(1);
    done.record();
    scope.end();
  }
  test::Gate gate(there);
  go.record(there);
  graph.replay();
  EXPECT_FALSE(done.query());
  gate.open();
  done.wait(there);
  there.synchronize();
  EXPECT_EQ(first_of(x), 1);
}

}  // namespace
}  // namespace ember
