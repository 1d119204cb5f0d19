// Who learns that memory is gone, and of which.
#include "ember/memory/free_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ember/base/bytes.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

using memory::FreeWatch;
using memory::GoneMemory;
using Found = FreeWatch::Found;

constexpr cuda::MemPoolId kNoPool{0, 9999};

class FreeWatchTest : public testing::Test {
 protected:
  static std::uintptr_t number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }

  FakeDevice device_{64 * kMiB};
  CachingAllocator allocator_{0, device_};
};

TEST_F(FreeWatchTest, AFreeIsToldOnce) {
  FreeWatch watch;
  const memory::BlockUse use = allocator_.allocate(1000, nullptr);
  const memory::BlockUse other = allocator_.allocate(1000, nullptr);
  const auto* const inside = static_cast<const std::byte*>(use.address) + 700;
  EXPECT_EQ(allocator_.watch_free(inside, kNoPool, watch), Found::device);
  EXPECT_EQ(allocator_.watch_free(use.address, kNoPool, watch), Found::device) << "twice";
  EXPECT_TRUE(memory::any_free_watched());
  EXPECT_TRUE(allocator_.free(other.address));
  EXPECT_EQ(watch.count(), 0U);
  EXPECT_TRUE(allocator_.free(use.block, use.address, use.serial));
  ASSERT_EQ(watch.count(), 1U);
  const std::vector<GoneMemory> gone = watch.gone();
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].address, number(use.address));
  EXPECT_EQ(gone[0].bytes, 1000U);
  EXPECT_STREQ(gone[0].how, "freed");
  EXPECT_FALSE(memory::any_free_watched());

  // The same memory again is another allocation.
  const memory::BlockUse again = allocator_.allocate(1000, nullptr);
  EXPECT_EQ(again.address, use.address);
  EXPECT_TRUE(allocator_.free(again.address));
  EXPECT_EQ(watch.count(), 1U);
}

TEST_F(FreeWatchTest, ThePoolItselfIsLeftOut) {
  FreeWatch watch;
  memory::Pool* const pool = allocator_.make_pool();
  const memory::BlockUse use = allocator_.allocate(1000, nullptr, pool);
  EXPECT_EQ(allocator_.watch_free(use.address, pool->id, watch), Found::in_pool);
  EXPECT_TRUE(allocator_.free(use.address));
  EXPECT_EQ(watch.count(), 0U);
  EXPECT_EQ(allocator_.watch_free(use.address, pool->id, watch), Found::unknown) << "it is free";
  EXPECT_EQ(allocator_.watch_free(&watch, pool->id, watch), Found::unknown);
  allocator_.release_pool(pool);
}

TEST_F(FreeWatchTest, SeveralWatchOneBlockAndOneMayGo) {
  FreeWatch kept;
  auto gone = std::make_unique<FreeWatch>();
  const memory::BlockUse use = allocator_.allocate(1000, nullptr);
  EXPECT_EQ(allocator_.watch_free(use.address, kNoPool, kept), Found::device);
  EXPECT_EQ(allocator_.watch_free(use.address, kNoPool, *gone), Found::device);
  gone.reset();
  EXPECT_TRUE(allocator_.free(use.address));
  EXPECT_EQ(kept.count(), 1U);
}

TEST_F(FreeWatchTest, UsesOfOtherStreamsDoNotPutItOff) {
  FreeWatch watch;
  int stream = 0;
  const memory::BlockUse use = allocator_.allocate(1000, nullptr);
  EXPECT_EQ(allocator_.watch_free(use.address, kNoPool, watch), Found::device);
  EXPECT_TRUE(allocator_.record_stream(use.address, {&stream, 0, allocator_.device_epoch()}));
  EXPECT_TRUE(allocator_.free(use.address));
  EXPECT_EQ(watch.count(), 1U) << "its user has given it up, whatever streams still do";
}

TEST_F(FreeWatchTest, RangesThatOverlapAreGone) {
  FreeWatch watch;
  std::vector<char> memory(3000);
  watch.watch_range(memory.data(), 1000);
  watch.watch_range(memory.data() + 2000, 1000);
  memory::tell_gone({number(memory.data()) + 1000, 1000, "unregistered", 0});
  EXPECT_EQ(watch.count(), 0U) << "between the two";
  memory::tell_gone({number(memory.data()) + 999, 1002, "unregistered", 0});
  EXPECT_EQ(watch.count(), 2U) << "the last byte of one and the first of the other";
}

TEST_F(FreeWatchTest, KeepsSomeOfManyAndCountsAll) {
  FreeWatch watch;
  for (int i = 0; i < 100; ++i) {
    const memory::BlockUse use = allocator_.allocate(1000, nullptr);
    EXPECT_EQ(allocator_.watch_free(use.address, kNoPool, watch), Found::device);
    EXPECT_TRUE(allocator_.free(use.address));
  }
  EXPECT_EQ(watch.count(), 100U);
  EXPECT_EQ(watch.gone().size(), 64U);
}

}  // namespace
}  // namespace ember::test
