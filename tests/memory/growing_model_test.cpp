// Segments that grow, against a simple model: what is in use, by whom, and what the device gave. It
// does not say which address an allocation gets, only what must hold of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "tests/memory/fake_source.h"
#include "tests/memory/operations.h"

namespace ember::test {
namespace {

class Growing {
 public:
  Growing(std::size_t capacity, unsigned seed)
      : device_(capacity), allocator_(0, device_), random_(seed) {
    allocator_.apply(growing_settings());
    for (int i = 0; i < 2; ++i) pools_.push_back(allocator_.make_pool());
  }

  void step() {
    const unsigned dice = random_() % 1000;
    if (dice < 460)
      allocate();
    else if (dice < 880)
      free_one();
    else if (dice < 930)
      record();
    else if (dice < 975)
      complete(random_() % kStreams);
    else if (dice < 980)
      change_limit();
    else if (dice < 990)
      empty();
    else if (dice < 998)
      // Segments that are there stay as they are.
      allocator_.apply(random_() % 4 == 0 ? memory::default_settings() : growing_settings());
    else
      reset();
  }

  void finish() {
    while (!live_.empty()) free_one();
    for (std::uintptr_t stream = 0; stream < kStreams; ++stream) complete(stream);
    for (memory::Pool* pool : pools_) allocator_.release_pool(pool);
    pools_.clear();  // which go with their last memory
    empty();
    check();
    EXPECT_EQ(device_.bytes_held(), 0U);
    EXPECT_EQ(device_.chunks(), 0U);
    EXPECT_EQ(device_.segments(), 0U);
    EXPECT_EQ(device_.ranges(), 0U);
    const cuda::MemoryCounters counters = allocator_.counters();
    EXPECT_EQ(counters.segment.all.current, 0);
    EXPECT_EQ(counters.active.all.current, 0);
  }

  /// Blocks tile what the device gave, and the counters are exact.
  void check() {
    const std::vector<memory::SegmentView> segments = allocator_.snapshot();
    std::size_t reserved = 0, in_use = 0, waiting = 0, requested = 0, blocks = 0, split = 0;
    std::uintptr_t behind = 0;
    for (const memory::SegmentView& segment : segments) {
      ASSERT_GE(segment.address, behind);
      ASSERT_FALSE(segment.grows && segment.address == behind) << "two pieces without a gap";
      std::uintptr_t next = segment.address;
      bool free_before = false;
      for (const memory::SegmentView::BlockView& block : segment.blocks) {
        ASSERT_EQ(block.address, next);
        next += block.size;
        const bool is_free = block.state == memory::Block::free;
        ASSERT_FALSE(is_free && free_before) << "free neighbours";
        free_before = is_free;
        if (is_free) {
          if (!segment.grows && block.size != segment.size) split += block.size;
          continue;
        }
        const auto live = live_.find(block.address);
        if (block.state == memory::Block::parked) {
          ASSERT_EQ(live, live_.end());
          ASSERT_TRUE(waiting_.contains(block.address));
          waiting += block.size;
        } else {
          ASSERT_NE(live, live_.end());
          ASSERT_EQ(block.size, live->second.size) << "the rest of a block is one of its own";
          in_use += block.size;
          ++blocks;
        }
        requested += block.requested;
      }
      ASSERT_EQ(next, segment.address + segment.size);
      behind = next;
      reserved += segment.size;
    }
    ASSERT_EQ(blocks, live_.size());
    ASSERT_EQ(reserved, device_.bytes_held());
    const cuda::MemoryCounters counters = allocator_.counters();
    ASSERT_EQ(counters.reserved_bytes.all.current, static_cast<std::int64_t>(reserved));
    ASSERT_EQ(counters.segment.all.current, static_cast<std::int64_t>(segments.size()));
    ASSERT_EQ(counters.allocation.all.current, static_cast<std::int64_t>(blocks));
    ASSERT_EQ(counters.allocated_bytes.all.current, static_cast<std::int64_t>(in_use));
    ASSERT_EQ(counters.active_bytes.all.current, static_cast<std::int64_t>(in_use + waiting));
    ASSERT_EQ(counters.requested_bytes.all.current, static_cast<std::int64_t>(requested));
    ASSERT_EQ(counters.inactive_split_bytes.all.current, static_cast<std::int64_t>(split))
        << "segments that grow are not counted there";
  }
  int out_of_memory() const { return ooms_; }

