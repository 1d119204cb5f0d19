// Every call of the device made to fail in turn: no leak, no hang, and the next call works.
#include <gtest/gtest.h>

#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/pools.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

/// A private pool, which is emptied, and memory that is not cached.
int in_pools(CachingAllocator& allocator) {
  int errors = 0;
  std::vector<void*> live;
  const auto allocate = [&](std::size_t bytes) {
    try {
      live.push_back(allocator.allocate(bytes, nullptr).address);
    } catch (const Error&) {
      ++errors;
    }
  };
  memory::Pool* const pool = allocator.make_pool({.use_on_oom = true, .no_split = true});
  const cuda::MemPoolId id = pool->id;
  const std::uint64_t route = allocator.route(pool);
  allocate(3 * kMiB);
  {
    const cuda::CachingAllocatorDisabled disabled;
    allocate(1000);
  }
  allocate(100);
  allocator.end_route(route);
  for (void* pointer : live) {
    allocator.record_stream(pointer, stream_handle(5));
    EXPECT_TRUE(allocator.free(pointer));
  }
  errors += !allocator.empty_cache(id).ok();
  allocator.release_pool(pool);
  errors += !allocator.empty_cache().ok();
  return errors;
}

/// Growing, reuse, recorded streams, polling, running out and giving back. Errors are swallowed,
/// memory that was obtained is always freed. Returns how many calls threw.
int everything(CachingAllocator& allocator, FakeDevice& device) {
  int errors = 0;
  std::vector<void*> live;
  const auto allocate = [&](std::size_t bytes, std::uintptr_t stream) {
    try {
      live.push_back(allocator.allocate(bytes, stream_handle(stream).native).address);
    } catch (const Error&) {
      ++errors;
    }
  };
  for (const std::size_t bytes : {std::size_t{100}, kMiB, 3 * kMiB, 30 * kMiB}) {
    for (std::uintptr_t stream = 0; stream < 2; ++stream) allocate(bytes, stream);
  }
  for (std::size_t i = 0; i < live.size(); ++i) {
    allocator.record_stream(live[i], stream_handle(5));
    if (i % 2 == 0) allocator.record_stream(live[i], stream_handle(6));
    EXPECT_TRUE(allocator.free(live[i]));
  }
  live.clear();
  allocate(100, 0);  // polls
  device.complete(stream_handle(5));
  allocate(100, 0);
  allocate(90 * kMiB, 0);   // waits for all, gives back, grows
  allocate(500 * kMiB, 0);  // fails in any case
  for (void* pointer : live) EXPECT_TRUE(allocator.free(pointer));
  live.clear();
  errors += !allocator.empty_cache().ok();
  return errors + in_pools(allocator);
}

/// With ordinary segments, and with segments that grow.
class FailingSource : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Segments, FailingSource, testing::Bool(),
                         [](const auto& each) { return each.param ? "Growing" : "Ordinary"; });

TEST_P(FailingSource, EveryCallOfTheDeviceMayFail) {
  const memory::Settings& settings = GetParam() ? growing_settings() : memory::default_settings();
  for (const Code code : {Code::out_of_memory, Code::launch_failure, Code::invalid_handle}) {
    bool failed = true;
    for (int k = 1; failed; ++k) {
      SCOPED_TRACE("call " + std::to_string(k) + ", " + code_text(code));
      ASSERT_LT(k, 1000);
      FakeDevice device(128 * kMiB);
      {
        CachingAllocator allocator(0, device);
        allocator.apply(settings);
        device.fail_call(k, code);
        (void)everything(allocator, device);
        failed = device.has_failed();
        device.fail_call(0, Code::ok);

        EXPECT_EQ(allocator.counters().allocation.all.current, 0);
        EXPECT_TRUE(allocator.empty_cache().ok());
        EXPECT_EQ(everything(allocator, device), 1);  // all but what cannot succeed
        device.complete(stream_handle(6));
        EXPECT_TRUE(allocator.empty_cache().ok());
        const auto counters = allocator.counters();
        EXPECT_EQ(counters.active.all.current, 0);
        EXPECT_EQ(counters.reserved_bytes.all.current, 0);
        EXPECT_EQ(counters.num_device_alloc, counters.num_device_free);
        EXPECT_EQ(device.segments(), 0U);
        EXPECT_EQ(device.chunks(), 0U);
        EXPECT_EQ(device.ranges(), 0U);
        EXPECT_EQ(device.bytes_held(), 0U);
      }
      EXPECT_EQ(device.events_alive(), 0U);
    }
  }
}

TEST(FailingPinnedSource, EveryCallForPinnedMemoryMayFail) {
  bool failed = true;
  for (int k = 1; failed; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    ASSERT_LT(k, 1000);
    FakePinned host(8 * kMiB);
    {
      PinnedAllocator allocator(host);
      const auto scenario = [&] {
        std::vector<void*> live;
        for (const std::size_t bytes : {std::size_t{1}, kMiB, 4 * kMiB, 5 * kMiB}) {
          try {
            live.push_back(allocator.allocate(bytes)->data);
          } catch (const Error&) {
          }
        }
        for (void* pointer : live) {
          allocator.record_event(pointer, nullptr, stream_handle(5));
          EXPECT_TRUE(allocator.free(pointer));
        }
        host.complete(stream_handle(5));
        (void)allocator.empty_cache();
      };
      host.fail_call(k, Code::launch_failure);
      scenario();
      failed = host.has_failed();
      host.fail_call(0, Code::ok);
      scenario();
      host.complete(stream_handle(5));
      EXPECT_TRUE(allocator.empty_cache().ok());
      EXPECT_EQ(allocator.counters().allocations.current, 0);
      EXPECT_EQ(allocator.counters().active_requests.current, 0);
      EXPECT_EQ(host.segments(), 0U);
    }
    EXPECT_EQ(host.events_alive(), 0U);
  }
}

}  // namespace
}  // namespace ember::test
