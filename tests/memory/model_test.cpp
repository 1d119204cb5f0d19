// The allocator against the reference model: the same operations must give the same addresses, the
// same blocks and the same counters.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/pools.h"
#include "tests/memory/fake_source.h"
#include "tests/memory/operations.h"
#include "tests/memory/reference_model.h"

namespace ember::test {
namespace {

/// One allocator, one model, and random operations on both.
class Pair {
 public:
  Pair(std::size_t capacity, unsigned seed)
      : device_(capacity), allocator_(0, device_), model_(capacity), random_(seed) {
    only_small_ = seed % 3 == 0;
  }

  void step() {
    const unsigned dice = random_() % 1000;
    if (dice < 440)
      allocate();
    else if (dice < 520)
      allocate_and_free();
    else if (dice < 880)
      free_one();
    else if (dice < 950)
      record();
    else if (dice < 980)
      complete(random_() % kStreams);
    else if (dice < 992)
      change_pools();
    else if (dice < 995)
      change_limit();
    else if (dice < 997)
      empty();
    else
      reset_peaks();
  }

  /// Everything freed, everything given back: nothing is left.
  void finish() {
    while (!live_.empty()) free_one();
    for (auto& [thread, scopes] : scopes_)
      while (!scopes.empty()) leave(scopes);
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) release_pool(pool);
    change_limit();
    empty();
    compare();
    EXPECT_EQ(device_.segments(), 0U);
    EXPECT_EQ(allocator_.counters().active_bytes.all.current, 0);
  }

  void compare() {
    compare_counters();
    compare_blocks();
  }
  int out_of_memory() const { return ooms_; }

 private:
  static constexpr unsigned kStreams = 4;

  std::size_t random_size() {
    if (only_small_) return 1 + random_() % (random_() % 8 == 0 ? kMiB : 4096);
    switch (random_() % 16) {
      case 0: return 1 + random_() % (30 * kMiB);
      case 1: return 1 + random_() % (12 * kMiB);
      case 2: return 1 + random_() % (2 * kMiB);
      case 3: return std::size_t{512} << (random_() % 16);
      case 4:
      case 5: return 1 + random_() % kMiB;
      default: return 1 + random_() % 8192;
    }
  }

  void allocate() { allocate(random_size(), random_() % kStreams); }
  void allocate(std::size_t bytes, std::uintptr_t stream) {
    const auto& scopes = scopes_[std::this_thread::get_id()];
    std::optional<cuda::CachingAllocatorDisabled> disabled;
    if (random_() % 32 == 0) disabled.emplace();
    const std::size_t pool = disabled         ? ReferenceModel::kUncached
                             : scopes.empty() ? ReferenceModel::kEverybodys
                                              : model_number(scopes.back().pool);
    const auto expected = model_.allocate(bytes, stream * 64, pool);
    try {
      const memory::Block* block = allocator_.allocate(bytes, stream_handle(stream).native).block;
      ASSERT_TRUE(expected.has_value()) << "the model is out of memory for " << bytes;
      ASSERT_EQ(block->position(), *expected) << bytes << " bytes on stream " << stream;
      live_.push_back(*expected);
    } catch (const OutOfMemoryError& error) {
      ASSERT_FALSE(expected.has_value()) << error.what();
      ++ooms_;
      // Some room again, lest the rest of the test be nothing but failures.
      for (int i = 0; i < 20 && !live_.empty(); ++i) free_one();
    }
  }

  /// Once, or over and over again with the same size.
  void allocate_and_free() {
    const std::size_t bytes = random_size();
    const std::uintptr_t stream = random_() % kStreams;
    for (unsigned times = 1 + random_() % 3; times > 0; --times) {
      const std::size_t before = live_.size();
      allocate(random_() % 4 == 0 ? random_size() : bytes, stream);
      if (live_.size() != before + 1) return;
      if (random_() % 8 == 0) record();
      if (random_() % 8 == 0) complete(random_() % kStreams);
      free_at(live_.size() - 1);
    }
  }

  void free_one() {
    if (!live_.empty()) free_at(random_() % live_.size());
  }

  void free_at(std::size_t index) {
    std::swap(live_[index], live_.back());
    const std::uintptr_t address = live_.back();
    live_.pop_back();
    model_.free(address);
    ASSERT_TRUE(allocator_.free(reinterpret_cast<void*>(address)));
  }

  void record() {
    if (live_.empty()) return;
    const std::uintptr_t address = live_[random_() % live_.size()];
    const std::uintptr_t stream = random_() % kStreams;
    const std::size_t offset = random_() % model_.blocks.at(address).size;  // a view
    model_.record_stream(address, stream * 64);
    ASSERT_TRUE(
        allocator_.record_stream(reinterpret_cast<void*>(address + offset), stream_handle(stream)));
  }

  void complete(std::uintptr_t stream) {
    model_.complete(stream * 64);
    device_.complete(stream_handle(stream));
  }

  // ---- Pools: their own list of what the model numbers from 2 on

  struct PoolPair {
    memory::Pool* made = nullptr;  // null once it was released
    cuda::MemPoolId id;
  };
  /// What a thread is in: the last one counts.
  struct Scope {
    std::size_t pool = 0;
    std::uint64_t route = 0;
  };
  static std::size_t model_number(std::size_t pool) { return pool + 2; }

