// The allocator's data structures against the standard library's.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/memory/block.h"
#include "ember/memory/block_map.h"
#include "ember/memory/caching.h"
#include "ember/memory/free_list.h"
#include "ember/memory/shards.h"
#include "tests/memory/fake_source.h"

namespace ember::memory {
namespace {

TEST(FreeList, FindsWhatAnOrderedSetFinds) {
  std::mt19937_64 random(1);
  FreeList list;
  BlockPool pool;
  std::set<std::pair<std::size_t, Block*>> model;  // ordered by address through position below
  const auto order = [](const Block* a, const Block* b) {
    return std::pair(a->size, a->position()) < std::pair(b->size, b->position());
  };
  std::set<Block*, decltype(order)> blocks(order);
  std::size_t bytes = 0;
  const auto random_size = [&]() -> std::size_t {
    switch (random() % 4) {
      case 0: return 512 * (1 + random() % 8);    // many equal ones
      case 1: return 512 * (1 + random() % 256);  // on both sides of 64 KiB
      case 2: return 512 * (1 + random() % (1 << 16));
      default: return std::size_t{512} << (random() % 45);  // up to 16 PiB
    }
  };
  for (int i = 0; i < 300'000; ++i) {
    if (blocks.size() < 10 || (random() % 2 == 0 && blocks.size() < 500)) {
      Block* block = pool.take();
      block->set((random() % (std::uint64_t{1} << 38)) * 512 + 512, Block::free);
      block->size = random_size();
      if (!blocks.insert(block).second) {
        pool.give_back(block);
        continue;
      }
      list.insert(block);
      bytes += block->size;
    } else {
      auto victim = blocks.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random() % blocks.size()));
      Block* block = *victim;
      blocks.erase(victim);
      list.remove(block);
      bytes -= block->size;
      pool.give_back(block);
    }
    Block key;
    key.size = random_size();
    const auto best = blocks.lower_bound(&key);
    ASSERT_EQ(list.best_fit(key.size), best == blocks.end() ? nullptr : *best) << i;
    ASSERT_EQ(list.largest() != nullptr ? list.largest()->size : 0, (*blocks.rbegin())->size);
    ASSERT_EQ(list.bytes(), bytes);
  }
  std::vector<Block*> visited;
  list.for_each([&](Block* block) { visited.push_back(block); });
  EXPECT_EQ(visited, std::vector<Block*>(blocks.begin(), blocks.end()));
}

TEST(FreeList, EmptyHasNothing) {
  FreeList list;
  EXPECT_EQ(list.best_fit(512), nullptr);
  EXPECT_EQ(list.best_fit(std::size_t{1} << 59), nullptr);
  EXPECT_EQ(list.largest(), nullptr);
}

TEST(BlockMap, FindsWhatAnUnorderedMapFinds) {
  std::mt19937_64 random(2);
  BlockMap map;
  BlockPool pool;
  std::unordered_map<std::uintptr_t, Block*> model;
  const auto position = [&] { return 512 + 512 * (random() % 4096); };  // dense: many collisions
  for (int i = 0; i < 500'000; ++i) {
    const std::uintptr_t where = position();
    if (const auto found = model.find(where); found != model.end()) {
      map.erase(found->second);
      pool.give_back(found->second);
      model.erase(found);
    } else {
      Block* block = pool.take();
      block->set(where, Block::free);
      map.insert(block);
      model[where] = block;
    }
    const std::uintptr_t probe = position();
    const auto found = model.find(probe);
    ASSERT_EQ(map.find(probe), found != model.end() ? found->second : nullptr);
    ASSERT_EQ(map.size(), model.size());
  }
}

// A reader beside a writer may miss a block, but what it can claim is what it asked for.
TEST(BlockMap, ReadersClaimOnlyWhatTheyAskedFor) {
  BlockMap map;
  BlockPool pool;
  constexpr std::uintptr_t kMine = 1 << 20;  // allocated all the time
  std::vector<Block*> mine;
  for (std::uintptr_t i = 0; i < 64; ++i) {
    mine.push_back(pool.take());
    mine.back()->set(kMine + i * 512, Block::allocated);
    map.insert(mine.back());
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(3);
    std::unordered_map<std::uintptr_t, Block*> others;
    while (!stop) {
      const std::uintptr_t where = 512 + 512 * (random() % 2000);
      if (Block*& block = others[where]; block != nullptr) {
        map.erase(block);
        pool.give_back(block);
        block = nullptr;
      } else {
        block = pool.take();
        block->set(where, Block::allocated);
        map.insert(block);
      }
    }
  });
  std::mt19937_64 random(4);
  int claimed = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::size_t which = random() % mine.size();
    const std::uintptr_t where = kMine + which * 512;
    if (Block* block = map.find(where); block != nullptr && block->claim(where)) {
      ASSERT_EQ(block, mine[which]);
      ASSERT_FALSE(block->claim(where));
      block->set(Block::allocated);
      ++claimed;
    }
  }
  stop = true;
  writer.join();
  EXPECT_GT(claimed, 100'000);
}

