// The pinned host allocator on a source without devices.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using memory::PinnedBlock;

class PinnedAllocatorTest : public testing::Test {
 protected:
  FakePinned host_{64 * kMiB};
  PinnedAllocator allocator_{host_};
};

TEST_F(PinnedAllocatorTest, SizesWasteLessThanAnEighth) {
  EXPECT_EQ(allocator_.allocate(0), nullptr);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t bytes = 1 + random() % (std::size_t{1} << (4 + i % 20));
    PinnedBlock* block = allocator_.allocate(bytes);
    EXPECT_GE(block->bytes, bytes);
    EXPECT_LT((block->bytes - bytes) * 8, std::max<std::size_t>(bytes, 8 * 64)) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data) % 64, 0U);
    EXPECT_TRUE(allocator_.free(block->data));
  }
  EXPECT_EQ(allocator_.allocate(5 * kMiB)->bytes, 5 * kMiB);
  EXPECT_THROW((void)allocator_.allocate(std::size_t{1} << 60), ValueError);
  EXPECT_THROW((void)allocator_.allocate(static_cast<std::size_t>(-1)), ValueError);
}

TEST_F(PinnedAllocatorTest, AddressesAreAlignedAsAskedFor) {
  std::mt19937 random(1);
  std::map<std::byte*, std::size_t> held;  // and where they end
  std::size_t live = 0;
  const auto put_back = [&](std::map<std::byte*, std::size_t>::iterator one) {
    EXPECT_TRUE(allocator_.free(one->first));
    held.erase(one);
    --live;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::size_t alignment = std::size_t{1} << random() % 13;
    const std::size_t bytes = 1 + random() % (i % 50 == 0 ? 3 * kMiB : 6000);
    PinnedBlock* const block = allocator_.allocate(bytes, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data) % alignment, 0U) << alignment;
    EXPECT_GE(block->bytes, bytes);
    std::byte* const address = block->data;
    const auto [at, is_new] = held.emplace(address, bytes);
    ASSERT_TRUE(is_new);
    ++live;
    if (at != held.begin()) {
      EXPECT_LE(std::prev(at)->first + std::prev(at)->second, at->first);
    }
    if (std::next(at) != held.end()) {
      EXPECT_LE(at->first + bytes, std::next(at)->first);
    }
    EXPECT_EQ(allocator_.counters().active_requests.current, static_cast<std::int64_t>(live));
    while (held.size() > 100) put_back(std::next(held.begin(), random() % held.size()));
    // Not the block itself: it may be among those that were put back.
    if (const auto large = held.find(address); bytes > 6000 && large != held.end()) put_back(large);
  }
  while (!held.empty()) put_back(held.begin());
  EXPECT_EQ(allocator_.counters().active_bytes.current, 0);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(allocator_.counters().allocated_bytes.current, 0) << "nothing was lost in cutting";
}

TEST_F(PinnedAllocatorTest, AddressesAreAlignedWithoutTheCacheToo) {
  allocator_.apply({.caching = false});
  std::vector<PinnedBlock*> held;
  for (std::size_t alignment = 4096; alignment > 0; alignment /= 2) {
    held.push_back(allocator_.allocate(100, alignment));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->data) % alignment, 0U);
    EXPECT_EQ(allocator_.counters().allocations.current, static_cast<std::int64_t>(held.size()));
  }
  for (PinnedBlock* const block : held) EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_EQ(allocator_.counters().allocated_bytes.current, 0);
}

TEST_F(PinnedAllocatorTest, SmallBlocksShareASegment) {
  PinnedBlock* block = allocator_.allocate(1000);
  std::byte* const data = block->data;
  PinnedBlock* other = allocator_.allocate(500);
  EXPECT_EQ(other->data, data + 1024);
  EXPECT_TRUE(allocator_.free(data));
  PinnedBlock* again = allocator_.allocate(1001);
  EXPECT_EQ(again, block);       // the same context ...
  EXPECT_EQ(again->data, data);  // ... and the same pointer
  EXPECT_EQ(allocator_.allocate(100)->data, data + 1024 + 512);
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.num_host_alloc, 1);
  EXPECT_EQ(counters.host_alloc_time.count, 1);
  EXPECT_EQ(counters.allocations.current, 1);
  EXPECT_EQ(counters.allocated_bytes.current, static_cast<std::int64_t>(2 * kMiB));
  EXPECT_EQ(counters.active_requests.current, 3);
  EXPECT_EQ(counters.active_bytes.current, 1024 + 512 + 128);
  EXPECT_EQ(counters.active_requests.allocated, 4);
  EXPECT_EQ(counters.active_requests.freed, 1);
}

