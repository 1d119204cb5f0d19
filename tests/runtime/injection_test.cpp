// Every call of the driver made to fail in turn: nothing leaks, nothing hangs, the error is clear,
// and the next call works.
#include <cstring>
#include <set>

#include "ember/cuda.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"
#include "tests/support/failing_driver.h"
#include "tests/support/installed.h"

namespace ember::cuda {
namespace {

using test::FailingDriver;

void use_streams_and_events() {
  const Stream first(0);
  const Stream second(0, -1);
  Event start(true);
  Event end(true);
  test::Words<std::uint32_t> data(64);
  start.record(first);
  launch(first, test::affine_kernel, test::AffineArgs{data.get(), 64, 1, 3});
  end.record(first);
  end.wait(second);
  fill_async(data.get(), 1, 16, second);
  std::uint32_t word = 0;
  copy(&word, data.get(), 4, second);
  host_function([] {}, second);
  (void)second.query();
  second.wait_stream(first);
  second.synchronize();
  end.synchronize();
  (void)end.query();
  (void)start.elapsed_time(end);
  synchronize();
  (void)device_of_pointer(data.get());
  (void)get_device_properties();
  ASSERT_EQ(word, 0x01010101u);
}

void use_memory() {
  const Stream first(0);
  const Stream second(0);
  {
    const DeviceBuffer small = allocate(1000, first);
    DeviceBuffer large = allocate(std::size_t{3} << 20, first);
    const DeviceBuffer huge = allocate(std::size_t{40} << 20, second);
    record_stream(large, second);
    fill_async(large.data(), 7, large.size(), second);
    large = DeviceBuffer();
    const DeviceBuffer again = allocate(std::size_t{3} << 20, first);
    const PinnedBuffer pinned = allocate_pinned(5000);
    std::memset(pinned.data(), 1, 5000);
    copy_async(small.data(), pinned.data(), 1000, first);
    (void)pinned_record_event(pinned.data(), nullptr, first);
    (void)mem_get_info();
  }
  const PinnedBuffer reused = allocate_pinned(5000);
  empty_cache();
  pinned_empty_cache();
  first.synchronize();
}

/// What was in the memory is there again, whatever failed.
void sleep_and_wake() {
  MemPool pool;
  const Stream stream(0);
  std::vector<DeviceBuffer> buffers;
  const auto expect_contents = [&] {
    for (const DeviceBuffer& buffer : buffers) {
      std::uint32_t last = 0;
      copy(&last, buffer.as<std::byte>() + buffer.size() - 4, 4, stream);
      ASSERT_EQ(last, 0x07070707u);
    }
  };
  const auto move = [&](void (MemPool::*how)()) {
    try {
      (pool.*how)();
    } catch (const Error& error) {
      pool.restore();  // the next call works
      expect_contents();
      // Without addresses the memory was an ordinary segment's.
      if (std::strstr(error.what(), "segments that do not grow") == nullptr) throw;
    }
  };
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{11} << 20, std::size_t{3} << 20}) {
    const MemPoolGuard guard = use_mem_pool(pool);
    buffers.push_back(allocate(bytes, stream));
    fill_async(buffers.back().data(), 7, bytes, stream);
  }
  move(&MemPool::offload);
  buffers.pop_back();
  move(&MemPool::restore);
  expect_contents();
}

void use_peers() {
  const bool peers = can_device_access_peer(0, 1);
  const DeviceBuffer here = allocate(4096, Stream(0));
  const DeviceBuffer there = allocate(4096, Stream(1));
  const Stream stream(0);
  record_stream(here, stream);  // it may fail to wait at the end
  record_stream(there, stream);
  copy_async(there.data(), here.data(), 4096, stream);
  if (peers) enable_peer_access(0, 1);
  if (peers) disable_peer_access(0, 1);
  stream.synchronize();
}

/// Gives back everything that can be given back.
void settle() {
  for (int device = 0; device < device_count(); ++device) synchronize(device);
  empty_cache();
  pinned_empty_cache();
}

