// What a reset does to work in progress and to those who wait for it, step by step: each test holds
// the work at one point with a gate, or resets from an observer. reset_test.cpp has the stress.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "ember/ops/factories.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/tensor/tensor.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/kernels.h"

namespace ember::cuda {
namespace {

using test::Gate;
using test::Pinned;
using test::Words;

constexpr const char* kSimulatedOnly =
    "a reset of a real device waits for the calls that are in progress, and so for this gate";

/// Turns the epoch of a device whose work is held by `gate`, then lets the work go on, so that the
/// reset can end.
void reset_beside(Gate& gate, int device) {
  const std::uint32_t before = active_driver().device_epoch(device);
  std::thread reset([device] { reset_device(device); });
  while (active_driver().device_epoch(device) == before) std::this_thread::yield();
  gate.open();
  reset.join();
}

/// A wait that a thread has begun, as far as that can be known.
template <class Wait>
class Waiting {
 public:
  explicit Waiting(Wait wait)
      : thread_([this, wait = std::move(wait)] {
          begun_ = true;
          try {
            wait();
          } catch (const AcceleratorError& error) {
            code_ = error.code();
          }
        }) {
    while (!begun_) std::this_thread::yield();
  }
  Code result() {
    thread_.join();
    return code_;
  }

 private:
  std::atomic<bool> begun_{false};
  Code code_ = Code::ok;
  std::thread thread_;
};

TEST(ResetWork, EndsWaitsForWorkThatItDropped) {
  if (!is_simulated()) GTEST_SKIP() << kSimulatedOnly;
  IN_CHILD({
    const Stream stream(0);
    Gate gate(stream);
    Gate other(default_stream(0));
    gate.await_running();
    other.await_running();
    launch(stream, test::nop_kernel, test::NopArgs{});
    launch(default_stream(0), test::nop_kernel, test::NopArgs{});
    Event event;
    event.record(stream);
    Waiting for_stream([&] { stream.synchronize(); });
    Waiting for_default([] { default_stream(0).synchronize(); });
    Waiting for_event([&] { event.synchronize(); });
    Waiting for_device([] { synchronize(0); });
    std::thread opens([&] {
      while (active_driver().device_epoch(0) == 0) std::this_thread::yield();
      other.open();
    });
    reset_beside(gate, 0);
    opens.join();
    EXPECT_EQ(for_stream.result(), Code::context_is_destroyed);
    // These name no epoch: whether they had begun before the reset is all that decides.
    for (Code code : {for_default.result(), for_device.result()})
      EXPECT_TRUE(code == Code::ok || code == Code::context_is_destroyed);
    EXPECT_EQ(for_event.result(), Code::context_is_destroyed);
  });
}

// A task that is running when its device is reset may still touch another device's memory, and
// pinned memory, which that reset does not take.
TEST(ResetWork, KeepsMemoryOfOthersFromReuseWhileItRuns) {
  if (!is_simulated()) GTEST_SKIP() << kSimulatedOnly;
  NEEDS_DEVICES(2);
  NEEDS_CACHING();
  NEEDS_CONCURRENCY();
  IN_CHILD({
    const Stream own(0);
    for (const bool freed_before : {true, false}) {
      const Stream stream(1);
      DeviceBuffer buffer = allocate(4096, own);
      PinnedBuffer pinned = allocate_pinned(4096);
      const void* const address = buffer.data();
      const void* const pinned_address = pinned.data();
      Gate gate(stream);
      gate.await_running();
      record_stream(buffer, stream);
      EXPECT_TRUE(pinned_record_event(pinned, stream));
      const auto free = [&] {
        buffer.reset();
        pinned.reset();
      };
      if (freed_before) free();
      const std::uint32_t before = active_driver().device_epoch(1);
      std::thread reset([] { reset_device(1); });
      while (active_driver().device_epoch(1) == before) std::this_thread::yield();
      if (!freed_before) free();
      EXPECT_FALSE(active_driver().epoch_ended(1, before));
      EXPECT_NE(allocate(4096, own).data(), address);
      EXPECT_NE(allocate_pinned(4096).data(), pinned_address);
      gate.open();
      reset.join();
      EXPECT_TRUE(active_driver().epoch_ended(1, before));
      EXPECT_EQ(allocate(4096, own).data(), address);
    }
  });
}

/// Resets device 0 at the first copy that it is told of.
class ResetAtCopy final : public Observer {
 public:
  ResetAtCopy() { set_observer(this); }
  ~ResetAtCopy() override { set_observer(nullptr); }
  void notice(const Activity& activity) noexcept override {
    if (activity.kind == Activity::Kind::copied && !done_.exchange(true)) reset_device(0);
  }