TEST_F(PinnedAllocatorTest, FreedNeighboursBecomeOne) {
  std::vector<PinnedBlock*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocator_.allocate(256 * 1024));
  EXPECT_EQ(allocator_.counters().num_host_alloc, 1);
  for (const int i : {1, 3, 5, 2, 4}) EXPECT_TRUE(allocator_.free(blocks[i]->data));
  EXPECT_EQ(allocator_.allocate(5 * 256 * 1024 - 100)->data, blocks[0]->data + 256 * 1024);
  EXPECT_EQ(allocator_.counters().num_host_alloc, 1);
}

TEST_F(PinnedAllocatorTest, ResetsOfCounters) {
  PinnedBlock* block = allocator_.allocate(1024);
  EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(allocator_.counters().host_free_time.count, 1);
  EXPECT_NE(allocator_.allocate(64), nullptr);
  allocator_.reset_peaks();
  auto counters = allocator_.counters();
  EXPECT_EQ(counters.active_bytes.peak, 64);
  EXPECT_EQ(counters.active_bytes.allocated, 1024 + 64);
  EXPECT_EQ(counters.allocations.allocated, 2);
  allocator_.reset_accumulated();
  counters = allocator_.counters();
  EXPECT_EQ(counters.active_bytes.current, 64);
  EXPECT_EQ(counters.active_bytes.allocated, 0);
  EXPECT_EQ(counters.allocations.allocated, 0);
  EXPECT_EQ(counters.num_host_alloc, 0);
  EXPECT_EQ(counters.host_alloc_time, cuda::Times());
}

TEST_F(PinnedAllocatorTest, KeepsNoMoreThanItMay) {
  allocator_.apply({.max_cached = 10 * kMiB});
  std::vector<PinnedBlock*> blocks;
  for (const std::size_t size : {6, 3, 2}) blocks.push_back(allocator_.allocate(size * kMiB));
  EXPECT_TRUE(allocator_.free(blocks[0]->data));
  EXPECT_TRUE(allocator_.free(blocks[1]->data));
  EXPECT_EQ(host_.segments(), 3U);
  EXPECT_TRUE(allocator_.free(blocks[2]->data));  // would be 11 MiB
  EXPECT_EQ(host_.segments(), 2U);
  EXPECT_EQ(allocator_.counters().allocated_bytes.current, static_cast<std::int64_t>(9 * kMiB));
}

TEST_F(PinnedAllocatorTest, AReservedSegmentStays) {
  allocator_.apply({.reserve = 16 * kMiB});
  PinnedBlock* small = allocator_.allocate(100);
  PinnedBlock* large = allocator_.allocate(12 * kMiB);
  EXPECT_EQ(host_.segments(), 1U);
  EXPECT_NE(allocator_.allocate(8 * kMiB), nullptr);  // no room in it
  EXPECT_EQ(host_.segments(), 2U);
  for (PinnedBlock* block : {small, large}) EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(host_.segments(), 2U);
  host_.reset(0);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(host_.segments(), 1U);  // it may no longer be page-locked
}

TEST_F(PinnedAllocatorTest, LargeSizesNeedNotBeRounded) {
  allocator_.apply({.max_round_threshold = kMiB});
  EXPECT_EQ(allocator_.allocate(kMiB - 100)->bytes, kMiB);
  EXPECT_EQ(allocator_.allocate(kMiB + 100)->bytes, kMiB + 128);
}

TEST_F(PinnedAllocatorTest, WithoutCachingEachIsExactAndGoesBack) {
  allocator_.apply({.caching = false});
  PinnedBlock* block = allocator_.allocate(1001);
  EXPECT_EQ(block->bytes, 1001U);
  EXPECT_NE(allocator_.allocate(1001), nullptr);
  EXPECT_EQ(host_.segments(), 2U);
  EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_EQ(host_.segments(), 1U);
}

TEST_F(PinnedAllocatorTest, TakesLessWhereASegmentIsTooMuch) {
  PinnedBlock* large = allocator_.allocate(60 * kMiB);
  PinnedBlock* rest = allocator_.allocate(3 * kMiB);
  PinnedBlock* small = allocator_.allocate(1000);  // 2 MiB are not there
  EXPECT_EQ(allocator_.counters().allocated_bytes.current,
            static_cast<std::int64_t>(63 * kMiB + 1024));
  for (PinnedBlock* block : {large, rest, small}) EXPECT_TRUE(allocator_.free(block->data));
}