/// Runs `scenario` with call 1, 2, 3 ... failing until it no longer makes that many calls.
void fail_each_call(void (*scenario)(), Code code) {
  FailingDriver& driver = test::installed<FailingDriver>();
  scenario();  // once undisturbed: pools fill up, devices wake
  settle();
  const FailingDriver::Live before = driver.live();
  EXPECT_EQ(before.memory, 0);
  std::set<std::string> calls;
  int k = 1, kept_streams = 0;
  for (;; ++k) {
    ASSERT_LT(k, 10'000);
    driver.arm(k, code);
    bool threw = false;
    try {
      scenario();
    } catch (const Error& error) {
      threw = true;
      const std::string text = error.what();
      EXPECT_NE(text.find("njected failure of "), std::string::npos) << text;
    }
    driver.disarm();
    const bool failed = driver.failed();
    EXPECT_TRUE(failed || !threw);
    if (failed) calls.insert(driver::call_name(driver.failed_call()));

    scenario();  // the next call works
    settle();
    FailingDriver::Live after = driver.live();
    // A driver that refuses to destroy an event or a stream keeps it; nobody else can.
    if (failed && driver.failed_call() == driver::Call::event_destroy) --after.events;
    if (failed && driver.failed_call() == driver::Call::stream_destroy) ++kept_streams;
    EXPECT_EQ(after.streams, before.streams + kept_streams) << "call " << k;
    EXPECT_LE(after.events, before.events + 8) << "call " << k;  // the allocator's own few
    EXPECT_EQ(after.memory, before.memory) << "call " << k;
    EXPECT_EQ(after.pinned, before.pinned) << "call " << k;
    EXPECT_EQ(after.ranges, before.ranges) << "call " << k;
    if (!failed) break;
  }
  std::string list;
  for (const std::string& call : calls) list += " " + call;
  std::printf("%d calls made to fail, of the kinds:%s\n", k - 1, list.c_str());
  EXPECT_GE(calls.size(), 3u);
}

// Each driver call of a scenario fails once: what is thrown names it, and nothing leaks.
TEST(EveryCallFails, StreamsAndEvents) {
  IN_CHILD(fail_each_call(&use_streams_and_events, Code::unknown));
}

// The same for allocations, frees and record_stream.
TEST(EveryCallFails, Memory) { IN_CHILD(fail_each_call(&use_memory, Code::unknown)); }

TEST(EveryCallFails, MemoryWithOutOfMemory) {
  // Out-of-memory is special to the allocator: it reclaims and tries again. So the scenario may
  // succeed in spite of the failure.
  IN_CHILD(fail_each_call(&use_memory, Code::out_of_memory));
}

// Segments that grow: addresses and memory come by calls of their own.
void fail_each_call_of_growing(Code code) {
  set_allocator_settings("expandable_segments:True");
  fail_each_call(&use_memory, code);
}
TEST(EveryCallFails, GrowingMemory) { IN_CHILD(fail_each_call_of_growing(Code::unknown)); }
TEST(EveryCallFails, GrowingMemoryWithOutOfMemory) {
  IN_CHILD(fail_each_call_of_growing(Code::out_of_memory));
}

// Pools that sleep.
void fail_each_call_of_sleep(Code code) {
  set_allocator_settings("expandable_segments:True");
  fail_each_call(&sleep_and_wake, code);
}
TEST(EveryCallFails, SleepingPools) { IN_CHILD(fail_each_call_of_sleep(Code::unknown)); }
TEST(EveryCallFails, SleepingPoolsWithOutOfMemory) {
  IN_CHILD(fail_each_call_of_sleep(Code::out_of_memory));
}

// The same for copies between devices and their access.
TEST(EveryCallFails, Peers) {
  NEEDS_DEVICES(2);
  IN_CHILD(fail_each_call(&use_peers, Code::unknown));
}

// A first use that failed is tried again by the next one.
TEST(EveryCallFails, FirstUse) {
  IN_CHILD({
    FailingDriver& driver = test::installed<FailingDriver>();
    driver.arm(1, Code::unknown);
    EXPECT_ERROR(Stream{}, AcceleratorError, "injected failure of stream_create");
    driver.disarm();
    Stream().synchronize();
  });
}

}  // namespace
}  // namespace ember::cuda
