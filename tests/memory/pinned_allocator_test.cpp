// The pinned host allocator on a source without devices.

#include <gtest/gtest.h>

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

TEST_F(PinnedAllocatorTest, SizesArePowersOfTwo) {
  EXPECT_EQ(allocator_.allocate(0), nullptr);
  EXPECT_EQ(allocator_.allocate(1)->bytes, 1U);
  EXPECT_EQ(allocator_.allocate(512)->bytes, 512U);
  EXPECT_EQ(allocator_.allocate(513)->bytes, 1024U);
  EXPECT_EQ(allocator_.allocate(5 * kMiB)->bytes, 8 * kMiB);
  EXPECT_THROW((void)allocator_.allocate(std::size_t{1} << 60), ValueError);
  EXPECT_THROW((void)allocator_.allocate(static_cast<std::size_t>(-1)), ValueError);
}

TEST_F(PinnedAllocatorTest, AFreedBlockOfTheClassIsHandedOutAgain) {
  PinnedBlock* block = allocator_.allocate(1000);
  void* const data = block->data;
  EXPECT_TRUE(allocator_.free(data));
  EXPECT_NE(allocator_.allocate(500), block);  // never split, never a larger class
  PinnedBlock* again = allocator_.allocate(600);
  EXPECT_EQ(again, block);       // the same context ...
  EXPECT_EQ(again->data, data);  // ... and the same pointer
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.num_host_alloc, 2);
  EXPECT_EQ(counters.active_requests.current, 2);
  EXPECT_EQ(counters.active_bytes.current, 512 + 1024);
  EXPECT_EQ(counters.allocated_bytes.current, 512 + 1024);
  EXPECT_EQ(counters.active_requests.allocated, 3);
  EXPECT_EQ(counters.active_requests.freed, 1);
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

TEST_F(PinnedAllocatorTest, OnlyMemoryInUseCanBeRecorded) {
  PinnedBlock* block = allocator_.allocate(1024);
  char* const data = static_cast<char*>(block->data);
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
  char* const data = static_cast<char*>(block->data);
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
  PinnedBlock* cached = allocator_.allocate(1024);
  PinnedBlock* kept = allocator_.allocate(1024);
  PinnedBlock* parked = allocator_.allocate(1024);
  PinnedBlock* pending = allocator_.allocate(1024);
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
  PinnedBlock* fresh = allocator_.allocate(1024);
  EXPECT_NE(fresh->data, data);
  EXPECT_TRUE(allocator_.free(fresh->data));  // ... and is made good here
  EXPECT_EQ(host_.segments(), 2U);
  host_.complete(stream_handle(2, 1));
  EXPECT_EQ(allocator_.allocate(1024), fresh);  // polls
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
  void* const data = allocator.allocate(1024)->data;
  host.reset(0);
  EXPECT_EQ(allocator.counters().active_requests.current, 1);  // another thread notices
  host.late = true;
  EXPECT_TRUE(allocator.free(data));
  EXPECT_EQ(host.segments(), 0U) << "it may no longer be page-locked";
  EXPECT_NE(allocator.allocate(1024), nullptr);
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
  PinnedBlock* block = allocator_.allocate(1024);
  EXPECT_TRUE(allocator_.record_event(block->data, nullptr, stream_handle(1, 0)));
  EXPECT_TRUE(allocator_.free(block->data));
  host_.fault(0, Code::illegal_address);
  EXPECT_NE(allocator_.allocate(1024), block);
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
