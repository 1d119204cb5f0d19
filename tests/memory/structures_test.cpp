// The allocator's data structures against the standard library's.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ember/memory/block.h"
#include "ember/memory/block_map.h"
#include "ember/memory/free_list.h"
#include "ember/memory/thread_caches.h"

namespace ember::memory {
namespace {

TEST(FreeList, FindsWhatAnOrderedSetFinds) {
  std::mt19937_64 random(1);
  FreeList list(nullptr, true);
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
  FreeList list(nullptr, false);
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

class NoHome final : public ThreadCacheHome {
  void retire(ThreadCache&) noexcept override {}
};

TEST(ThreadCaches, NoCacheTakesMoreThanItMayKeep) {
  NoHome home;
  ThreadCaches caches(home);
  Stats stats;
  BlockPool pool;
  const auto fill = [&](std::size_t size, std::size_t most) {  // the calling thread's
    std::size_t count = 0;
    for (; count < most; ++count) {
      Block* block = pool.take();
      block->set(512 * (count + 1), Block::cached);
      block->size = size;
      const ThreadCache::Put put = caches.mine()->put(block);
      if (put == ThreadCache::Put::full) break;
      EXPECT_EQ(put, ThreadCache::Put::kept);
    }
    return count;
  };
  caches.join();
  const std::size_t limit = fill(512, 100'000);
  ASSERT_LT(limit, 100'000U);
  std::thread([&] {
    caches.join();
    ThreadCache& mine = *caches.mine();
    EXPECT_EQ(fill(1024, limit - 10), limit - 10);
    while (caches.steal_for(mine, nullptr, 512)) {
    }
    EXPECT_EQ(fill(1024, 1), 0U);
    std::size_t kept = 0;
    for (Block* block = caches.drain(mine, stats, true); block != nullptr; block = block->link)
      ++kept;
    EXPECT_EQ(kept, limit);
  }).join();
  (void)caches.drain(stats);
}

}  // namespace
}  // namespace ember::memory