// Against a model that knows only which bytes are whose.
TEST_F(PinnedAllocatorTest, RandomOperations) {
  std::mt19937 random(7);
  std::map<std::byte*, PinnedBlock*> in_use;
  std::map<std::byte*, unsigned> pending;  // freed while a stream uses them: which one
  std::int64_t active = 0;
  const auto overlaps = [](const auto& held, const PinnedBlock* block, const auto& bytes_of) {
    const auto next = held.lower_bound(block->data);
    if (next != held.end() && next->first < block->data + block->bytes) return true;
    return next != held.begin() &&
           std::prev(next)->first + bytes_of(*std::prev(next)) > block->data;
  };
  std::map<std::byte*, std::size_t> bytes_pending;
  for (int step = 0; step < 200'000; ++step) {
    const unsigned what = random() % 16;
    if (what < 8 && active < static_cast<std::int64_t>(24 * kMiB)) {
      const std::size_t bytes = 1 + random() % (std::size_t{1} << (3 + random() % 19));
      PinnedBlock* block = allocator_.allocate(bytes);
      ASSERT_FALSE(overlaps(in_use, block, [](const auto& held) { return held.second->bytes; }));
      ASSERT_FALSE(overlaps(bytes_pending, block, [](const auto& held) { return held.second; }));
      in_use[block->data] = block;
      active += static_cast<std::int64_t>(block->bytes);
    } else if (what < 14 && !in_use.empty()) {
      auto at = in_use.begin();
      std::advance(at, random() % std::min<std::size_t>(in_use.size(), 20));
      PinnedBlock* const block = at->second;
      if (random() % 4 == 0) {
        const unsigned stream = random() % 3;
        ASSERT_TRUE(allocator_.record_event(block->data, block, stream_handle(stream)));
        pending[block->data] = stream;
        bytes_pending[block->data] = block->bytes;
      } else {
        active -= static_cast<std::int64_t>(block->bytes);
      }
      std::byte* const data = block->data;
      in_use.erase(at);
      ASSERT_TRUE(allocator_.free(data));
    } else if (what == 14) {
      const unsigned stream = random() % 3;
      host_.complete(stream_handle(stream));
      std::erase_if(pending, [&](const auto& held) {
        if (held.second != stream) return false;
        active -= static_cast<std::int64_t>(bytes_pending[held.first]);
        bytes_pending.erase(held.first);
        return true;
      });
      ASSERT_TRUE(allocator_.empty_cache().ok());  // polls
      ASSERT_EQ(allocator_.counters().active_bytes.current, active);
      ASSERT_EQ(allocator_.counters().active_requests.current,
                static_cast<std::int64_t>(in_use.size() + pending.size()));
      ASSERT_EQ(allocator_.counters().allocated_bytes.current,
                static_cast<std::int64_t>(host_.bytes_held()));
    }
  }
  for (unsigned stream = 0; stream < 3; ++stream) host_.complete(stream_handle(stream));
  for (const auto& [data, block] : in_use) ASSERT_TRUE(allocator_.free(data));
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(host_.segments(), 0U);
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.active_bytes.current, 0);
  EXPECT_EQ(counters.allocations.allocated, counters.allocations.freed);
}

TEST_F(PinnedAllocatorTest, RecordedBlocksWaitForTheirStreams) {
  PinnedBlock* block = allocator_.allocate(1024);
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream_handle(1, 0)));
  EXPECT_TRUE(allocator_.record_event(nullptr, block, stream_handle(2, 1)));  // another device's
  EXPECT_TRUE(allocator_.free(block->data));
  PinnedBlock* other = allocator_.allocate(1024);
  EXPECT_NE(other, block);
  host_.complete(stream_handle(1));
  PinnedBlock* third = allocator_.allocate(1024);
  EXPECT_NE(third, block);
  host_.complete(stream_handle(2));
  EXPECT_EQ(allocator_.allocate(1024), block);
}

