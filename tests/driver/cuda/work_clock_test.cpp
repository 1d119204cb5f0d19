// When work ran, as the CUDA driver learns it from CUPTI: with a fake of that, and without any.
#include <dlfcn.h>

#include <string>
#include <thread>

#include "ember/driver/cuda/cupti_api.h"
#include "ember/driver/work_times.h"
#include "fake_cupti.h"
#include "fake_machine.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
namespace ember::driver::cuda::cupti {
static_assert(offsetof(CUpti_ActivityKernel10, start) == kBeginAt);
static_assert(offsetof(CUpti_ActivityKernel10, end) == kEndAt);
static_assert(offsetof(CUpti_ActivityKernel10, correlationId) == kKernelCallAt);
static_assert(offsetof(CUpti_ActivityMemcpy6, start) == kBeginAt);
static_assert(offsetof(CUpti_ActivityMemcpy6, correlationId) == kCopyCallAt);
static_assert(offsetof(CUpti_ActivityMemset4, start) == kBeginAt);
static_assert(offsetof(CUpti_ActivityMemset4, correlationId) == kCopyCallAt);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, start) == kBeginAt);
static_assert(offsetof(CUpti_ActivityMemcpyPtoP4, correlationId) == kPeerCopyCallAt);
static_assert(offsetof(CUpti_ActivityExternalCorrelation, externalKind) == kExternalKindAt);
static_assert(offsetof(CUpti_ActivityExternalCorrelation, externalId) == kExternalNumberAt);
static_assert(offsetof(CUpti_ActivityExternalCorrelation, correlationId) == kExternalCallAt);
static_assert(CUPTI_ACTIVITY_KIND_MEMCPY == static_cast<int>(Kind::copy));
static_assert(CUPTI_ACTIVITY_KIND_MEMSET == static_cast<int>(Kind::fill));
static_assert(CUPTI_ACTIVITY_KIND_DRIVER == static_cast<int>(Kind::driver_call));
static_assert(CUPTI_ACTIVITY_KIND_RUNTIME == static_cast<int>(Kind::runtime_call));
static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == static_cast<int>(Kind::kernel));
static_assert(CUPTI_ACTIVITY_KIND_MEMCPY2 == static_cast<int>(Kind::peer_copy));
static_assert(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION == static_cast<int>(Kind::external_call));
static_assert(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 == kOurs);
static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == kOtherSubscriber);
}  // namespace ember::driver::cuda::cupti
#endif

