// A list of observers that are told everything that happens, the same on every driver.
#include "ember/runtime/observer.h"

#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "ember/driver/work_times.h"
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
  host_function([] {}, other, no_accesses());
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

// As an interpreter does that collects its garbage in a callback.
TEST(Observer, MayDestroyOthersWhileItIsTold) {
  struct Counting : Observer {
    Counting() { add_observer(*this); }
    ~Counting() override { remove_observer(*this); }
    void notice(const Activity&) noexcept override { ++calls; }
    int calls = 0;
  };
  struct Cleaning : Counting {
    void notice(const Activity& activity) noexcept override {
      Counting::notice(activity);
      before.reset();
      after.reset();
      EXPECT_ERROR(remove_observer(*this), Error, "notice()");
    }
    std::unique_ptr<Counting> before, after;
  };
  auto before = std::make_unique<Counting>();
  Cleaning cleaning;
  cleaning.before = std::move(before);
  cleaning.after = std::make_unique<Counting>();
  const Counting last;
  synchronize();
  EXPECT_EQ(cleaning.before, nullptr);
  EXPECT_EQ(cleaning.after, nullptr);
  EXPECT_GE(cleaning.calls, 2);
  EXPECT_EQ(last.calls, cleaning.calls);
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

TEST(Observer, SeveralAreToldInTheOrderOfTheList) {
  struct Second : Observer {
    explicit Second(Recorder& first) : first_(first) {}
    void notice(const Activity& activity) noexcept override {
      const std::vector<Activity> told = first_.take();
      EXPECT_EQ(told.size(), 1u);
      for (const Activity& one : told) EXPECT_EQ(one.order, activity.order);
      ++calls;
    }
    Recorder& first_;
    int calls = 0;
  };
  const Stream stream;
  Recorder first;
  Second second(first);
  add_observer(second);
  EXPECT_ERROR(add_observer(second), Error, "in the list already");
  EXPECT_ERROR(set_observer(&second), Error, "in the list already");
  launch(stream, test::nop_kernel, test::NopArgs{});
  EXPECT_EQ(second.calls, 1);
  remove_observer(second);
  remove_observer(second);  // nothing
  launch(stream, test::nop_kernel, test::NopArgs{});
  EXPECT_EQ(second.calls, 1);
  EXPECT_EQ(first.take_names(), Names{"kernel_launched"});
}

TEST(Observer, ThatDiesIsTakenOut) {
  struct Short : Observer {
    void notice(const Activity&) noexcept override { ++calls; }
    int calls = 0;
  };
  const int others = detail::observers;
  {
    Short observer;
    add_observer(observer);
    synchronize();
    EXPECT_EQ(observer.calls, 2);
  }
  synchronize();
  EXPECT_EQ(detail::observers, others);
}

// Two threads enqueue on one stream: they are seen in the order in which the stream does their
// work.
TEST(Observer, SeesTheOrderOfTheQueue) {
  constexpr std::uint32_t kEach = 500;
  test::Words<std::uint32_t> log(1 + 2 * kEach);
  const Stream stream;
  Recorder recorder;
  const auto enqueue = [&](driver::Name name, std::uint32_t tag) {
    driver::Kernel kernel = test::log_kernel;
    kernel.name = name;
    for (std::uint32_t i = 0; i < kEach; ++i)
      launch(stream, kernel, test::LogArgs{log.get(), tag, 2 * kEach});
  };
  std::thread other([&] { enqueue("second", 2); });
  enqueue("first", 1);
  other.join();
  std::vector<std::uint32_t> seen;
  std::uint64_t before = 0;
  for (const Activity& activity : recorder.take()) {
    if (activity.kind != Activity::Kind::kernel_launched) continue;
    seen.push_back(std::string(activity.name) == "first" ? 1 : 2);
    EXPECT_GT(activity.order, before);
    before = activity.order;
    EXPECT_NE(activity.thread, 0u);
  }
  std::vector<std::uint32_t> done = log.read();
  done.erase(done.begin());
  EXPECT_EQ(seen, done);
}

TEST(Observer, SeesQueriesWithTheirAnswers) {
  const Stream stream;
  Event event;
  event.record(stream);
  Recorder recorder;
  {
    test::Gate gate(stream);
    event.record(stream);
    EXPECT_FALSE(stream.query());
    EXPECT_FALSE(event.query());
  }
  stream.synchronize();
  EXPECT_TRUE(stream.query());
  EXPECT_TRUE(event.query());
  std::vector<std::pair<Activity::Kind, bool>> answers;
  for (const Activity& activity : recorder.take())
    if (activity.kind == Activity::Kind::stream_queried ||
        activity.kind == Activity::Kind::event_queried)
      answers.emplace_back(activity.kind, activity.done);
  const std::vector<std::pair<Activity::Kind, bool>> expected{
      {Activity::Kind::stream_queried, false},
      {Activity::Kind::event_queried, false},
      {Activity::Kind::stream_queried, true},
      {Activity::Kind::event_queried, true}};
  EXPECT_EQ(answers, expected);
}

TEST(Observer, SeesTheEndOfAStream) {
  std::optional<Stream> stream(std::in_place);
  const std::int64_t id = stream->stream_id();
  Recorder recorder;
  stream.reset();
  const std::vector<Activity> seen = recorder.take();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, Activity::Kind::stream_ended);
  EXPECT_EQ(seen[0].stream_id, id);
}