TEST_F(PinnedAllocatorTest, KeptBlocksAreNobodysBeforeTheirRelease) {
  PinnedBlock* const block = allocator_.allocate(1024);
  std::byte* const data = block->data;
  std::vector<PinnedBlock*> first, second, third;
  int local = 0;
  EXPECT_FALSE(allocator_.keep(&local, first));
  EXPECT_TRUE(allocator_.keep(data + 1023, first));
  EXPECT_TRUE(allocator_.keep(data, first)) << "again";
  EXPECT_EQ(first, std::vector<PinnedBlock*>{block}) << "once";
  EXPECT_TRUE(allocator_.keep(data, second)) << "by another one, too";
  EXPECT_TRUE(allocator_.free(data));
  EXPECT_FALSE(allocator_.free(data)) << "it is freed, whoever keeps it";
  EXPECT_TRUE(allocator_.keep(data, third));
  EXPECT_EQ(allocator_.counters().active_requests.current, 1);
  EXPECT_NE(allocator_.allocate(1024), block);
  allocator_.release(block, {});
  allocator_.release(block, stream_handle(1));
  EXPECT_NE(allocator_.allocate(1024), block);
  allocator_.release(block, {});
  EXPECT_NE(allocator_.allocate(1024), block) << "a stream uses it";
  host_.complete(stream_handle(1));
  EXPECT_EQ(allocator_.allocate(1024), block);
  // Of memory that its user still has, only the number changes.
  first.clear();
  EXPECT_TRUE(allocator_.keep(data, first));
  allocator_.release(block, {});
  EXPECT_TRUE(allocator_.free(data));
  EXPECT_EQ(allocator_.allocate(1024), block);
}

// The streams of what nobody has released go with the allocator.
TEST_F(PinnedAllocatorTest, KeptBlocksEndWithTheAllocator) {
  PinnedBlock* const block = allocator_.allocate(1024);
  std::vector<PinnedBlock*> kept;
  EXPECT_TRUE(allocator_.keep(block->data, kept));
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream_handle(1)));
  EXPECT_TRUE(allocator_.free(block->data));
}

TEST_F(PinnedAllocatorTest, OnlyMemoryInUseCanBeRecorded) {
  PinnedBlock* block = allocator_.allocate(1024);
  char* const data = reinterpret_cast<char*>(block->data);
  int local = 0;
  EXPECT_TRUE(allocator_.record_event(data + 512, block, stream_handle(1)));  // a slice
  EXPECT_FALSE(allocator_.record_event(data + 512, nullptr, stream_handle(1)));
  EXPECT_FALSE(allocator_.record_event(&local, &local, stream_handle(1)));
  EXPECT_FALSE(allocator_.record_event(nullptr, nullptr, stream_handle(1)));
  host_.complete(stream_handle(1));
  EXPECT_TRUE(allocator_.free(data));
  host_.complete(stream_handle(1));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_FALSE(allocator_.record_event(data, block, stream_handle(1)));
  EXPECT_EQ(host_.segments(), 0U);
}

TEST_F(PinnedAllocatorTest, RefusesPointersThatAreNotBlocksInUse) {
  PinnedBlock* block = allocator_.allocate(1024);
  char* const data = reinterpret_cast<char*>(block->data);
  int local = 0;
  EXPECT_FALSE(allocator_.free(&local));
  EXPECT_FALSE(allocator_.free(data + 1));
  EXPECT_FALSE(allocator_.free(nullptr));
  EXPECT_TRUE(allocator_.free(data));
  EXPECT_FALSE(allocator_.free(data));
}

TEST_F(PinnedAllocatorTest, GivesUnusedBlocksBackBeforeItFails) {
  PinnedBlock* block = allocator_.allocate(32 * kMiB);
  EXPECT_TRUE(allocator_.free(block->data));
  PinnedBlock* larger = allocator_.allocate(64 * kMiB);
  ASSERT_NE(larger, nullptr);
  EXPECT_EQ(allocator_.counters().num_host_free, 1);
  EXPECT_THROW((void)allocator_.allocate(1), AcceleratorError);
  EXPECT_TRUE(allocator_.free(larger->data));
  EXPECT_NE(allocator_.allocate(1), nullptr);
}

TEST_F(PinnedAllocatorTest, MemoryFromBeforeAResetIsNotHandedOutAgain) {
  PinnedBlock* cached = allocator_.allocate(3 * kMiB);
  PinnedBlock* kept = allocator_.allocate(3 * kMiB);
  PinnedBlock* parked = allocator_.allocate(3 * kMiB);
  PinnedBlock* pending = allocator_.allocate(3 * kMiB);
  EXPECT_TRUE(allocator_.record_event(parked->data, nullptr, stream_handle(1, 0)));
  EXPECT_TRUE(allocator_.record_event(pending->data, nullptr, stream_handle(2, 1)));
  void* const data = kept->data;
  for (PinnedBlock* block : {cached, parked, pending}) EXPECT_TRUE(allocator_.free(block->data));
  host_.reset(0);
  EXPECT_EQ(allocator_.counters().active_requests.current, 2);
  EXPECT_EQ(host_.segments(), 2U);  // in use, and in use by device 1
  host_.fail_call(1, Code::launch_failure);
  EXPECT_TRUE(allocator_.free(data));  // that failed below ...
  EXPECT_EQ(host_.segments(), 2U);
  EXPECT_FALSE(allocator_.free(data));
  PinnedBlock* fresh = allocator_.allocate(3 * kMiB);
  EXPECT_NE(fresh->data, data);
  EXPECT_TRUE(allocator_.free(fresh->data));  // ... and is made good here
  EXPECT_EQ(host_.segments(), 2U);
  host_.complete(stream_handle(2, 1));
  EXPECT_EQ(allocator_.allocate(3 * kMiB), fresh);  // polls
  EXPECT_EQ(host_.segments(), 1U);
  EXPECT_EQ(allocator_.counters().allocations.current, 1);
  EXPECT_EQ(allocator_.counters().active_requests.current, 1);
}