namespace ember::driver {
namespace {

using State = WorkTimes::State;
constexpr int kKernel = 10;
constexpr int kCopy = 1;
constexpr int kFill = 2;
constexpr int kPeerCopy = 22;

/// One piece of work, as the seam's callers time it.
class Timed {
 public:
  Timed(Driver& driver, StreamHandle stream) : driver_(driver), stream_(stream) {
    status = driver.time_next(stream, times_.get());
  }
  ~Timed() { (void)driver_.time_next(stream_, nullptr); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  const Ref<WorkTimes>& times() const { return times_; }
  Status status;

 private:
  Driver& driver_;
  const StreamHandle stream_;
  const Ref<WorkTimes> times_ = make_ref<WorkTimes>();
};

class WorkClockOnFakeCuda : public OnFakeCuda {
 protected:
  void SetUp() override {
    OnFakeCuda::SetUp();
    void* const library = dlopen(std::getenv("EMBER_CUPTI"), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << "EMBER_CUPTI is not the fake";
    cupti_ = static_cast<FakeCupti*>(dlsym(library, kFakeCupti));
    stream_ = stream_on(0);
  }
  void TearDown() override {
    EXPECT_TRUE(cuda().times_pause().ok());
    EXPECT_EQ(cupti().subscribers, 0);
    EXPECT_EQ(cupti().kinds, 0);
    EXPECT_EQ(cupti().pushed, 0);
    (void)cuda().times_collect();
  }

  static FakeCupti& cupti() { return *cupti_; }
  static void collect() {
    const Status status = cuda().times_collect();
    EXPECT_TRUE(status.ok()) << status.text();
  }
  /// Work of one call, and the record of it.
  Ref<WorkTimes> work(int kind, std::int64_t begin, std::int64_t end) {
    const Timed timed(cuda(), stream_);
    EXPECT_TRUE(timed.status.ok()) << timed.status.text();
    cupti().record(kind, cupti().call(), begin, end);
    return timed.times();
  }
  static void expect(const Ref<WorkTimes>& times, std::int64_t begin, std::int64_t end) {
    const auto [state, began, ended] = times->read();
    EXPECT_EQ(state, State::done);
    EXPECT_EQ(began, begin);
    EXPECT_EQ(ended, end);
  }

  static FakeCupti* cupti_;
  StreamHandle stream_;
};
FakeCupti* WorkClockOnFakeCuda::cupti_ = nullptr;

TEST_F(WorkClockOnFakeCuda, EachKindOfWorkIsNoted) {
  const Ref<WorkTimes> kernel = work(kKernel, 10, 20);
  const Ref<WorkTimes> copy = work(kCopy, 21, 25);
  const Ref<WorkTimes> fill = work(kFill, 26, 27);
  const Ref<WorkTimes> peer = work(kPeerCopy, 30, 50);
  EXPECT_EQ(kernel->read().state, State::waiting) << "nothing is known before it is collected";
  collect();
  expect(kernel, 10, 20);
  expect(copy, 21, 25);
  expect(fill, 26, 27);
  expect(peer, 30, 50);
  EXPECT_EQ(cupti().buffers, 0);
}

TEST_F(WorkClockOnFakeCuda, WorkOfSeveralKernelsRanFromTheFirstToTheLast) {
  Ref<WorkTimes> times;
  std::uint32_t last = 0;
  {
    const Timed timed(cuda(), stream_);
    times = timed.times();
    cupti().record(kKernel, cupti().call(), 40, 60);
    cupti().record(kCopy, cupti().call(), 20, 30);
    last = cupti().call();
  }
  collect();
  expect(times, 20, 60);
  cupti().record(kKernel, last, 70, 90);  // later
  collect();
  expect(times, 20, 90);
}

TEST_F(WorkClockOnFakeCuda, WhatOthersEnqueueIsNobodys) {
  const Ref<WorkTimes> mine = work(kKernel, 10, 20);
  cupti().record(kKernel, cupti().call(), 1, 1000);  // nothing is timed: as another library would
  Ref<WorkTimes> theirs;
  std::thread([&] { theirs = work(kKernel, 30, 31); }).join();
  collect();
  expect(mine, 10, 20);
  expect(theirs, 30, 31);
}

TEST_F(WorkClockOnFakeCuda, RecordsMayComeBeforeTheNameOfTheirCall) {
  for (const std::size_t size : {1U, 2U, 3U, 100U}) {
    cupti().records_of_buffer = size;
    Ref<WorkTimes> times;
    {
      const Timed timed(cuda(), stream_);
      times = timed.times();
      // The next call's number, by the order in which the fake counts.
      const std::uint32_t call = cupti().call() + 1;
      cupti().record(kKernel, call, 5, 6);
      EXPECT_EQ(cupti().call(), call);
    }
    collect();
    expect(times, 5, 6);
  }
  cupti().records_of_buffer = 100;
}

TEST_F(WorkClockOnFakeCuda, ATimeThatCuptiHasNotIsNotKnown) {
  const Ref<WorkTimes> times = work(kKernel, 0, 20);
  collect();
  EXPECT_EQ(times->read().state, State::waiting);
}

TEST_F(WorkClockOnFakeCuda, WorkInFlightIsNotedLater) {
  const Ref<WorkTimes> before = work(kKernel, 10, 20);
  const Ref<WorkTimes> running = work(kKernel, 30, 0);
  collect();
  EXPECT_EQ(running->read().state, State::waiting);
  EXPECT_EQ(cupti().buffers, 1) << "its buffer stays with CUPTI";
  // After a fault, or a reset, it will never be over; what came before it in the buffer is.
  ASSERT_TRUE(cuda().device_reset(0).ok());
  collect();
  expect(before, 10, 20);
  EXPECT_EQ(running->read().state, State::dropped);
}

TEST_F(WorkClockOnFakeCuda, AFaultDropsWhatWasInFlight) {
  const Ref<WorkTimes> running = work(kKernel, 30, 0);
  fake().fault[0] = static_cast<int>(Code::illegal_address);
  EXPECT_FALSE(cuda().stream_synchronize(stream_).ok());
  collect();
  EXPECT_EQ(running->read().state, State::dropped);
}

TEST_F(WorkClockOnFakeCuda, PausesAndGoesOn) {
  (void)work(kKernel, 10, 20);
  EXPECT_EQ(cupti().subscribers, 1);
  EXPECT_EQ(cupti().kinds, 7);
  ASSERT_TRUE(cuda().times_pause().ok());
  EXPECT_EQ(cupti().subscribers, 0);
  EXPECT_EQ(cupti().kinds, 0);
  const Ref<WorkTimes> times = work(kKernel, 30, 40);
  ASSERT_TRUE(cuda().times_pause().ok());
  collect();  // what it has still comes
  expect(times, 30, 40);
}

TEST_F(WorkClockOnFakeCuda, AnotherToolKeepsIt) {
  cupti().taken = true;
  for (int i = 0; i < 2; ++i) {
    const Timed timed(cuda(), stream_);
    EXPECT_EQ(timed.status.code(), Code::not_supported);
    EXPECT_EQ(timed.status.detail(), "another tool of this process uses CUPTI");
  }
  EXPECT_EQ(cuda().times_collect().detail(), "another tool of this process uses CUPTI");
  cupti().taken = false;
  EXPECT_EQ(Timed(cuda(), stream_).status.code(), Code::not_supported) << "not asked again yet";
  ASSERT_TRUE(cuda().times_pause().ok());
  expect(
      [&] {
        const Ref<WorkTimes> times = work(kKernel, 1, 2);
        collect();
        return times;
      }(),
      1, 2);
}

TEST_F(WorkClockOnFakeCuda, CallsThatFailLeaveNothing) {
  for (const char* name : {"cuptiSubscribe", "cuptiActivityRegisterTimestampCallback",
                           "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
                           "cuptiActivityPushExternalCorrelationId"}) {
    cupti().failing_call = name;
    {
      const Timed timed(cuda(), stream_);
      EXPECT_EQ(timed.status.code(), Code::not_supported) << name;
      EXPECT_NE(timed.status.detail().find("CUPTI_ERROR_INVALID_PARAMETER"), std::string::npos);
      EXPECT_TRUE(timed.times().is_only()) << name;
    }
    EXPECT_EQ(cupti().failing_call, nullptr) << name << " was not called";
    ASSERT_TRUE(cuda().times_pause().ok());
    EXPECT_EQ(cupti().subscribers + cupti().kinds + cupti().pushed, 0) << name;
  }
}

TEST_F(WorkClockOnFakeCuda, HostFunctionsNoteThemselves) {
  const std::int64_t before = cuda().now();
  Ref<WorkTimes> times;
  {
    const Timed timed(cuda(), stream_);
    times = timed.times();
    const auto nothing = [](void*) {};
    ASSERT_TRUE(cuda().host_function(stream_, nothing, nothing, nullptr).ok());
  }
  ASSERT_TRUE(cuda().stream_synchronize(stream_).ok());
  const auto [state, begin, end] = times->read();
  EXPECT_EQ(state, State::done);
  EXPECT_LE(before, begin);
  EXPECT_LE(begin, end);
  EXPECT_LE(end, cuda().now());
}

TEST_F(WorkClockOnFakeCuda, WhatNobodyReadsIsForgotten) {
  // A recording that is full lets go of the times at once.
  for (int i = 0; i < 20'000; ++i) (void)work(kKernel, 1, 2);
  const Ref<WorkTimes> kept = work(kKernel, 3, 4);
  collect();
  expect(kept, 3, 4);
}

class WorkClockWithoutLibrary : public OnFakeCuda {};

TEST_F(WorkClockWithoutLibrary, SaysWhatIsMissing) {
  const Timed timed(cuda(), stream_on(0));
  EXPECT_EQ(timed.status.code(), Code::not_supported);
  const std::string named = std::getenv("EMBER_CUPTI");
  const std::string expected = named == "none"
                                   ? "EMBER_CUPTI is 'none'"
                                   : "the times of work itself need CUPTI (libcupti.so.13 or .12)";
  EXPECT_NE(timed.status.detail().find(expected), std::string::npos) << timed.status.detail();
  EXPECT_EQ(cuda().times_collect().detail(), timed.status.detail());
}

}  // namespace
}  // namespace ember::driver
