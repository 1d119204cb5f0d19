// Segments that grow: where, by how much, what goes back and when.
#include <gtest/gtest.h>

#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/history.h"
#include "ember/runtime/observer.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

class GrowingSegments : public testing::Test {
 protected:
  GrowingSegments() { allocator_.apply(growing_settings()); }
  std::byte* allocate(std::size_t bytes, std::uintptr_t stream = 0, memory::Pool* pool = nullptr) {
    return static_cast<std::byte*>(
        allocator_.allocate(bytes, stream_handle(stream).native, pool).address);
  }
  void free(void* pointer) { ASSERT_TRUE(allocator_.free(pointer)); }
  std::int64_t reserved() { return allocator_.reserved(); }
  static constexpr std::int64_t mib(std::int64_t count) { return count * std::int64_t{kMiB}; }

  FakeDevice device_{1024 * kMiB};
  CachingAllocator allocator_{0, device_};
};

// Chapter 8's numbers hold: 2 MiB for what is small, 20 MiB for less than 10 MiB, else what is
// asked for, rounded up to 2 MiB.
TEST_F(GrowingSegments, FirstTakeWhatOrdinaryOnesDo) {
  (void)allocate(1000);
  EXPECT_EQ(reserved(), mib(2));
  (void)allocate(3 * kMiB);
  EXPECT_EQ(reserved(), mib(22));
  (void)allocate(31 * kMiB, 1);
  EXPECT_EQ(reserved(), mib(54));
  EXPECT_EQ(device_.segments(), 0U) << "all of it is in ranges";
  EXPECT_EQ(device_.ranges(), 3U);
  EXPECT_EQ(device_.chunks(), 3U);
}

TEST_F(GrowingSegments, OnlyWhatIsMissingIsAdded) {
  std::byte* const first = allocate(30 * kMiB);
  free(first);
  std::byte* const larger = allocate(50 * kMiB);
  EXPECT_EQ(larger, first) << "it begins where the free block did";
  EXPECT_EQ(reserved(), mib(50));
  // The remainder of a block is always one of its own, of which nothing counts as split.
  free(larger);
  (void)allocate(50 * kMiB - 512);
  std::byte* const rest = allocate(20 * kMiB);
  EXPECT_EQ(rest, first + 50 * kMiB - 512);
  const auto counters = allocator_.counters();
  EXPECT_EQ(counters.inactive_split.all.current, 0);
  EXPECT_EQ(counters.segment.all.current, 1);
  EXPECT_EQ(counters.num_device_alloc, 3);
}

TEST_F(GrowingSegments, BlocksThatCannotGrowAreTakenFirst) {
  std::byte* const a = allocate(12 * kMiB);
  std::byte* const b = allocate(12 * kMiB);
  std::byte* const c = allocate(12 * kMiB);
  ASSERT_EQ(c, a + 24 * kMiB);
  free(a);
  free(c);  // smaller than a's by nothing, and at the end
  EXPECT_EQ(allocate(11 * kMiB), a);
  EXPECT_EQ(allocate(30 * kMiB), c) << "the end has grown";
  (void)b;
}

TEST_F(GrowingSegments, WholeChunksGoBackFromAnywhere) {
  std::vector<std::byte*> blocks(4);
  for (std::byte*& block : blocks) block = allocate(20 * kMiB);
  EXPECT_EQ(device_.chunks(), 4U);
  free(blocks[1]);
  free(blocks[3]);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(reserved(), mib(40));
  EXPECT_EQ(device_.chunks(), 2U);
  EXPECT_EQ(allocator_.counters().segment.all.current, 2) << "two pieces with a gap between them";
  const auto pieces = allocator_.snapshot();
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_TRUE(pieces[0].grows);
  EXPECT_EQ(pieces[1].address, reinterpret_cast<std::uintptr_t>(blocks[2]));
  // The lowest addresses that are enough are used again.
  EXPECT_EQ(allocate(20 * kMiB), blocks[1]);
  EXPECT_EQ(allocator_.counters().segment.all.current, 1);
  EXPECT_EQ(allocator_.snapshot().size(), 1U);
}

