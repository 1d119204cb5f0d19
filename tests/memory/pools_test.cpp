// Private pools, routes to them, and allocations without the cache, through the public functions.
#include "ember/memory/pools.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/allocator_functions.h"
#include "ember/memory/memory.h"
#include "tests/support/devices.h"

namespace ember::cuda {
namespace {

class MemPools : public testing::Test {
 protected:
  MemPools() {
    synchronize(0);
    empty_cache();
  }
  ~MemPools() override {
    synchronize(0);
    empty_cache();
    EXPECT_EQ(memory_reserved(0), 0U);
    EXPECT_TRUE(caching_allocator_enabled());
  }
  static bool is_in(const DeviceBuffer& buffer, const MemPoolId& pool) {
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    for (const MemorySnapshot::Segment& segment : memory_snapshot(pool).segments)
      if (address - segment.address < segment.total_size) return true;
    return false;
  }
  const Stream stream_{0};
};

TEST_F(MemPools, AGuardSendsItsThreadThere) {
  MemPool pool;
  EXPECT_EQ(pool.id().first, 0U);
  EXPECT_GT(pool.id().second, 0U);
  EXPECT_EQ(pool.device(), Device(Device::Type::cuda, 0));
  EXPECT_EQ(pool.use_count(), 1);
  EXPECT_TRUE(pool.snapshot().empty());
  DeviceBuffer ours, of_thread;
  {
    const MemPoolGuard guard = use_mem_pool(pool);
    EXPECT_EQ(pool.use_count(), 2);
    ours = allocate(kKiB, stream_);
    std::thread([&] { of_thread = allocate(kKiB, stream_); }).join();
  }
  EXPECT_EQ(pool.use_count(), 1);
  const DeviceBuffer after = allocate(kKiB, stream_);
  EXPECT_TRUE(is_in(ours, pool.id()));
  EXPECT_FALSE(is_in(of_thread, pool.id())) << "a guard is of one thread";
  EXPECT_FALSE(is_in(after, pool.id()));
  EXPECT_TRUE(is_in(after, {0, 0}));
}

TEST_F(MemPools, TheInnermostGuardCounts) {
  MemPool outer, inner;
  DeviceBuffer first, second, third, again;
  {
    const MemPoolGuard of_outer(outer);
    first = allocate(kKiB, stream_);
    {
      const MemPoolGuard of_inner(inner);
      second = allocate(kKiB, stream_);
      const MemPoolGuard same(inner);  // twice is no error
      again = allocate(kKiB, stream_);
    }
    third = allocate(kKiB, stream_);
  }
  EXPECT_TRUE(is_in(first, outer.id()));
  EXPECT_TRUE(is_in(second, inner.id()));
  EXPECT_TRUE(is_in(again, inner.id()));
  EXPECT_TRUE(is_in(third, outer.id()));
}

TEST_F(MemPools, OtherDevicesAreNotMeant) {
  NEEDS_DEVICES(2);
  MemPool pool({}, 0);
  DeviceBuffer there, of_pool;
  {
    const MemPoolGuard guard(pool, 0);
    there = allocate(kKiB, Stream(1));
    const MemPoolGuard other(pool, 1);
    of_pool = allocate(kKiB, Stream(1));
  }
  EXPECT_FALSE(is_in(there, pool.id()));
  EXPECT_TRUE(is_in(of_pool, pool.id())) << "the pool of the same id of the other device";
  EXPECT_EQ(pool.snapshot().size(), 1U);
  EXPECT_EQ(pool.snapshot()[0].device, 1);
  of_pool.reset();
  empty_cache();
  EXPECT_TRUE(pool.snapshot().empty()) << "nobody needs it there";
}

TEST_F(MemPools, AllocatesForLibrariesAsItsGuardDoes) {
  MemPool pool;
  const MemPool other;
  const auto pool_of = [&](int device) {
    void* const made = pool.allocate(kKiB, device, device == 0 ? stream_.native() : nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(made);
    std::optional<MemPoolId> found;
    for (const MemorySnapshot::Segment& segment : memory_snapshot().segments)
      if (address - segment.address < segment.total_size) {
        found = segment.pool;
        EXPECT_EQ(segment.device, device);
        EXPECT_EQ(segment.stream,
                  reinterpret_cast<std::uintptr_t>(device == 0 ? stream_.native() : nullptr));
      }
    ember_allocator_free(made, kKiB, device, nullptr);
    return found;
  };
  EXPECT_EQ(pool_of(0), pool.id());
  {
    const MemPoolGuard guard(other);
    EXPECT_EQ(pool_of(0), pool.id()) << "within another pool's guard";
  }
  {
    const CachingAllocatorDisabled disabled;
    const std::optional<MemPoolId> found = pool_of(0);
    ASSERT_TRUE(found);
    EXPECT_NE(*found, pool.id()) << "a pool caches";
  }
  if (device_count() > 1) {
    EXPECT_EQ(pool_of(1), pool.id());
  }
  EXPECT_EQ(pool.allocate(0, 0, nullptr), nullptr);
  EXPECT_ERROR(pool.allocate(8, 99, nullptr), AcceleratorError, "invalid device ordinal");
  const MemPool moved = std::move(pool);
  EXPECT_ERROR(pool.allocate(8, 0, nullptr),  // NOLINT(bugprone-use-after-move): that is the point
               ValueError, "expected a pool, got one that was moved from");
}

TEST_F(MemPools, MemoryIsNotShared) {
  MemPool pool;
  void* freed = nullptr;
  {
    const MemPoolGuard guard(pool);
    DeviceBuffer buffer = allocate(3 * kMiB, stream_);
    freed = buffer.data();
  }
  const DeviceBuffer ordinary = allocate(3 * kMiB, stream_);
  EXPECT_NE(ordinary.data(), freed);
  const MemPoolGuard guard(pool);
  EXPECT_EQ(allocate(3 * kMiB, stream_).data(), freed);
}

TEST_F(MemPools, TheSnapshotSaysWhatIsThere) {
  MemPool pool;
  const MemPoolGuard guard(pool);
  const DeviceBuffer used = allocate(1000, stream_);
  allocate(5000, stream_).reset();
  const std::vector<MemorySnapshot::Segment> segments = pool.snapshot();
  ASSERT_EQ(segments.size(), 1U);
  const MemorySnapshot::Segment& segment = segments[0];
  EXPECT_EQ(segment.device, 0);
  EXPECT_EQ(segment.total_size, 2 * kMiB);
  EXPECT_EQ(segment.allocated_size, 1024U);
  EXPECT_EQ(segment.active_size, 1024U);
  EXPECT_EQ(segment.requested_size, 1000U);
  EXPECT_EQ(segment.stream, reinterpret_cast<std::uintptr_t>(stream_.native()));
  EXPECT_TRUE(segment.small);
  EXPECT_EQ(segment.pool, pool.id());
  ASSERT_EQ(segment.blocks.size(), 2U);
  EXPECT_EQ(segment.blocks[0].address, reinterpret_cast<std::uintptr_t>(used.data()));
  EXPECT_EQ(segment.blocks[0].size, 1024U);
  EXPECT_EQ(segment.blocks[0].requested_size, 1000U);
  EXPECT_EQ(segment.blocks[0].state, MemorySnapshot::State::active_allocated);
  EXPECT_EQ(segment.blocks[1].size, 2 * kMiB - 1024);
  EXPECT_EQ(segment.blocks[1].requested_size, 0U);
  EXPECT_EQ(segment.blocks[1].state, MemorySnapshot::State::inactive);
}

TEST_F(MemPools, MemoryStaysWithThePoolUntilItIsEmptied) {
  MemPool pool;
  {
    const MemPoolGuard guard(pool);
    (void)allocate(30 * kMiB, stream_);
  }
  empty_cache();
  EXPECT_EQ(memory_reserved(0), 30 * kMiB);
  empty_cache(graph_pool_handle());  // a pool that there is not
  EXPECT_EQ(memory_reserved(0), 30 * kMiB);
  empty_cache(pool);
  EXPECT_EQ(memory_reserved(0), 0U);
}

TEST_F(MemPools, BlocksOutliveTheirPool) {
  std::optional<MemPool> pool(std::in_place);
  const MemPoolId id = pool->id();
  DeviceBuffer buffer;
  {
    const MemPoolGuard guard(*pool);
    buffer = allocate(3 * kMiB, stream_);
    (void)allocate(30 * kMiB, stream_);
  }
  EXPECT_EQ(memory_reserved(0), 50 * kMiB);
  pool.reset();
  EXPECT_EQ(memory_reserved(0), 20 * kMiB) << "what is free goes with the pool";
  EXPECT_TRUE(is_in(buffer, id));
  fill_async(buffer.data(), 7, buffer.size(), stream_);
  stream_.synchronize();
  buffer.reset();
  EXPECT_EQ(memory_reserved(0), 20 * kMiB);
  empty_cache();
  EXPECT_EQ(memory_reserved(0), 0U);
  EXPECT_TRUE(memory_snapshot(id).segments.empty());
}

TEST_F(MemPools, MovingAPool) {
  MemPool pool;
  const MemPoolId id = pool.id();
  MemPool moved = std::move(pool);
  EXPECT_EQ(moved.id(), id);
  EXPECT_EQ(moved.use_count(), 1);
  EXPECT_EQ(pool.use_count(), 0);  // NOLINT(bugprone-use-after-move): that is what it is about
  EXPECT_ERROR(MemPoolGuard{pool}, ValueError, "use_mem_pool: pool: expected a pool");
  moved = MemPool();
  EXPECT_NE(moved.id(), id);
  EXPECT_EQ(moved.use_count(), 1);
}

TEST_F(MemPools, WithoutSplittingEachBlockIsASegment) {
  MemPool pool({.no_split = true});
  const MemPoolGuard guard(pool);
  DeviceBuffer first = allocate(3 * kMiB + 1, stream_);
  const DeviceBuffer second = allocate(1000, stream_);
  for (const MemorySnapshot::Segment& segment : pool.snapshot())
    EXPECT_EQ(segment.blocks.size(), 1U);
  EXPECT_EQ(pool.snapshot().size(), 2U);
  EXPECT_EQ(memory_allocated(0), 3 * kMiB + 512 + 1024);
  void* const address = first.data();
  first.reset();
  const DeviceBuffer smaller = allocate(2 * kMiB, stream_);
  EXPECT_EQ(smaller.data(), address);
  EXPECT_EQ(pool.snapshot().size(), 2U);
  EXPECT_EQ(memory_allocated(0), 3 * kMiB + 512 + 1024) << "the whole block is in use";
}

TEST_F(MemPools, ManyThreadsInPoolsOfTheirOwnAndInOne) {
  constexpr int kThreads = 8;
  MemPool shared;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&] {
      MemPool own;
      for (int i = 0; i < 300; ++i) {
        const MemPoolGuard in_shared(shared);
        const DeviceBuffer first = allocate(512, stream_);
        const MemPoolGuard in_own(own);
        const DeviceBuffer second = allocate(512, stream_);
        if (i % 100 != 0) continue;
        EXPECT_TRUE(is_in(first, shared.id()));
        EXPECT_TRUE(is_in(second, own.id()));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.use_count(), 1);
  EXPECT_EQ(memory_allocated(0), 0U);
}

// ---- Routes by stream

TEST_F(MemPools, RoutesOfStreams) {
  const MemPoolId id = graph_pool_handle();
  const Stream other(0);
  const void* const captured = stream_.native();
  const auto is_captured = [captured](const void* stream) { return stream == captured; };
  begin_allocate_to_pool(id, is_captured, 0);
  EXPECT_ERROR(begin_allocate_to_pool(id, is_captured, 0), Error,
               "beginAllocateToPool: already recording to mempool_id");
  DeviceBuffer routed, not_routed, of_thread, of_guard;
  routed = allocate(kKiB, stream_);
  not_routed = allocate(kKiB, other);
  std::thread([&] { of_thread = allocate(kKiB, stream_); }).join();
  {
    MemPool pool;
    const MemPoolGuard guard(pool);
    of_guard = allocate(kKiB, stream_);
  }
  EXPECT_TRUE(is_in(routed, id));
  EXPECT_FALSE(is_in(not_routed, id));
  EXPECT_TRUE(is_in(of_thread, id)) << "the stream decides, not the thread";
  EXPECT_FALSE(is_in(of_guard, id)) << "a guard of the thread comes first";
  end_allocate_to_pool(id, 0);
  EXPECT_ERROR(end_allocate_to_pool(id, 0), Error,
               "endAllocatePool: not currently recording to mempool_id");
  EXPECT_FALSE(is_in(allocate(kKiB, stream_), id));
  routed.reset();
  of_thread.reset();
  empty_cache();
  EXPECT_FALSE(memory_snapshot(id).segments.empty()) << "a graph that needs the pool keeps it";
  release_pool(id, 0);
  EXPECT_ERROR(release_pool(id, 0), Error, "nobody needs a pool (0, " + std::to_string(id.second));
  empty_cache();
  EXPECT_TRUE(memory_snapshot(id).segments.empty());
}

TEST_F(MemPools, BadRoutes) {
  EXPECT_ERROR(begin_allocate_to_pool({0, 0}, [](const void*) { return true; }), ValueError,
               "expected the id of a private pool, got (0, 0)");
  EXPECT_ERROR(begin_allocate_to_pool(graph_pool_handle(), {}), ValueError,
               "filter: expected a function");
  EXPECT_ERROR(release_pool({0, 0}), Error, "nobody needs a pool (0, 0)");
  const MemPoolId first = graph_pool_handle(), second = graph_pool_handle();
  EXPECT_EQ(first.first, 0U);
  EXPECT_LT(first.second, second.second);
}

TEST_F(MemPools, ARouteKeepsAPoolThatIsReleasedTooEarly) {
  const MemPoolId id = graph_pool_handle();
  begin_allocate_to_pool(
      id, [](const void*) { return true; }, 0);
  release_pool(id, 0);
  empty_cache();
  EXPECT_TRUE(is_in(allocate(kKiB, stream_), id));
  end_allocate_to_pool(id, 0);
}

// ---- Without the cache

TEST_F(MemPools, WithoutTheCacheEachAllocationIsTheDevicesOwn) {
  allocate(3000, stream_).reset();
  const std::size_t cached = memory_reserved(0);
  {
    const CachingAllocatorDisabled disabled;
    EXPECT_FALSE(caching_allocator_enabled());
    const DeviceBuffer buffer = allocate(3000, stream_);
    EXPECT_EQ(memory_allocated(0), 3000U);
    EXPECT_EQ(memory_reserved(0), cached + 3000);
    fill_async(buffer.data(), 7, buffer.size(), stream_);
    std::thread([&] {
      EXPECT_TRUE(caching_allocator_enabled()) << "a guard is of one thread";
    }).join();
    {
      MemPool pool;
      const MemPoolGuard guard(pool);
      const CachingAllocatorDisabled nested;
      (void)allocate(3000, stream_);
      EXPECT_TRUE(pool.snapshot().empty()) << "also where a guard names a pool";
    }
    EXPECT_FALSE(caching_allocator_enabled());
  }
  EXPECT_EQ(memory_allocated(0), 0U);
  EXPECT_EQ(memory_reserved(0), cached) << "it went back when it was freed";
  allocate(3000, stream_).reset();
  EXPECT_EQ(memory_reserved(0), cached);
}

TEST_F(MemPools, CachingCanBeDisabledForAll) {
  DeviceBuffer kept = allocate(3000, stream_);
  caching_allocator_enable(false);
  caching_allocator_enable(false);  // no count
  const std::size_t reserved = memory_reserved(0);
  std::thread([&] {
    EXPECT_FALSE(caching_allocator_enabled());
    const DeviceBuffer buffer = allocate(100, stream_);
    EXPECT_EQ(memory_reserved(0), reserved + 100);
  }).join();
  DeviceBuffer across = allocate(100, stream_);
  kept.reset();
  EXPECT_EQ(memory_reserved(0), reserved + 100) << "what was cached before is";
  caching_allocator_enable();
  EXPECT_TRUE(caching_allocator_enabled());
  across.reset();
  EXPECT_EQ(memory_reserved(0), reserved);
}

TEST_F(MemPools, OtherStreamsUseOfUncachedMemoryIsWaitedFor) {
  const Stream other(0);
  DeviceBuffer buffer;
  {
    const CachingAllocatorDisabled disabled;
    buffer = allocate(3000, stream_);
  }
  test::Gate gate(other);
  fill_async(buffer.data(), 7, buffer.size(), other);
  record_stream(buffer, other);
  buffer.reset();
  EXPECT_EQ(memory_counters(0).active.all.current, 1);
  gate.open();
  other.synchronize();
  empty_cache();
  EXPECT_EQ(memory_reserved(0), 0U);
}

}  // namespace
}  // namespace ember::cuda
