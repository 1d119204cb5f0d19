// What observers see of captures and replays.
#include <gtest/gtest.h>

#include <latch>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/graphs/common.h"

namespace ember {
namespace {

using cuda::Activity;
using cuda::CUDAGraph;
using cuda::Stream;

using test::kFloats;

/// Work, and what orders it.
class Recorder : public cuda::Observer {
 public:
  struct Seen {
    Activity::Kind kind;
    int device;
    std::string name;
    const void* stream;
    std::vector<cuda::Access> accesses;
  };
  ~Recorder() override { cuda::remove_observer(*this); }
  void notice(const Activity& activity) noexcept override {
    const std::lock_guard lock(mutex_);
    switch (activity.kind) {
      case Activity::Kind::kernel_launched:
      case Activity::Kind::copied:
      case Activity::Kind::filled:
      case Activity::Kind::event_recorded:
      case Activity::Kind::event_waited:
        seen_.push_back({activity.kind,
                         activity.device,
                         activity.name != nullptr ? activity.name : "",
                         activity.stream,
                         {activity.accesses.begin(), activity.accesses.end()}});
        break;
      default: break;
    }
  }
  std::vector<Seen> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Seen> seen_;
};

TEST(GraphObservers, ReplaysAreToldAsLaunches) {
  NEEDS_CACHING();
  const Tensor x = zeros({100}, kFloats);
  const Stream side(0);
  Tensor y;
  CUDAGraph graph;
  const auto capture = [&] {
    auto scope = cuda::graph(graph);
    const Stream main = cuda::current_stream();
    y = x + 1;
    side.wait_stream(main);
    {
      const cuda::StreamGuard on(side);
      y.mul_(2);
    }
    main.wait_stream(side);
    scope.end();
  };
  capture();  // nobody watches
  const Stream stream(0);
  cuda::synchronize();
  Recorder recorder;
  cuda::add_observer(recorder);
  {
    const cuda::StreamGuard on(stream);
    graph.replay();
  }
  const auto seen = recorder.take();
  ASSERT_EQ(seen.size(), 7U);
  using Kind = Activity::Kind;
  const std::vector<Kind> kinds{Kind::kernel_launched, Kind::event_recorded, Kind::event_waited,
                                Kind::kernel_launched, Kind::event_recorded, Kind::event_waited,
                                Kind::event_recorded};  // for the next replay
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(seen[i].kind, kinds[i]) << i;
  for (const Recorder::Seen& each : seen) EXPECT_EQ(each.device, 0);
  EXPECT_EQ(seen[0].stream, stream.native());
  EXPECT_EQ(seen[5].stream, stream.native());
  EXPECT_NE(seen[3].stream, stream.native());
  EXPECT_NE(seen[3].stream, side.native()) << "a branch is not the stream that it was captured on";
  EXPECT_EQ(seen[3].stream, seen[2].stream);
  EXPECT_EQ(seen[0].name, "add.float32");
  EXPECT_EQ(seen[3].name, "mul.float32");
  bool reads_x = false;
  for (const cuda::Access& access : seen[0].accesses)
    reads_x |= !access.writes && access.address == x.data_ptr() && access.bytes == 400;
  EXPECT_TRUE(reads_x);

  cuda::synchronize();
  graph.reset();
  y = Tensor();
  (void)recorder.take();
  capture();
  for (const Recorder::Seen& each : recorder.take())  // the stream's work before the capture
    EXPECT_EQ(each.kind, Kind::event_recorded) << "what is captured was not done";
}

/// Holds up the thread that tells, the first time.
class Gate : public cuda::Observer {
 public:
  ~Gate() override { cuda::remove_observer(*this); }
  void notice(const Activity& /*activity*/) noexcept override {
    if (!entered_.try_wait()) entered_.count_down();
    opened_.wait();
  }
  void await_entry() { entered_.wait(); }
  void open() { opened_.count_down(); }

 private:
  std::latch entered_{1};
  std::latch opened_{1};
};

// What one thread does is told by whoever tells already, and that may be after the capture.
TEST(GraphObservers, MemoryOfACaptureIsKnownAsSuchWhenItIsToldLate) {
  NEEDS_CACHING();
  const Stream stream(0);
  const cuda::StreamGuard on(stream);
  Tensor x = ones({100}, kFloats), y;
  cuda::synchronize();
  cuda::Sanitizer sanitizer({.print = false});
  Gate gate;
  cuda::add_observer(gate);
  std::thread teller([] { (void)Stream(0).query(); });
  gate.await_entry();
  CUDAGraph graph;
  graph.capture_begin();
  y = x * 2 + 1;  // the product is freed in the capture
  graph.capture_end();
  gate.open();
  teller.join();
  graph.replay();
  cuda::synchronize();
  EXPECT_EQ(sanitizer.summary().uses_after_free, 0U);
  EXPECT_TRUE(sanitizer.conflicts().empty());
}

// The allocator waits for the last replay, and says so.
TEST(GraphObservers, PinnedMemoryOfAGraphThatIsGoneIsUsedAgainBehindItsReplay) {
  NEEDS_CACHING();
  const Options pinned(float32, Device(Device::Type::cpu), true);
  const Tensor x = zeros({64}, kFloats);
  cuda::synchronize();
  cuda::Sanitizer sanitizer({.print = false});
  const void* address = nullptr;
  {
    CUDAGraph step;
    {
      const Tensor from = ones({64}, pinned);
      address = from.data_ptr();
      auto scope = cuda::graph(step);
      x.copy_(from, true);
      scope.end();
    }
    step.replay();
  }
  // Without a wait of the host's.
  for (int i = 0; i < 10'000; ++i) {
    const Tensor next = full({64}, 5, pinned);
    if (next.data_ptr() == address) break;
    std::this_thread::yield();
  }
  EXPECT_EQ(sanitizer.summary().races, 0U);
  EXPECT_EQ(sanitizer.summary().reuses, 0U);
  EXPECT_EQ(sanitizer.summary().uses_after_free, 0U);
  cuda::synchronize();
  EXPECT_TRUE(equal(x.cpu(), ones({64})));
}

}  // namespace
}  // namespace ember