TEST_F(GrowingSegments, AChunkThatIsPartlyInUseStays) {
  std::byte* const a = allocate(20 * kMiB);
  std::byte* const b = allocate(20 * kMiB);
  free(a);
  std::byte* const small = allocate(11 * kMiB);  // of a's chunk
  ASSERT_EQ(small, a);
  free(b);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(reserved(), mib(20));
  free(small);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(device_.ranges(), 0U) << "the addresses went, too";
}

TEST_F(GrowingSegments, OnlyTheirOwnStreamIsWaitedFor) {
  free(allocate(20 * kMiB, 1));
  free(allocate(20 * kMiB, 2));
  std::byte* const kept = allocate(20 * kMiB, 3);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.synchronized(stream_handle(1)), 1);
  EXPECT_EQ(device_.synchronized(stream_handle(2)), 1);
  EXPECT_EQ(device_.synchronized(stream_handle(3)), 0);
  EXPECT_EQ(device_.devices_synchronized(), 0);
  device_.destroy(stream_handle(3));
  free(kept);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.devices_synchronized(), 1) << "of a stream that is no more";
  EXPECT_EQ(device_.chunks(), 0U);
}

TEST_F(GrowingSegments, OtherStreamsChunksAreTakenBackBeforeAnError) {
  std::byte* const mine = allocate(20 * kMiB, 1);
  std::byte* const theirs = allocate(20 * kMiB, 1);
  free(allocate(900 * kMiB, 1));
  std::byte* const large = allocate(960 * kMiB, 2);
  EXPECT_EQ(reserved(), mib(1000));
  EXPECT_EQ(allocator_.counters().num_ooms, 0);
  EXPECT_EQ(allocator_.counters().num_alloc_retries, 1);
  for (std::byte* block : {mine, theirs, large}) free(block);
}

TEST_F(GrowingSegments, MemoryOfPoolsThatAreNeededStays) {
  memory::Pool* const pool = allocator_.make_pool();
  free(allocate(20 * kMiB, 0, pool));
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(reserved(), mib(20));
  EXPECT_THROW((void)allocate(1010 * kMiB), OutOfMemoryError);
  EXPECT_EQ(reserved(), mib(20));
  allocator_.release_pool(pool);
  ASSERT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.ranges(), 0U);
}

// What a graph used is free once it is captured, and its replays use it again.
TEST_F(GrowingSegments, MemoryOfPoolsOfGraphsStays) {
  for (const memory::Settings* settings : {&growing_settings(), &memory::default_settings()}) {
    allocator_.apply(*settings);
    const cuda::MemPoolId id{0, 77};
    free(allocate(20 * kMiB, 0, allocator_.retain_for_graph(id)));
    ASSERT_TRUE(allocator_.empty_cache(id).ok());
    EXPECT_THROW((void)allocate(1010 * kMiB), OutOfMemoryError);
    EXPECT_EQ(reserved(), mib(20));
    const int waits = device_.devices_synchronized();
    EXPECT_TRUE(allocator_.release_pool(id));
    ASSERT_TRUE(allocator_.empty_cache().ok());
    EXPECT_EQ(reserved(), 0);
    if (settings->expandable_segments) {
      EXPECT_EQ(device_.devices_synchronized(), waits + 1) << "replays may be on any stream";
    }
  }
}

TEST_F(GrowingSegments, AreNewSegmentsOnly) {
  CachingAllocator allocator(0, device_);
  void* const first = allocator.allocate(3 * kMiB, nullptr).address;
  EXPECT_EQ(device_.segments(), 1U);
  allocator.apply(growing_settings());
  void* const second = allocator.allocate(3 * kMiB, nullptr).address;
  EXPECT_EQ(second, static_cast<std::byte*>(first) + 3 * kMiB) << "what is free there is used";
  void* const third = allocator.allocate(15 * kMiB, nullptr).address;
  EXPECT_EQ(device_.segments(), 1U);
  EXPECT_EQ(device_.chunks(), 1U);
  allocator.apply(memory::default_settings());
  void* const fourth = allocator.allocate(30 * kMiB, nullptr).address;
  EXPECT_EQ(device_.segments(), 2U);
  for (void* pointer : {first, second, third, fourth}) EXPECT_TRUE(allocator.free(pointer));
  EXPECT_TRUE(allocator.empty_cache().ok());
  EXPECT_EQ(device_.bytes_held(), 0U);
}

