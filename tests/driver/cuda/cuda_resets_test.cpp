// The host code of the CUDA driver: resets beside calls of other threads, and what they and faults
// drop.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "fake_machine.h"

namespace ember::driver {
namespace {

constexpr int kIllegalAddress = static_cast<int>(Code::illegal_address);

/// What happened to host functions.
struct Counted {
  std::atomic<int> called{0};
  std::atomic<int> destroyed{0};
  std::chrono::milliseconds takes{0};

  Status enqueue(Driver& driver, const StreamHandle& stream) {
    return driver.host_function(
        stream,
        [](void* counted) {
          auto& mine = *static_cast<Counted*>(counted);
          ++mine.called;
          std::this_thread::sleep_for(mine.takes);
        },
        [](void* counted) { ++static_cast<Counted*>(counted)->destroyed; }, this);
  }
};

// A wait between two devices passes the gates of both, in either order.
TEST_F(OnFakeCuda, ResetsOfTwoDevicesBesideWaitsBetweenThem) {
  constexpr int kRounds = 300;
  std::atomic<bool> stop{false};
  std::atomic<int> waits{0};
  std::vector<std::thread> threads;
  for (const int device : {0, 1, 0, 1})
    threads.emplace_back([&, device] {
      const auto may_be_old = [](const Status& status) {
        EXPECT_TRUE(status.ok() || status.code() == Code::context_is_destroyed) << status.text();
        return status.ok();
      };
      while (!stop) {
        StreamHandle stream;
        EventHandle event;
        if (!may_be_old(cuda().stream_create(device, 0, stream))) continue;
        if (!may_be_old(cuda().event_create(1 - device, {}, event))) continue;
        while (!stop && may_be_old(cuda().event_wait(stream, event))) ++waits;
      }
    });
  std::vector<std::thread> resets;
  for (const int device : {0, 1})
    resets.emplace_back([&, device] {
      for (int round = 0; round < kRounds; ++round) {
        const Status status = cuda().device_reset(device);
        EXPECT_TRUE(status.ok()) << status.text();
        for (const int before = waits; waits < before + 4;) std::this_thread::yield();
      }
    });
  for (std::thread& thread : resets) thread.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cuda().device_epoch(0), 300u);
  EXPECT_EQ(cuda().device_epoch(1), 300u);
}

TEST_F(OnFakeCuda, AResetDestroysHostFunctionsAndCallsNone) {
  Counted counted;
  const StreamHandle stream = stream_on(0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(counted.enqueue(cuda(), stream).ok());
  EXPECT_TRUE(cuda().device_reset(0).ok());
  EXPECT_EQ(counted.called, 0);
  EXPECT_EQ(counted.destroyed, 3);
  EXPECT_TRUE(cuda().device_synchronize(0).ok());
  EXPECT_TRUE(cuda().device_reset(0).ok());
  EXPECT_EQ(counted.destroyed, 3);
}

TEST_F(OnFakeCuda, AFailedResetLosesNothing) {
  Counted counted;
  const StreamHandle stream = stream_on(0);
  void* const memory = memory_on(0, 64);
  EXPECT_TRUE(counted.enqueue(cuda(), stream).ok());
  fake().next_reset = 801;
  expect(cuda().device_reset(0), Code::not_supported, "resetting cuda:0");
  EXPECT_EQ(cuda().device_epoch(0), 0u);
  EXPECT_EQ(counted.destroyed, 0);
  EXPECT_TRUE(cuda().stream_synchronize(stream).ok());
  EXPECT_EQ(counted.called, 1);
  EXPECT_EQ(counted.destroyed, 1);
  EXPECT_TRUE(cuda().free(0, memory).ok());
}

/// Waits for many host functions on a thread, while the device is reset.
template <class Wait>
void reset_beside(FakeCuda& fake, Driver& cuda, const StreamHandle& stream, const Wait& wait,
                  int answer) {
  constexpr int kMany = 2000;
  Counted counted;
  counted.takes = std::chrono::milliseconds(1);
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(counted.enqueue(cuda, stream).ok());
  Status waited;
  std::thread waiting([&] { waited = wait(); });
  while (counted.called == 0) std::this_thread::yield();
  static FakeCuda* seen = nullptr;
  seen = &fake;
  fake.in_reset = [] { EXPECT_EQ(std::atomic_ref(seen->waiting), 0) << "calls are in progress"; };
  fake.next_reset = answer;
  EXPECT_EQ(static_cast<int>(cuda.device_reset(0).code()), answer);
  waiting.join();
  fake.in_reset = nullptr;
  EXPECT_LT(counted.called, kMany) << "the reset dropped none";
  EXPECT_EQ(counted.destroyed, kMany);
  expect(waited, Code::context_is_destroyed,
         "a reset of cuda:0 has dropped work that should be done");
}

TEST_F(OnFakeCuda, AWaitBesideAResetTellsOfDroppedHostFunctions) {
  for (const int answer : {0, 801}) {
    StreamHandle stream = stream_on(0);
    reset_beside(
        fake(), cuda(), stream, [&] { return cuda().stream_synchronize(stream); }, answer);
    reset_beside(
        fake(), cuda(), kDefault, [&] { return cuda().stream_synchronize(kDefault); }, answer);
    reset_beside(
        fake(), cuda(), kDefault, [&] { return cuda().device_synchronize(0); }, answer);
    stream = stream_on(0);
    const EventHandle event = event_on(0);
    EXPECT_TRUE(cuda().event_record(event, stream).ok());
    reset_beside(
        fake(), cuda(), stream, [&] { return cuda().event_synchronize(event); }, answer);
  }
  EXPECT_TRUE(cuda().device_synchronize(0).ok()) << "what was dropped is told once";
}

// Work of the old epoch is dropped, and a wait for it must not be one for nothing in the new one.
TEST_F(OnFakeCuda, AWaitThatMeetsAResetAtTheGateIsRefused) {
  for (const bool device : {true, false}) {
    EXPECT_TRUE(cuda().device_activate(0).ok());
    static Status waited;
    static std::thread waiting;
    static bool whole_device;
    whole_device = device;
    fake().in_reset = [] {
      std::atomic<bool> calls{false};
      waiting = std::thread([&calls] {
        calls = true;
        waited = whole_device ? cuda().device_synchronize(0) : cuda().stream_synchronize(kDefault);
      });
      while (!calls) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    EXPECT_TRUE(cuda().device_reset(0).ok());
    waiting.join();
    fake().in_reset = nullptr;
    EXPECT_EQ(waited.code(), Code::context_is_destroyed) << waited.text();
  }
}

TEST_F(OnFakeCuda, AFaultDestroysHostFunctionsOnce) {
  Counted counted;
  const StreamHandle stream = stream_on(0);
  EXPECT_TRUE(counted.enqueue(cuda(), stream).ok());
  EXPECT_TRUE(counted.enqueue(cuda(), kDefault).ok());
  fake().fault[0] = kIllegalAddress;
  EXPECT_EQ(cuda().stream_synchronize(stream).code(), Code::illegal_address);
  EXPECT_EQ(counted.called, 0);
  EXPECT_EQ(counted.destroyed, 2);
  EXPECT_EQ(counted.enqueue(cuda(), stream).code(), Code::illegal_address);
  EXPECT_EQ(cuda().device_synchronize(0).code(), Code::illegal_address);
  EXPECT_EQ(cuda().device_reset(0).code(), Code::illegal_address);
  EXPECT_EQ(counted.called, 0);
  EXPECT_EQ(counted.destroyed, 2);
}

// A call that does not wait may be made under a lock that destroying takes.
TEST_F(OnFakeCuda, OnlyAWaitDestroysWhatAFaultDropped) {
  Counted counted;
  const StreamHandle stream = stream_on(0);
  EXPECT_TRUE(counted.enqueue(cuda(), stream).ok());
  fake().fault[0] = kIllegalAddress;
  EXPECT_EQ(cuda().stream_query(stream).code(), Code::illegal_address);
  EXPECT_EQ(counted.destroyed, 0);
  EXPECT_EQ(cuda().device_reset(0).code(), Code::illegal_address);
  EXPECT_EQ(counted.destroyed, 1);
}

}  // namespace
}  // namespace ember::driver
