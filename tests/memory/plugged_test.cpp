// A process whose device memory comes from a shared object (plugin.cpp): chapter 13. Everything
// that ember tells of its own memory, it tells of this, too.
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/history.h"
#include "ember/memory/memory.h"
#include "ember/memory/pluggable.h"
#include "ember/memory/pools.h"
#include "ember/memory/scope.h"
#include "ember/memory/snapshot.h"
#include "tests/memory/plugin.h"
#include "tests/support/child.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

PluggableAllocator plugged(const char* alloc_fn = "counting_malloc",
                           const char* free_fn = "counting_free") {
  return {EMBER_TEST_PLUGIN, alloc_fn, free_fn};
}

/// Before anything asks for memory; and before any device is initialised.
[[maybe_unused]] const bool kChanged = [] {
  unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  change_current_allocator(plugged());
  return true;
}();

test::PluginSeen seen() {
  void* const library = dlopen(EMBER_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  using Seen = void(test::PluginSeen*);
  auto* const ask = reinterpret_cast<Seen*>(dlsym(library, "plugin_seen"));
  test::PluginSeen seen;
  ask(&seen);
  dlclose(library);
  return seen;
}

class Plugged : public testing::Test {
 protected:
  Plugged() { clean(); }
  ~Plugged() override {
    clean();
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_EQ(seen().held, 0);
    EXPECT_EQ(seen().bytes, 0U);
  }
  static void clean() {
    synchronize(0);
    empty_cache();
  }
  const Stream stream_{0};
};

TEST_F(Plugged, ItsFunctionsAreCalledForEachAllocation) {
  EXPECT_STREQ(get_allocator_backend(), "pluggable");
  const int mallocs = seen().mallocs, frees = seen().frees;
  DeviceBuffer buffer = allocate(1000, stream_);
  void* const pointer = buffer.data();
  test::PluginSeen now = seen();
  EXPECT_EQ(now.mallocs, mallocs + 1);
  EXPECT_EQ(now.last.pointer, pointer);
  EXPECT_EQ(now.last.size, 1000U) << "as it was asked for";
  EXPECT_EQ(now.last.device, 0);
  EXPECT_EQ(now.last.stream, stream_.native());
  fill_async(pointer, 7, 1000, stream_);
  std::vector<unsigned char> host(1000);
  copy(host.data(), pointer, 1000, stream_);
  EXPECT_EQ(host, std::vector<unsigned char>(1000, 7));
  buffer.reset();
  now = seen();
  EXPECT_EQ(now.frees, frees + 1) << "nothing is cached";
  EXPECT_EQ(now.last.pointer, pointer);
  EXPECT_EQ(now.last.size, 1000U);
  EXPECT_EQ(now.last.stream, stream_.native());
  EXPECT_EQ(allocate(0, stream_).data(), nullptr);
  EXPECT_EQ(seen().mallocs, mallocs + 1);
}

TEST_F(Plugged, OfEachDevice) {
  NEEDS_DEVICES(2);
  const DeviceBuffer buffer = allocate(1000, Stream(1));
  EXPECT_EQ(seen().last.device, 1);
  EXPECT_EQ(buffer.device(), Device(Device::Type::cuda, 1));
}

TEST_F(Plugged, ByAddress) {
  void* const pointer = caching_allocator_alloc(1000, 0, stream_);
  EXPECT_EQ(seen().last.pointer, pointer);
  caching_allocator_delete(pointer);
  EXPECT_EQ(seen().held, 0);
  EXPECT_ERROR(caching_allocator_delete(pointer), Error,
               "Trying to free a pointer not allocated here: 0x");
}

TEST_F(Plugged, EverythingIsCounted) {
  const MemoryCounters before = memory_counters(0);
  const DeviceBuffer small = allocate(1000, stream_);
  DeviceBuffer large = allocate(3 * kMiB, stream_);
  reset_peak_memory_stats(0);
  large.reset();
  const MemoryCounters now = memory_counters(0);
  EXPECT_EQ(now.allocated_bytes.all.current, 1000);
  EXPECT_EQ(now.allocated_bytes.small_pool.current, 1000);
  EXPECT_EQ(now.allocated_bytes.all.peak, static_cast<std::int64_t>(1000 + 3 * kMiB));
  EXPECT_EQ(now.requested_bytes.all.current, 1000);
  EXPECT_EQ(now.reserved_bytes.all.current, 1000);
  EXPECT_EQ(now.segment.all.current, 1);
  EXPECT_EQ(now.segment.large_pool.peak, 1);
  EXPECT_EQ(now.inactive_split.all.current, 0);
  EXPECT_EQ(now.num_device_alloc, before.num_device_alloc + 2);
  EXPECT_EQ(now.num_device_free, before.num_device_free + 1);
  EXPECT_EQ(memory_allocated(0), 1000U);
  EXPECT_EQ(max_memory_reserved(0), 1000 + 3 * kMiB);
}

TEST_F(Plugged, ASnapshotHasASegmentForEach) {
  record_memory_history({});
  const DeviceBuffer buffer = allocate(1000, stream_);
  allocate(5000, stream_).reset();
  const MemorySnapshot snapshot = memory_snapshot();
  record_memory_history({.enabled = {}});
  ASSERT_EQ(snapshot.segments.size(), 1U);
  const MemorySnapshot::Segment& segment = snapshot.segments[0];
  EXPECT_EQ(segment.address, reinterpret_cast<std::uintptr_t>(buffer.data()));
  EXPECT_EQ(segment.total_size, 1000U);
  EXPECT_EQ(segment.allocated_size, 1000U);
  ASSERT_EQ(segment.blocks.size(), 1U);
  EXPECT_EQ(segment.blocks[0].size, 1000U);
  EXPECT_EQ(segment.blocks[0].state, MemorySnapshot::State::active_allocated);
  EXPECT_NE(segment.blocks[0].stack, 0U);
  std::vector<std::string> actions;
  for (const MemoryEvent& event : snapshot.device_traces.at(0))
    actions.emplace_back(action_name(event.action()));
  EXPECT_EQ(actions,
            (std::vector<std::string>{"segment_alloc", "alloc", "segment_alloc", "alloc",
                                      "free_requested", "free_completed", "segment_free"}));
}

TEST_F(Plugged, Scopes) {
  DeviceBuffer buffer;
  const MemoryScope scope("plugged");
  buffer = allocate(1000, stream_);
  EXPECT_EQ(scope.held(), 1000);
}

TEST_F(Plugged, Limits) {
  const std::size_t total = mem_get_info(0).second;
  set_per_process_memory_fraction(static_cast<double>(20 * kMiB) / static_cast<double>(total), 0);
  const int mallocs = seen().mallocs;
  EXPECT_ERROR((void)allocate(30 * kMiB, stream_), OutOfMemoryError, "The limit is too low");
  EXPECT_EQ(seen().mallocs, mallocs) << "without a call";
  set_per_process_memory_fraction(1, 0);
}

TEST_F(Plugged, RunningOut) {
  const std::size_t total = mem_get_info(0).second;
  const DeviceBuffer kept = allocate(kMiB, stream_);
  const std::int64_t before = memory_counters(0).num_ooms;
  EXPECT_ERROR((void)allocate(2 * total, stream_), OutOfMemoryError,
               "It was counting_malloc of " EMBER_TEST_PLUGIN " that had no memory left");
  EXPECT_EQ(seen().held, 1);
  EXPECT_EQ(memory_counters(0).num_ooms, before + 1);
  EXPECT_EQ(allocate(kMiB, stream_).size(), kMiB);
}

TEST_F(Plugged, OtherStreams) {
  const Stream other(0);
  DeviceBuffer buffer = allocate(3000, stream_);
  test::Gate gate(other);
  fill_async(buffer.data(), 7, buffer.size(), other);
  record_stream(buffer, other);
  buffer.reset();
  EXPECT_EQ(seen().held, 1) << "given back under work that uses it";
  EXPECT_EQ(memory_counters(0).active.all.current, 1);
  EXPECT_EQ(memory_allocated(0), 0U);
  gate.open();
  other.synchronize();
  (void)allocate(1, stream_);  // polls
  EXPECT_EQ(seen().held, 0);
}

TEST_F(Plugged, Pools) {
  MemPool pool({.use_on_oom = true}, 0);
  DeviceBuffer buffer;
  {
    const MemPoolGuard guard(pool);
    buffer = allocate(1000, stream_);
  }
  EXPECT_EQ(seen().last.pointer, buffer.data());
  ASSERT_EQ(pool.snapshot().size(), 1U);
  EXPECT_EQ(pool.snapshot()[0].total_size, 1000U);
  buffer.reset();
  EXPECT_TRUE(pool.snapshot().empty());
}

TEST_F(Plugged, APoolMayHaveAnotherAllocator) {
  int mallocs = 0, frees = 0;
  const PluggableAllocator other(
      [&](std::size_t bytes, int device, void*) {
        ++mallocs;
        return device_malloc(bytes, device);
      },
      [&](void* pointer, std::size_t, int, void*) {
        ++frees;
        device_free(pointer);
      });
  MemPool pool(other);
  const int of_plugin = seen().mallocs;
  {
    const MemPoolGuard guard(pool);
    (void)allocate(1000, stream_);
  }
  EXPECT_EQ(seen().mallocs, of_plugin);
  EXPECT_EQ(mallocs, 1);
  EXPECT_EQ(frees, 1) << "a segment for each allocation, as the process has it";
}

TEST_F(Plugged, WithoutTheCacheItIsTheSame) {
  const int mallocs = seen().mallocs;
  const CachingAllocatorDisabled disabled;
  (void)allocate(1000, stream_);
  EXPECT_EQ(seen().mallocs, mallocs + 1);
}

TEST_F(Plugged, ManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&] {
      for (std::size_t i = 1; i <= 200; ++i) {
        const DeviceBuffer first = allocate(512 * i, stream_);
        const DeviceBuffer second = allocate(i, stream_);
        EXPECT_NE(first.data(), second.data());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_allocated(0), 0U);
}

// What the plug-in makes of a fault is null, so that it is called again.
TEST_F(Plugged, FaultsOfTheDevice) {
  if (!is_simulated()) GTEST_SKIP() << "faults are injected on simulated devices";
  const DeviceBuffer kept = allocate(kKiB, stream_);
  sim::faults("alloc:1");
  const DeviceBuffer retried = allocate(kKiB, stream_);
  sim::faults("alloc:1+");
  EXPECT_ERROR((void)allocate(kKiB, stream_), OutOfMemoryError, "had no memory left");
  sim::faults("");
  EXPECT_EQ(seen().held, 2);
  EXPECT_EQ(memory_reserved(0), 2 * kKiB);
}

TEST(PluggedProcess, ItCannotBeChangedOnceItWasUsed) {
  (void)allocate(1, default_stream(0));
  EXPECT_ERROR(change_current_allocator(plugged()), Error,
               "Can't swap an already initialized allocator");
}

TEST(PluggedProcess, SymbolsThatAreMissing) {
  EXPECT_ERROR(plugged("missing_malloc"), Error, "missing_malloc");
  EXPECT_ERROR(plugged("counting_malloc", "missing_free"), Error, "missing_free");
}

TEST(PluggedProcess, TheLastChangeCountsAndInitialisesNothing) {
  IN_CHILD({
    change_current_allocator(plugged("null_malloc", "counting_free"));
    change_current_allocator(plugged("throwing_malloc", "counting_free"));
    EXPECT_FALSE(is_initialized());
    EXPECT_STREQ(get_allocator_backend(), "pluggable");
    EXPECT_ERROR((void)allocate(1000, default_stream(0)), Error,
                 "throwing_malloc of " EMBER_TEST_PLUGIN
                 " threw, when it was called for 1000 bytes of cuda:0: out of paper");
    EXPECT_ERROR(change_current_allocator(plugged()), Error,
                 "Can't swap an already initialized allocator");
  });
}

TEST(PluggedProcess, Null) {
  IN_CHILD({
    change_current_allocator(plugged("null_malloc", "counting_free"));
    EXPECT_ERROR((void)allocate(1000, default_stream(0)), OutOfMemoryError,
                 "It was null_malloc of " EMBER_TEST_PLUGIN " that had no memory left");
    EXPECT_EQ(memory_reserved(0), 0U);
  });
}

TEST(PluggedProcess, InitAndReset) {
  IN_CHILD({
    PluggableAllocator allocator = plugged();
    std::vector<std::string> calls;
    bool throws = true;
    allocator.set_init_fn([&](int devices) {
      calls.push_back("init " + std::to_string(devices - device_count()));
      if (throws) throw std::runtime_error("not yet");
    });
    allocator.set_reset_fn([&] {
      calls.push_back("reset");
      if (throws) throw std::runtime_error("not now");
    });
    change_current_allocator(allocator);
    EXPECT_TRUE(calls.empty());
    EXPECT_ERROR((void)allocate(1000, default_stream(0)), Error,
                 "init_fn beside counting_malloc of " EMBER_TEST_PLUGIN " threw");
    EXPECT_ERROR(empty_cache(), AcceleratorError,
                 "reset_fn beside counting_free of " EMBER_TEST_PLUGIN " threw");
    EXPECT_EQ(seen().mallocs, 0);
    throws = false;
    calls.clear();
    (void)allocate(1000, default_stream(0));
    (void)allocate(1000, default_stream(0));
    EXPECT_EQ(calls, std::vector<std::string>{"init 0"});
    calls.clear();
    empty_cache();
    EXPECT_EQ(calls.size(), static_cast<std::size_t>(device_count()));
    calls.clear();
    EXPECT_THROW((void)allocate(2 * mem_get_info(0).second, default_stream(0)), OutOfMemoryError);
    EXPECT_EQ(calls, std::vector<std::string>{"reset"}) << "before it is called again";
  });
}

TEST(PluggedProcess, WhatIsNotTakenBackIsCounted) {
  IN_CHILD({
    change_current_allocator(plugged("counting_malloc", "throwing_free"));
    (void)allocate(1000, default_stream(0));
    EXPECT_EQ(memory_allocated(0), 0U);
    EXPECT_EQ(memory_reserved(0), 1000U);
    EXPECT_EQ(allocate(2000, default_stream(0)).size(), 2000U);
    EXPECT_ERROR(empty_cache(), AcceleratorError, "out of ink");
    EXPECT_EQ(memory_reserved(0), 3000U);
  });
}

TEST(PluggedProcess, WithoutCountingZerosStay) {
  IN_CHILD({
    setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
    const DeviceBuffer buffer = allocate(1000, default_stream(0));
    EXPECT_EQ(seen().last.pointer, buffer.data());
    EXPECT_EQ(memory_counters(0), MemoryCounters());
  });
}

TEST(PluggedProcess, AResetTakesItsMemory) {
  IN_CHILD({
    DeviceBuffer kept = allocate(1000, default_stream(0));
    reset_device(0);
    kept.reset();
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_EQ(seen().frees, 0) << "free_fn is not called for what is gone";
    allocate(1000, default_stream(0)).reset();
    EXPECT_EQ(seen().frees, 1);
  });
}

}  // namespace
}  // namespace ember::cuda