/// Answers with an earlier number of resets, as a thread does that read it and was overtaken.
class LatePinned : public FakePinned {
 public:
  using FakePinned::FakePinned;
  std::uint32_t epoch() noexcept override { return late ? before : FakePinned::epoch(); }
  bool late = false;
  std::uint32_t before = 0;
};

TEST(PinnedGenerations, NeverGoBack) {
  LatePinned host(64 * kMiB);
  PinnedAllocator allocator(host);
  host.reset(1);
  host.before = host.FakePinned::epoch();
  void* const data = allocator.allocate(3 * kMiB)->data;
  host.reset(0);
  EXPECT_EQ(allocator.counters().active_requests.current, 1);  // another thread notices
  host.late = true;
  EXPECT_TRUE(allocator.free(data));
  EXPECT_EQ(host.segments(), 0U) << "it may no longer be page-locked";
  EXPECT_NE(allocator.allocate(3 * kMiB), nullptr);
  EXPECT_EQ(allocator.counters().num_host_alloc, 2);
}

TEST_F(PinnedAllocatorTest, AnEventFromBeforeAResetStandsForNothing) {
  driver::StreamHandle stream = stream_handle(2, 0);
  PinnedBlock* block = allocator_.allocate(1024);
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream));
  EXPECT_TRUE(allocator_.free(block->data));
  host_.complete(stream);
  EXPECT_EQ(allocator_.allocate(1024), block);  // the event is kept for later
  host_.reset(0);
  stream.epoch = 1;
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream));
  EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_NE(allocator_.allocate(1024), block);
  EXPECT_EQ(host_.events_alive(), 1U);
}

TEST_F(PinnedAllocatorTest, AFaultyDeviceStopsNobody) {
  PinnedBlock* block = allocator_.allocate(3 * kMiB);
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream_handle(1, 0)));
  EXPECT_TRUE(allocator_.free(block->data));
  host_.fault(0, Code::illegal_address);
  EXPECT_NE(allocator_.allocate(3 * kMiB), block);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  host_.reset(0);
  EXPECT_EQ(allocator_.counters().active_requests.current, 1);
  EXPECT_EQ(host_.segments(), 1U);
}

TEST_F(PinnedAllocatorTest, AStreamThatIsGoneIsSettledWithItsDevice) {
  PinnedBlock* block = allocator_.allocate(64 * kMiB);
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream_handle(1, 0)));
  host_.destroy(stream_handle(1, 0));
  EXPECT_TRUE(allocator_.free(block->data));
  EXPECT_EQ(host_.devices_synchronized(), 0);
  EXPECT_NE(allocator_.allocate(1), nullptr);  // there is no other room
  EXPECT_EQ(host_.devices_synchronized(), 1);
}

TEST_F(PinnedAllocatorTest, ThreadsGetDistinctBlocks) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<void*> in_use;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int k = 0; k < 20'000; ++k) {
        PinnedBlock* block = allocator_.allocate(std::size_t{1} << (random() % 12));
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(in_use.insert(block->data).second);
        }
        if (k % 8 == 0) allocator_.record_event(block->data, block, stream_handle(i));
        {
          const std::lock_guard lock(mutex);
          in_use.erase(block->data);
        }
        EXPECT_TRUE(allocator_.free(block->data));
        if (k % 32 == 0) host_.complete(stream_handle(i));
        EXPECT_TRUE(k % 1000 != 0 || allocator_.empty_cache().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned i = 0; i < 4; ++i) host_.complete(stream_handle(i));
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(allocator_.counters().allocations.current, 0);
  EXPECT_EQ(allocator_.counters().active_requests.current, 0);
  EXPECT_EQ(allocator_.counters().active_bytes.allocated, allocator_.counters().active_bytes.freed);
}

}  // namespace
}  // namespace ember::test