TEST(Observer, IsToldWhatWorkAccesses) {
  test::Words<std::uint32_t> data(16);
  const Stream stream;
  struct Accesses : Observer {
    ~Accesses() override { remove_observer(*this); }
    void notice(const Activity& activity) noexcept override {
      known.push_back(activity.accesses_known);
      for (const Access& access : activity.accesses) {
        all.push_back(access);
        sizes.emplace_back(access.sizes.begin(), access.sizes.end());
      }
    }
    std::vector<bool> known;
    std::vector<Access> all;
    std::vector<std::vector<std::int64_t>> sizes;
  } observer;
  add_observer(observer);
  const auto nothing = [](const HostLaunch&) {};
  const auto no_cuda = [](const CudaLaunch&) {};
  launch(stream, "declared", {reads(data.get(), 4), writes(data.get() + 4, 2)}, nothing, no_cuda);
  launch(stream, "declared", {}, nothing, no_cuda);
  launch(stream, "unknown", nothing, no_cuda);
  host_function([] {}, stream, {reads(data.get(), 1)});
  host_function([] {}, stream);
  host_writes(data.get(), 3);
  EXPECT_EQ(observer.known, (std::vector<bool>{true, true, false, true, false, true}));
  ASSERT_EQ(observer.all.size(), 4u);
  EXPECT_EQ(observer.all[0].bytes, 16u);
  EXPECT_FALSE(observer.all[0].writes);
  EXPECT_EQ(observer.all[1].address, data.get() + 4);
  EXPECT_EQ(observer.all[1].bytes, 8u);
  EXPECT_TRUE(observer.all[1].writes);
  EXPECT_TRUE(observer.all[3].writes);

  observer.all.clear();
  const std::int64_t sizes[] = {2, 3}, strides[] = {8, 2};
  const Access strided{.address = data.get(),
                       .bytes = 52,
                       .writes = true,
                       .memory = Access::Memory::device,
                       .item = 4,
                       .sizes = sizes,
                       .strides = strides};
  launch(stream, test::nop_kernel, Params(test::NopArgs{}), {&strided, 1});
  ASSERT_EQ(observer.all.size(), 1u);
  EXPECT_EQ(observer.sizes.back(), (std::vector<std::int64_t>{2, 3}));
}

/// Keeps the times of the last kernel, and tries to collect them where that is not allowed.
class Timer : public Observer {
 public:
  Timer() { add_observer(*this); }
  ~Timer() override { remove_observer(*this); }
  bool wants_times() const noexcept override { return true; }
  void notice(const Activity& activity) noexcept override {
    if (activity.kind != Activity::Kind::kernel_launched) return;
    times = Ref<driver::WorkTimes>(activity.times);
    try {
      collect_times();
    } catch (const Error& error) {
      refused = error.what();
    }
  }
  Ref<driver::WorkTimes> times;
  std::string refused;
};

TEST(Observer, IsToldWhenWorkRan) {
  const Timer timer;
  const Stream stream(0);
  sleep_cycles(100'000, stream);
  stream.synchronize();
  collect_times();
  ASSERT_TRUE(timer.times);
  const auto [state, begin, end] = timer.times->read();
  EXPECT_EQ(state, driver::WorkTimes::State::done);
  EXPECT_LT(begin, end);
  EXPECT_EQ(timer.refused, "collect_times: must not be called from within notice()");
}

TEST(Observer, MayHaveAnOperationFail) {
  struct Strict : Observer {
    ~Strict() override { remove_observer(*this); }
    void notice(const Activity& activity) noexcept override {
      if (activity.kind == Activity::Kind::kernel_launched)
        fail_operation(activity.thread, std::make_exception_ptr(ValueError("not today")));
    }
  } observer;
  const test::Words<std::uint32_t> data(1);
  const Stream stream;
  add_observer(observer);
  EXPECT_ERROR(launch(stream, test::nop_kernel, test::NopArgs{}), ValueError, "not today");
  fill_async(data.get(), 0, 4, stream);
  stream.synchronize();
}

TEST(Observer, EveryActivityHasAName) {
  for (int kind = 0; kind <= static_cast<int>(Activity::Kind::range_ended); ++kind)
    EXPECT_STRNE(activity_name(static_cast<Activity::Kind>(kind)), "unknown");
}

}  // namespace
}  // namespace ember::cuda