TEST_F(GrowingSegments, PoolsThatDoNotSplitHaveOrdinaryOnes) {
  memory::Pool* const pool = allocator_.make_pool({.no_split = true});
  (void)allocate(3 * kMiB, 0, pool);
  EXPECT_EQ(device_.segments(), 1U);
  EXPECT_EQ(reserved(), mib(3));
}

TEST_F(GrowingSegments, WithoutAddressesThereAreOrdinaryOnes) {
  device_.limit_ranges(1);
  (void)allocate(3 * kMiB, 1);
  (void)allocate(3 * kMiB, 2);
  EXPECT_EQ(device_.chunks(), 1U);
  EXPECT_EQ(device_.segments(), 1U);
}

TEST_F(GrowingSegments, KeepToTheLimit) {
  allocator_.set_limit(50 * kMiB);
  std::byte* const first = allocate(30 * kMiB);
  EXPECT_THROW((void)allocate(30 * kMiB), OutOfMemoryError);
  EXPECT_EQ(reserved(), mib(30));
  free(first);
  (void)allocate(50 * kMiB);
  EXPECT_EQ(reserved(), mib(50));
}

// A chunk is as large as an ordinary segment, or an eighth of what there is: less is enough.
TEST_F(GrowingSegments, TakeWhatIsLeftOfTheLimit) {
  allocator_.set_limit(165 * kMiB);
  (void)allocate(150 * kMiB);
  (void)allocate(10 * kMiB);
  EXPECT_EQ(reserved(), mib(160));
  (void)allocate(3 * kMiB);  // 20 would be a chunk
  EXPECT_EQ(reserved(), mib(164));
  try {
    (void)allocate(9 * kMiB);
    ADD_FAILURE() << "1 MiB is left";
  } catch (const OutOfMemoryError& error) {
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->segment, 10 * kMiB);
    EXPECT_EQ(error.report()->verdict, cuda::OutOfMemoryVerdict::over_limit);
    allocator_.set_limit(165 * kMiB + error.report()->verdict_bytes);
  }
  EXPECT_NE(allocate(9 * kMiB), nullptr);
}

TEST_F(GrowingSegments, TakeWhatIsLeftOfTheDevice) {
  void* others = nullptr;
  ASSERT_TRUE(device_.obtain(860 * kMiB, others).ok());
  (void)allocate(150 * kMiB);
  (void)allocate(10 * kMiB);  // an eighth would be 18
  (void)allocate(kMiB + 1);   // 4 are left
  EXPECT_EQ(reserved(), mib(162));
  EXPECT_EQ(allocator_.counters().num_alloc_retries, 0);
}

// The oldest free chunks go when the threshold is passed.
TEST_F(GrowingSegments, AreCollectedAsGarbage) {
  memory::Settings settings = growing_settings();
  settings.garbage_collection_threshold = 0.5;
  allocator_.apply(settings);
  allocator_.set_limit(100 * kMiB);
  std::byte* const a = allocate(20 * kMiB);
  std::byte* const b = allocate(20 * kMiB);
  std::byte* const c = allocate(20 * kMiB, 1);
  free(a);
  (void)allocate(20 * kMiB, 2);
  EXPECT_EQ(reserved(), mib(60)) << "80 MiB were more than half of the limit";
  EXPECT_EQ(allocate(20 * kMiB), a);
  (void)b, (void)c;
  allocator_.apply(growing_settings());
}

TEST_F(GrowingSegments, AResetTakesThem) {
  std::byte* const first = allocate(20 * kMiB);
  device_.reset(0);
  EXPECT_EQ(reserved(), 0);
  EXPECT_FALSE(allocator_.free(first));
  EXPECT_TRUE(allocator_.snapshot().empty());
  std::byte* const second = allocate(20 * kMiB);
  EXPECT_EQ(reserved(), mib(20));
  free(second);
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(device_.ranges(), 0U);
}

}  // namespace
}  // namespace ember::test