 private:
  std::atomic<bool> done_{false};
};

// On the default stream, which has no epoch of its own: the memory's counts.
TEST(ResetWork, BetweenACopyAndItsWaitIsNoticed) {
  IN_CHILD({
    const Tensor pinned = full({1000}, 5, Options(Dtype::float32)).pin_memory();
    const Tensor x = ones({1000}, Device("cuda:0"));
    const ResetAtCopy observer;
    EXPECT_ERROR(pinned.clone().pin_memory().copy_(x), AcceleratorError, "context is destroyed");
  });
  IN_CHILD({
    Tensor x = ones({1000}, Device("cuda:0"));
    const Tensor pinned = full({1000}, 5, Options(Dtype::float32)).pin_memory();
    const ResetAtCopy observer;
    EXPECT_ERROR(x.copy_(pinned), AcceleratorError, "context is destroyed");
  });
  IN_CHILD({
    const Words<std::uint32_t> words(4);
    const Pinned<std::uint32_t> target(4);
    const ResetAtCopy observer;
    EXPECT_ERROR(copy(target.get(), words.get(), 16), AcceleratorError, "context is destroyed");
  });
}

/// Counts waits.
class CountedWaits final : public Observer {
 public:
  CountedWaits() { set_observer(this); }
  ~CountedWaits() override { set_observer(nullptr); }
  void notice(const Activity& activity) noexcept override {
    switch (activity.kind) {
      case Activity::Kind::wait_began: ++began; break;
      case Activity::Kind::stream_synchronized:
      case Activity::Kind::event_synchronized: ++over; break;
      default: break;
    }
  }
  int began = 0, over = 0;
};

// Nothing is left of the work, so that the same host memory may be used for other work: who watches
// must not take it for a race.
TEST(ResetWork, AWaitThatFindsTheDeviceResetIsOverForObservers) {
  IN_CHILD({
    const Stream stream(0);
    Event event;
    event.record(stream);
    CountedWaits observer;
    std::thread([] { reset_device(0); }).join();
    EXPECT_ERROR(stream.synchronize(), AcceleratorError, "context is destroyed");
    EXPECT_ERROR(event.synchronize(), AcceleratorError, "context is destroyed");
    EXPECT_EQ(observer.began, 2);
    EXPECT_EQ(observer.over, 2);
  });
}

TEST(ResetWork, ALateCopyOfAnotherDeviceTouchesNothingNew) {
  if (!is_simulated()) GTEST_SKIP() << "a copy to memory that is gone ends every real device";
  NEEDS_DEVICES(2);
  IN_CHILD({
    auto old = std::make_unique<Words<std::uint32_t>>(4, 0);
    const Words<std::uint32_t> source(4, 1);
    const Stream copies(1);
    Gate gate(copies);
    copy_async(old->get(), source.get(), 16, copies);
    fill_async(old->get(), 9, 16, copies);
    void* const address = old->get();
    reset_device(0);
    const Words<std::uint32_t> fresh(4, 0);
    ASSERT_EQ(fresh.get(), address) << "or this shows nothing";
    fill_async(fresh.get(), 7, 16, default_stream(0));
    synchronize(0);
    gate.open();
    EXPECT_ERROR(copies.synchronize(), AcceleratorError, "before its reset");
    for (const std::uint32_t word : fresh.read()) EXPECT_EQ(word, 0x07070707u);
  });
}

TEST(ResetWork, MemoryStaysWhereATaskOfAnotherDeviceHasFoundIt) {
  if (!is_simulated()) GTEST_SKIP() << "a kernel that reads memory that is gone ends the process";
  NEEDS_PEERS();
  NEEDS_CONCURRENCY();
  IN_CHILD({
    static std::atomic<int> step{0};
    enable_peer_access(1, 0);
    const Words<std::uint32_t> old(4, 0);
    std::uint32_t* const address = old.get();
    const Stream stream(1);
    launch(stream, "late write", [address](const HostLaunch& on) {
      std::uint32_t* const found = on.at(address, 4);
      step = 1;
      while (step != 2) std::this_thread::yield();
      if (found != nullptr) found[0] = 99;
    });
    while (step != 1) std::this_thread::yield();
    reset_device(0);
    {
      const Words<std::uint32_t> fresh(4, 0);
      EXPECT_NE(fresh.get(), address);
      step = 2;
      stream.synchronize();
      for (const std::uint32_t word : fresh.read()) EXPECT_EQ(word, 0u);
    }
    const Words<std::uint32_t> later(4, 0);
    EXPECT_EQ(later.get(), address) << "free once the task is over";
  });
}

TEST(ResetWork, UnregisteringWaitsForCopies) {
  std::vector<std::uint32_t> host(4);
  check(active_driver().host_register(host.data(), 16));
  const Words<std::uint32_t> words(4);
  const Stream stream;
  Gate gate(stream);
  fill_async(words.get(), 1, 16, stream);
  copy_async(host.data(), words.get(), 16, stream);
  std::atomic<bool> over{false};
  std::thread unregisters([&] {
    check(active_driver().host_unregister(host.data()));
    over = true;
  });
  gate.await_running();
  EXPECT_FALSE(over);
  gate.open();
  unregisters.join();
  EXPECT_EQ(host[3], 0x01010101u);
}

}  // namespace
}  // namespace ember::cuda
