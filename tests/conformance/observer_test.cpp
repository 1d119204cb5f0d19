// One slot through which everything that happens can be watched, the same on every driver.
#include "ember/runtime/observer.h"

#include <mutex>
#include <thread>

#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class Recorder : public Observer {
 public:
  Recorder() : previous_(set_observer(this)) {}
  ~Recorder() override { set_observer(previous_); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void notice(const Activity& activity) noexcept override {
    const std::lock_guard lock(mutex_);
    seen_.push_back(activity);
  }
  std::vector<Activity> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }
  std::vector<std::string> take_names() {
    std::vector<std::string> names;
    for (const Activity& activity : take()) names.emplace_back(activity_name(activity.kind));
    return names;
  }

 private:
  std::mutex mutex_;
  std::vector<Activity> seen_;
  Observer* previous_;
};

using Names = std::vector<std::string>;

TEST(Observer, SeesStreamsEventsAndWork) {
  test::Words<std::uint32_t> data(16);
  const Stream stream;
  const Stream other;
  Recorder recorder;
  Event event;
  EXPECT_EQ(recorder.take_names(), Names{}) << "creation fires at the first record";
  launch(stream, test::affine_kernel, test::AffineArgs{data.get(), 16, 1, 1});
  event.record(stream);
  event.wait(other);
  event.synchronize();
  fill_async(data.get(), 0, 64, other);
  std::uint32_t host[16];
  copy_async(host, data.get(), 64, other);
  host_function([] {}, other);
  other.synchronize();
  synchronize();
  event = Event();
  EXPECT_EQ(
      recorder.take_names(),
      (Names{"kernel_launched", "event_created", "event_recorded", "event_waited", "wait_began",
             "event_synchronized", "filled", "copied", "host_function_queued", "wait_began",
             "stream_synchronized", "wait_began", "device_synchronized", "event_destroyed"}));
}

TEST(Observer, IsToldTheDetails) {
  test::Words<std::uint32_t> data(4);
  const Stream stream;
  Recorder recorder;
  launch(stream, test::nop_kernel, test::NopArgs{});
  std::uint32_t host[4] = {};
  copy_async(data.get(), host, 16, stream);
  const std::vector<Activity> seen = recorder.take();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_STREQ(seen[0].name, "nop");
  EXPECT_EQ(seen[0].device, 0);
  EXPECT_EQ(seen[0].stream, stream.native());
  EXPECT_EQ(seen[0].stream_id, stream.stream_id());
  EXPECT_EQ(seen[1].address, data.get());
  EXPECT_EQ(seen[1].source, host);
  EXPECT_EQ(seen[1].bytes, 16u);
}

TEST(Observer, SeesStreamCreationOnce) {
  std::vector<Stream> keep;
  Recorder recorder;
  // The pool may have idle streams; take more than it can have.
  for (int i = 0; i < 300; ++i) keep.emplace_back(0);
  const Names names = recorder.take_names();
  EXPECT_GE(names.size(), 1u);
  EXPECT_EQ(names.front(), "stream_created");
}

TEST(Observer, IsNotToldWhatItDoesItself) {
  class Nosy : public Observer {
   public:
    void notice(const Activity&) noexcept override {
      ++calls;
      default_stream(0).synchronize();
      EXPECT_ERROR(set_observer(nullptr), Error, "notice()");
    }
    std::atomic<int> calls{0};
  } nosy;
  set_observer(&nosy);
  synchronize();
  EXPECT_EQ(set_observer(nullptr), &nosy);
  EXPECT_EQ(nosy.calls, 2);  // that a wait began, and that it is over
}

TEST(Observer, HasNoCallInProgressOnceItLeft) {
  struct Short : Observer {
    void notice(const Activity&) noexcept override { ASSERT_TRUE(alive); }
    ~Short() override { alive = false; }
    std::atomic<bool> alive{true};
  };
  const Stream stream;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) stream.synchronize();
  });
  for (int i = 0; i < 200; ++i) {
    Short observer;
    set_observer(&observer);
    std::this_thread::yield();
    set_observer(nullptr);
  }
  stop = true;
  busy.join();
}

TEST(Observer, EveryActivityHasAName) {
  for (int kind = 0; kind <= static_cast<int>(Activity::Kind::range_ended); ++kind)
    EXPECT_STRNE(activity_name(static_cast<Activity::Kind>(kind)), "unknown");
}

}  // namespace
}  // namespace ember::cuda