  void change_pools() {
    auto& scopes = scopes_[std::this_thread::get_id()];
    const std::size_t any = pools_.empty() ? 0 : random_() % pools_.size();
    switch (random_() % 8) {
      case 0: return make_pool();
      case 1:
        if (!pools_.empty() && random_() % 4 == 0) release_pool(any);
        return;
      case 2: return empty_pool(any);
      case 3:
      case 4:
        if (!scopes.empty()) leave(scopes);
        return;
      default:
        if (pools_.empty() || pools_[any].made == nullptr || scopes.size() > 3) return make_pool();
        scopes.push_back({any, allocator_.route(pools_[any].made)});
    }
  }
  void make_pool() {
    if (pools_.size() > 30) return;
    const memory::Pool::Options options{random_() % 4 == 0, random_() % 4 == 0};
    memory::Pool* const made = allocator_.make_pool(options);
    pools_.push_back({made, made->id});
    model_.pools.push_back({options.use_on_oom, options.no_split});
  }
  /// What is in use stays, and so does what a scope leads to.
  void release_pool(std::size_t pool) {
    if (pools_[pool].made == nullptr) return;
    allocator_.release_pool(std::exchange(pools_[pool].made, nullptr));
    model_.pools[model_number(pool)].users = 0;
  }
  void empty_pool(std::size_t pool) {
    if (pools_.empty()) return;
    model_.give_back(model_number(pool));
    ASSERT_TRUE(allocator_.empty_cache(pools_[pool].id).ok());
  }
  void leave(std::vector<Scope>& scopes) {
    allocator_.end_route(scopes.back().route);
    scopes.pop_back();
  }

  void change_limit() {
    if (model_.limit) {
      model_.limit.reset();
      allocator_.set_limit(CachingAllocator::kNoLimit);
    } else {
      model_.limit = random_() % (256 * kMiB);
      allocator_.set_limit(*model_.limit);
    }
  }

  void empty() {
    model_.give_back();
    ASSERT_TRUE(allocator_.empty_cache().ok());
  }

  void reset_peaks() {
    model_.reset_peaks();
    allocator_.reset_peaks();
  }

  void compare_counters() {
    const cuda::MemoryCounters expected = model_.counted();
    cuda::MemoryCounters counters = allocator_.counters();
    const auto only_current = [](cuda::PoolCounters& group) {
      for (auto* counter : {&group.all, &group.small_pool, &group.large_pool})
        counter->peak = counter->allocated = counter->current, counter->freed = 0;
    };
    only_current(counters.inactive_split);
    only_current(counters.inactive_split_bytes);
    ASSERT_EQ(counters, expected);
    ASSERT_EQ(allocator_.allocated(), expected.allocated_bytes.all.current);
    ASSERT_EQ(allocator_.reserved(), expected.reserved_bytes.all.current);
  }

  void compare_blocks() {
    const auto segments = allocator_.snapshot();
    ASSERT_EQ(segments.size(), model_.segments.size());
    auto expected = model_.blocks.begin();
    for (const auto& segment : segments) {
      ASSERT_EQ(segment.size, model_.segments.at(segment.address));
      const std::size_t pool = model_.blocks.at(segment.address).pool;
      ASSERT_EQ(segment.pool, pool < 2 ? cuda::MemPoolId() : pools_[pool - 2].id);
      std::uintptr_t next = segment.address;  // blocks tile their segments
      for (const auto& block : segment.blocks) {
        ASSERT_EQ(block.address, next);
        ASSERT_EQ(block.address, expected->first);
        ASSERT_EQ(block.size, expected->second.size);
        const auto state = block.state == memory::Block::free     ? ReferenceModel::State::free
                           : block.state == memory::Block::parked ? ReferenceModel::State::waiting
                                                                  : ReferenceModel::State::in_use;
        ASSERT_EQ(state, expected->second.state);
        if (state == ReferenceModel::State::in_use) {
          ASSERT_EQ(block.requested, expected->second.requested);
        }
        next += block.size;
        ++expected;
      }
      ASSERT_EQ(next, segment.address + segment.size);
    }
    ASSERT_EQ(expected, model_.blocks.end());
  }

  FakeDevice device_;
  CachingAllocator allocator_;
  ReferenceModel model_;
  std::mt19937_64 random_;
  std::vector<std::uintptr_t> live_;
  std::vector<PoolPair> pools_;
  std::map<std::thread::id, std::vector<Scope>> scopes_;
  bool only_small_ = false;
  int ooms_ = 0;
};

TEST(Model, RandomOperationsOfOneThread) {
  int ooms = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    Pair pair(seed % 2 == 0 ? 512 * kMiB : 160 * kMiB, seed);
    for (int i = 0; i < operations() / 20; ++i) {
      pair.step();
      if (i % 64 == 0) pair.compare();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
    pair.finish();
    ooms += pair.out_of_memory();
  }
  EXPECT_GT(ooms, 100) << "the test no longer reaches the out-of-memory path";
}

// Eight threads on one allocator, in turns, so that the model knows the order: what one allocates
// another one frees, and it makes no difference who does what.
TEST(Model, RandomOperationsOfEightThreadsInTurns) {
  constexpr int kThreads = 8;
  for (unsigned seed = 20; seed < 22; ++seed) {
    Pair pair(seed % 2 == 0 ? 512 * kMiB : 160 * kMiB, seed);
    std::mutex turn;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < operations() / 4 / kThreads; i += 16) {
          const std::lock_guard mine(turn);
          for (int k = 0; k < 16 && !testing::Test::HasFatalFailure(); ++k) pair.step();
          if (i % 64 == 0) pair.compare();
        }
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
    pair.finish();
  }
}

}  // namespace
}  // namespace ember::test
