// backend:cudaMallocAsync: the device's pool in the order of streams, and everything that ember
// tells of its own memory.
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/pluggable.h"
#include "ember/memory/pools.h"
#include "ember/memory/snapshot.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

/// Before anything asks for memory.
[[maybe_unused]] const int kChosen = [] {
  unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  return setenv("EMBER_ALLOC_CONF", "backend:cudaMallocAsync", 1);
}();

class Ordered : public testing::Test {
 protected:
  Ordered() { clean(); }
  ~Ordered() override {
    clean();
    EXPECT_EQ(memory_reserved(0), 0U);
  }
  static void clean() {
    synchronize(0);
    empty_cache();
  }
  const Stream stream_{0};
};

TEST_F(Ordered, EachAllocationIsASegment) {
  EXPECT_STREQ(get_allocator_backend(), "cudaMallocAsync");
  record_memory_history({});
  const DeviceBuffer buffer = allocate(1000, stream_);
  const MemorySnapshot snapshot = memory_snapshot();
  record_memory_history({.enabled = {}});
  ASSERT_EQ(snapshot.segments.size(), 1U);
  EXPECT_EQ(snapshot.segments[0].total_size, 1000U);
  EXPECT_EQ(snapshot.segments[0].blocks.size(), 1U);
  EXPECT_EQ(snapshot.device_traces.at(0).size(), 2U) << "segment_alloc, alloc";
  const MemoryCounters counters = memory_counters(0);
  EXPECT_EQ(counters.allocated_bytes.all.current, 1000);
  EXPECT_EQ(counters.reserved_bytes.all.current, 1000);
  EXPECT_EQ(counters.segment.small_pool.current, 1);
  fill_async(buffer.data(), 7, 1000, stream_);
  std::vector<unsigned char> host(1000);
  copy(host.data(), buffer.data(), 1000, stream_);
  EXPECT_EQ(host, std::vector<unsigned char>(1000, 7));
}

TEST_F(Ordered, FreeingDoesNotWait) {
  DeviceBuffer buffer = allocate(kMiB, stream_);
  void* const pointer = buffer.data();
  test::Gate gate(stream_);
  fill_async(pointer, 7, kMiB, stream_);
  buffer.reset();
  EXPECT_EQ(memory_allocated(0), 0U);
  EXPECT_EQ(memory_reserved(0), 0U);
  const DeviceBuffer next = allocate(kMiB, stream_);
  if (is_simulated()) {
    EXPECT_EQ(next.data(), pointer) << "later work of the stream";
    const Stream other(0);
    const DeviceBuffer others = allocate(kMiB, other);
    EXPECT_NE(others.data(), pointer);
  }
  gate.open();
}

TEST_F(Ordered, OtherStreams) {
  const Stream other(0);
  DeviceBuffer buffer = allocate(kMiB, stream_);
  test::Gate gate(other);
  fill_async(buffer.data(), 7, kMiB, other);
  record_stream(buffer, other);
  buffer.reset();
  EXPECT_EQ(memory_counters(0).active.all.current, 1);
  EXPECT_EQ(memory_reserved(0), kMiB);
  gate.open();
  other.synchronize();
  (void)allocate(1, stream_);  // polls
  EXPECT_EQ(memory_reserved(0), 0U);
}

TEST_F(Ordered, AStreamThatIsNoMore) {
  void* pointer = nullptr;
  {
    const Stream stream(0);
    pointer = caching_allocator_alloc(kMiB, 0, stream);
    fill_async(pointer, 7, kMiB, stream);
    stream.synchronize();
  }
  caching_allocator_delete(pointer);
  empty_cache();
  EXPECT_EQ(memory_reserved(0), 0U);
}

TEST_F(Ordered, TheDeviceHasItBackWhenTheCacheIsEmptied) {
  const std::size_t before = mem_get_info(0).first;
  allocate(256 * kMiB, stream_).reset();
  stream_.synchronize();
  const std::size_t kept = mem_get_info(0).first;
  EXPECT_LE(kept + 256 * kMiB, before) << "kept in the pool";
  empty_cache();
  EXPECT_GE(mem_get_info(0).first, kept + 256 * kMiB);
}

TEST_F(Ordered, LimitsPoolsAndRunningOut) {
  const std::size_t total = mem_get_info(0).second;
  set_per_process_memory_fraction(static_cast<double>(20 * kMiB) / static_cast<double>(total), 0);
  EXPECT_ERROR((void)allocate(30 * kMiB, stream_), OutOfMemoryError,
               "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
               "Currently allocated     : 0 bytes\n"
               "Requested               : 30.00 MiB\n"
               "Device limit            : ");
  EXPECT_ERROR((void)allocate(30 * kMiB, stream_), OutOfMemoryError,
               "\nember limit (set by user-supplied memory fraction)\n"
               "                        : 20.00 MiB\nThe limit is too low");
  set_per_process_memory_fraction(1, 0);
  EXPECT_ERROR((void)allocate(2 * total, stream_), OutOfMemoryError, "The device is too small");
  MemPool pool;
  const MemPoolGuard guard(pool);
  const DeviceBuffer buffer = allocate(1000, stream_);
  ASSERT_EQ(pool.snapshot().size(), 1U);
  EXPECT_EQ(pool.snapshot()[0].total_size, 1000U);
}