 private:
  static constexpr unsigned kStreams = 4;
  struct Live {
    std::size_t size = 0;
    std::uintptr_t stream = 0;
    memory::Pool* pool = nullptr;
    std::set<std::uintptr_t> used_on;
  };

  std::size_t random_size() {
    switch (random_() % 8) {
      case 0: return 1 + random_() % (40 * kMiB);
      case 1: return 1 + random_() % (12 * kMiB);
      case 2: return std::size_t{512} << (random_() % 16);
      default: return 1 + random_() % (2 * kMiB);
    }
  }

  void allocate() {
    const std::size_t bytes = random_size();
    const std::uintptr_t stream = random_() % kStreams;
    memory::Pool* const pool = random_() % 4 == 0 ? pools_[random_() % pools_.size()] : nullptr;
    memory::BlockUse use;
    try {
      use = allocator_.allocate(bytes, stream_handle(stream).native, pool);
    } catch (const OutOfMemoryError&) {
      ++ooms_;
      note_waits();
      expect_nothing_to_give_back();
      for (int i = 0; i < 20 && !live_.empty(); ++i) free_one();
      return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(use.address);
    ASSERT_EQ(address % 512, 0U);
    // In an ordinary segment the rest of a block may be too small to be one.
    const std::size_t size = use.block->size;
    ASSERT_GE(size, bytes);
    // Nobody else has any of it, nor has work in progress there.
    for (const auto& [start, other] : live_)
      ASSERT_TRUE(start + other.size <= address || address + size <= start);
    note_waits();
    for (const auto& [start, other] : waiting_) {
      if (other.used_on.empty()) continue;
      ASSERT_TRUE(start + other.size <= address || address + size <= start) << "used too early";
    }
    // Memory of its stream and pool only.
    const auto key = std::pair(stream, pool);
    for (const auto& [start, other] : live_)
      if (start / (2 * kMiB) == address / (2 * kMiB)) {
        ASSERT_EQ(std::pair(other.stream, other.pool), key);
      }
    live_[address] = {size, stream, pool, {}};
  }

  // After everything was tried: no whole chunk of everybody's pool is free.
  void expect_nothing_to_give_back() {
    for (const memory::SegmentView& segment : allocator_.snapshot()) {
      if (segment.pool != cuda::MemPoolId()) continue;
      for (const memory::SegmentView::BlockView& block : segment.blocks) {
        if (block.state != memory::Block::free) continue;
        ASSERT_FALSE(segment.grows ? device_.any_chunk_within(block.address, block.size)
                                   : block.size == segment.size);
      }
    }
  }

  void free_one() {
    if (live_.empty()) return;
    auto chosen = live_.lower_bound(random_() % 2 == 0 ? 0 : last_);
    if (chosen == live_.end()) chosen = live_.begin();
    std::advance(chosen, std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(random_() % 8),
                                                  std::distance(chosen, std::prev(live_.end()))));
    last_ = chosen->first;
    if (!chosen->second.used_on.empty()) {
      waiting_.insert_or_assign(chosen->first, chosen->second);
    }
    ASSERT_TRUE(allocator_.free(reinterpret_cast<void*>(chosen->first)));
    live_.erase(chosen);
  }