/// A segment of blocks in use, for shards alone.
class ShardsTest : public testing::Test {
 protected:
  ShardsTest() {
    segment_.pool = &pool_;
    segment_.small = true;
  }
  Block* block_in_hand(std::size_t size) {
    Block* block = records_.take();
    block->set(512 * ++count_, Block::claimed);
    block->size = size;
    block->requested = size;
    block->segment = &segment_;
    count(size);
    return block;
  }
  void count(std::size_t size) {
    const auto bytes = static_cast<std::int64_t>(size);
    stats_.apply(AllocEvent::Kind::allocated, true, {1, bytes, bytes});
  }
  Request request(std::size_t size) { return {size, size, nullptr, &pool_}; }

  CachingBackEnd back_end_;
  test::FakeDevice device_{kMiB};
  DeviceMemory memory_{device_};
  Pool pool_{{}, back_end_, memory_};
  Segment segment_;
  BlockPool records_;
  std::size_t count_ = 0;
  Stats stats_;
  EventStore store_;
  EventLog log_;
  Shards shards_{0, store_, log_};
};

TEST_F(ShardsTest, ClosedTheyKeepNothing) {
  EXPECT_FALSE(shards_.put(block_in_hand(512)));
  EXPECT_EQ(shards_.take(request(512)).block, nullptr);
  EXPECT_EQ(shards_.close(stats_), nullptr);
}

TEST_F(ShardsTest, WhatIsOfAPrivatePoolIsRefused) {
  shards_.contended();
  Block* block = block_in_hand(1024);
  segment_.sharable = false;
  EXPECT_FALSE(shards_.put(block));
  segment_.sharable = true;
  EXPECT_TRUE(shards_.put(block));
  EXPECT_NE(shards_.close(stats_), nullptr);
}

TEST_F(ShardsTest, AShardGivesExactlyWhatWasPutThere) {
  shards_.contended();
  Block* block = block_in_hand(1024);
  ASSERT_TRUE(shards_.put(block));
  EXPECT_EQ(shards_.take(request(512)).block, nullptr);
  Request other = request(1024);
  other.stream = this;
  EXPECT_EQ(shards_.take(other).block, nullptr);
  other = request(1024);
  other.pool = nullptr;
  EXPECT_EQ(shards_.take(other).block, nullptr);
  EXPECT_EQ(shards_.take(request(1024)).block, block);
  EXPECT_EQ(shards_.take(request(1024)).block, nullptr);
  shards_.settle(stats_);
  EXPECT_EQ(stats_.allocated(), 1024);
  EXPECT_EQ(stats_.max_allocated(), 1024);
}

TEST_F(ShardsTest, AreIdleWhenNobodyUsedThemBetweenTwoLooks) {
  EXPECT_FALSE(shards_.idle());  // they are closed
  shards_.contended();
  ASSERT_TRUE(shards_.put(block_in_hand(1024)));
  const auto look = [&] {
    shards_.settle(stats_);
    return shards_.idle();
  };
  EXPECT_FALSE(look());
  EXPECT_TRUE(look());
  Block* block = shards_.find(request(1024), Shards::Where::mine);
  ASSERT_TRUE(shards_.put(block));
  EXPECT_FALSE(look());
  EXPECT_NE(shards_.close(stats_), nullptr);
  EXPECT_FALSE(look());
}

TEST_F(ShardsTest, WithoutQuotaABlockIsCountedByTheLedger) {
  shards_.contended();
  Block* block = block_in_hand(1024);
  ASSERT_TRUE(shards_.put(block));
  shards_.settle(stats_);  // takes the quota back
  EXPECT_EQ(stats_.allocated(), 0);
  EXPECT_EQ(shards_.take(request(1024)).block, nullptr);
  EXPECT_EQ(shards_.find(request(1024), Shards::Where::mine), block);
  shards_.make_room(stats_, true, {1, 1024, 1024});
  count(1024);
  EXPECT_EQ(stats_.max_allocated(), 1024);
}

TEST_F(ShardsTest, AnotherThreadsBlocksAreFoundAndNoShardKeepsTooMuch) {
  shards_.contended();
  std::size_t kept = 0;
  while (shards_.put(block_in_hand(512))) ++kept;
  EXPECT_GT(kept, 100U);
  EXPECT_LT(kept, 10'000U);
  EXPECT_FALSE(shards_.put(block_in_hand(std::size_t{1} << 30)));
  // Threads get the shards in turn, so of two that start now one at least has another than this
  // one.
  std::size_t taken = 0;
  int others = 0;
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      if (shards_.find(request(512), Shards::Where::mine) == nullptr) {
        ++others;
        EXPECT_EQ(shards_.take(request(512)).block, nullptr);
        EXPECT_NE(shards_.find(request(512), Shards::Where::any), nullptr);
      }
      ++taken;
    }).join();
  }
  EXPECT_GE(others, 1);
  std::size_t closed = 0;
  for (Block* block = shards_.close(stats_); block != nullptr; block = block->link) ++closed;
  EXPECT_EQ(closed, kept - taken);
}

TEST_F(ShardsTest, AfterManyOperationsItIsTimeToClose) {
  shards_.contended();
  Block* block = block_in_hand(512);
  int operations = 0;
  for (; shards_.put(block); ++operations) ASSERT_EQ(shards_.take(request(512)).block, block);
  EXPECT_TRUE(shards_.expired());
  EXPECT_GT(operations, 1000);
  (void)shards_.close(stats_);
  EXPECT_FALSE(shards_.expired());
}

}  // namespace
}  // namespace ember::memory