// What other streams have freed is waited for before an allocation fails.
TEST_F(Ordered, WhatIsInThePoolServesAllStreams) {
  const std::size_t most = mem_get_info(0).first / 3 * 2;
  const Stream other(0);
  DeviceBuffer buffer = allocate(most, stream_);
  fill_async(buffer.data(), 7, most, stream_);
  buffer.reset();
  EXPECT_EQ(allocate(most + kMiB, other).size(), most + kMiB);
}

TEST_F(Ordered, EveryCallMayFail) {
  if (!is_simulated()) GTEST_SKIP() << "faults are injected on simulated devices";
  for (int k = 1; k <= 5; ++k) {
    sim::faults("alloc:" + std::to_string(k));
    std::vector<DeviceBuffer> buffers;
    for (int i = 0; i < 4; ++i) buffers.push_back(allocate(kMiB, stream_));  // asked again
    sim::faults("");
    EXPECT_EQ(memory_allocated(0), 4 * kMiB);
    buffers.clear();
    EXPECT_EQ(memory_reserved(0), 0U);
  }
  sim::faults("alloc:1+");
  EXPECT_ERROR((void)allocate(kMiB, stream_), OutOfMemoryError, "would exceed allowed memory");
  sim::faults("");
  EXPECT_EQ(allocate(kMiB, stream_).size(), kMiB);
}

TEST_F(Ordered, ManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      const Stream stream(0);
      for (std::size_t i = 1; i <= 200; ++i) {
        const DeviceBuffer first = allocate(512 * (i % 7 + 1), stream);
        const DeviceBuffer second = allocate(512 * (i % 7 + 1), stream);
        EXPECT_NE(first.data(), second.data());
        fill_async(first.data(), 1, 512, stream);
        fill_async(second.data(), 2, 512, stream);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_allocated(0), 0U);
}

TEST_F(Ordered, AResetTakesIt) {
  if (!is_simulated()) GTEST_SKIP() << "a real device is reset in processes of its own";
  DeviceBuffer buffer = allocate(kMiB, stream_);
  allocate(kMiB, stream_).reset();
  reset_device(0);
  buffer.reset();
  EXPECT_EQ(memory_reserved(0), 0U);
  EXPECT_EQ(allocate(kMiB, default_stream(0)).size(), kMiB);
}

TEST(OrderedProcess, TheBackEndIsFixedByTheFirstAllocation) {
  IN_CHILD({
    set_allocator_settings("backend:native");
    EXPECT_STREQ(get_allocator_backend(), "native");
    set_allocator_settings("backend:cudaMallocAsync");
    EXPECT_FALSE(is_initialized());
    (void)allocate(1, default_stream(0));
    set_allocator_settings("backend:cudaMallocAsync,max_non_split_rounding_mb:30");
    EXPECT_ERROR(set_allocator_settings("backend:native"), ValueError,
                 "Allocator backend parsed at runtime != allocator backend parsed at load time");
    EXPECT_STREQ(get_allocator_backend(), "cudaMallocAsync");
  });
}

/// What a run does with memory of two streams: where it lies, and the log.
std::vector<std::string> ordered_run() {
  sim::begin_run("random:3");
  std::vector<std::string> seen;
  {
    const Stream first(0), second(0);
    for (std::size_t i = 0; i < 40; ++i) {
      const Stream& stream = i % 3 == 0 ? first : second;
      const DeviceBuffer buffer = allocate(kMiB * (i % 2 + 1), stream);
      fill_async(buffer.data(), 7, 512, stream);
      seen.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(buffer.data())));
    }
    synchronize(0);
  }
  seen.push_back(sim::log());
  return seen;
}

// Nothing of a run is left in the pool for the next one.
TEST(OrderedProcess, RunsOfOneSeedAreTheSame) {
  if (!test::in_child() && !is_simulated()) GTEST_SKIP() << "needs simulated devices";
  IN_CHILD({
    setenv("EMBER_SIM_SCHEDULE", "random:3", 1);
    const std::vector<std::string> run = ordered_run();
    EXPECT_GT(run.back().size(), 40U);
    EXPECT_EQ(ordered_run(), run);
    const std::size_t free = mem_get_info(0).first;
    EXPECT_EQ(ordered_run(), run);
    EXPECT_EQ(mem_get_info(0).first, free);
  });
}

TEST(OrderedProcess, AnAllocatorOfTheProgramsComesFirst) {
  IN_CHILD({
    int calls = 0;
    change_current_allocator(PluggableAllocator(
        [&](std::size_t bytes, int device, void*) {
          ++calls;
          return device_malloc(bytes, device);
        },
        [](void* pointer, std::size_t, int, void*) { device_free(pointer); }));
    EXPECT_STREQ(get_allocator_backend(), "pluggable");
    (void)allocate(1, default_stream(0));
    EXPECT_EQ(calls, 1);
  });
}

}  // namespace
}  // namespace ember::cuda