  void record() {
    if (live_.empty()) return;
    auto chosen = live_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_() % live_.size()));
    const std::uintptr_t stream = random_() % kStreams;
    const std::size_t offset = random_() % chosen->second.size;
    ASSERT_TRUE(allocator_.record_stream(reinterpret_cast<void*>(chosen->first + offset),
                                         handle_of(stream)));
    if (stream != chosen->second.stream) chosen->second.used_on.insert(stream);
  }

  driver::StreamHandle handle_of(std::uintptr_t stream) {
    return {stream_handle(stream).native, 0, device_.device_epoch(0)};
  }
  void complete(std::uintptr_t stream) {
    device_.complete(stream_handle(stream));
    for (auto& [address, block] : waiting_) block.used_on.erase(stream);
  }
  /// Under pressure all streams are waited for.
  void note_waits() {
    const std::int64_t syncs = allocator_.counters().num_sync_all_streams;
    if (std::exchange(syncs_, syncs) != syncs) waiting_.clear();
  }

  void empty() {
    ASSERT_TRUE(allocator_.empty_cache().ok());
    expect_nothing_to_give_back();
    for (memory::Pool* pool : pools_)
      if (random_() % 2 == 0) {
        ASSERT_TRUE(allocator_.empty_cache(pool->id).ok());
      }
    note_waits();
  }

  void change_limit() {
    limited_ = !limited_;
    allocator_.set_limit(limited_ ? (64 + random_() % 128) * kMiB : CachingAllocator::kNoLimit);
  }

  void reset() {
    device_.reset(0);
    live_.clear();
    waiting_.clear();
  }

  FakeDevice device_;
  CachingAllocator allocator_;
  std::mt19937_64 random_;
  std::vector<memory::Pool*> pools_;
  std::map<std::uintptr_t, Live> live_;
  std::map<std::uintptr_t, Live> waiting_;  // freed; on which streams work may still use it
  std::uintptr_t last_ = 0;
  std::int64_t syncs_ = 0;
  bool limited_ = false;
  int ooms_ = 0;
};

TEST(GrowingModel, RandomOperations) {
  int ooms = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    Growing model(seed % 2 == 0 ? 512 * kMiB : 160 * kMiB, seed);
    for (int i = 0; i < operations() / 100; ++i) {
      model.step();
      if (i % 16 == 0) model.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
    model.finish();
    ooms += model.out_of_memory();
  }
  EXPECT_GT(ooms, 20) << "the test no longer reaches the out-of-memory path";
}

// Threads that grow, free and trim at once: every growth claims its own addresses.
TEST(GrowingModel, EightThreadsAtOnce) {
  FakeDevice device(512 * kMiB);
  {
    CachingAllocator allocator(0, device);
    allocator.apply(growing_settings());
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 8; ++thread)
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(thread);
        std::vector<memory::BlockUse> live;
        for (int i = 0; i < 4000; ++i) {
          if (random() % 2 == 0 || live.empty()) {
            try {
              const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 24 * kMiB : 3 * kMiB);
              live.push_back(allocator.allocate(bytes, stream_handle(thread % 2).native));
            } catch (const OutOfMemoryError&) {
              for (const memory::BlockUse& use : live)
                ASSERT_TRUE(allocator.free(use.block, use.address, use.serial));
              live.clear();
            }
          } else {
            std::swap(live[random() % live.size()], live.back());
            const memory::BlockUse use = live.back();
            live.pop_back();
            ASSERT_TRUE(allocator.free(use.block, use.address, use.serial));
          }
          if (random() % 512 == 0) {
            ASSERT_TRUE(allocator.empty_cache().ok());
          }
        }
        for (const memory::BlockUse& use : live)
          ASSERT_TRUE(allocator.free(use.block, use.address, use.serial));
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(allocator.empty_cache().ok());
    EXPECT_EQ(allocator.counters().active.all.current, 0);
    EXPECT_EQ(allocator.counters().reserved_bytes.all.current, 0);
    EXPECT_EQ(device.chunks(), 0U);
    EXPECT_EQ(device.ranges(), 0U);
  }
}

}  // namespace
}  // namespace ember::test
