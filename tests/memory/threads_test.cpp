// Many threads on one allocator, with contention, so that the shards are in use: no overlap,
// no early reuse, and counters, peaks included, that are exact.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/base/sanitizer.h"
#include "ember/memory/history.h"
#include "tests/memory/fake_source.h"

namespace ember::test {
namespace {

/// Who has which 512 bytes. Claiming what another one has is an overlap or an early reuse.
class Owners {
 public:
  explicit Owners(std::size_t capacity)
      : count_(capacity / 512), owners_(std::make_unique<std::atomic<unsigned>[]>(count_)) {}
  void claim(std::uintptr_t address, std::size_t size, unsigned owner) {
    change(address, size, 0, owner);
  }
  void release(std::uintptr_t address, std::size_t size, unsigned owner) {
    change(address, size, owner, 0);
  }
  bool clean() const { return mistakes_ == 0; }

 private:
  void change(std::uintptr_t address, std::size_t size, unsigned from, unsigned to) {
    const std::size_t first = (address - FakeDevice::kStart) / 512;
    for (std::size_t i = first; i < first + size / 512; ++i)
      if (i >= count_ || owners_[i].exchange(to) != from) ++mistakes_;
  }
  std::size_t count_;
  std::unique_ptr<std::atomic<unsigned>[]> owners_;
  std::atomic<int> mistakes_{0};
};

/// A device on which waiting for a stream goes through the test's own completion.
class SharedDevice : public FakeDevice {
 public:
  using FakeDevice::FakeDevice;
  std::function<void(void*)> completion;

 private:
  void wait_for(void* stream, std::uint64_t) noexcept override { completion(stream); }
};

struct Piece {
  std::uintptr_t address = 0;
  std::size_t size = 0;
};

class Threads : public testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 512 * kMiB;
  static constexpr unsigned kThreads = 8;
  static constexpr unsigned kStreams = 2;  // to allocate on; one more to record

  Threads() : device_(kCapacity), allocator_(0, device_), owners_(kCapacity) {
    device_.completion = [this](void*) { complete(); };
  }

  /// All work of the third stream is done: what was freed while that stream used it may be reused.
  void complete() {
    const std::lock_guard lock(waiting_mutex_);
    for (const Piece& piece : waiting_) owners_.release(piece.address, piece.size, kWaiting);
    waiting_.clear();
    device_.complete(stream_handle(kStreams));
  }

  void run(const std::function<void(unsigned)>& body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
    for (std::thread& thread : threads) thread.join();
  }

  void random_operations(unsigned thread, int operations) {
    std::mt19937_64 random(thread);
    std::vector<Piece> live;
    for (int i = 0; i < operations; ++i) {
      const auto dice = random() % 1000;
      if (dice < 500 || live.empty()) {
        const std::size_t bytes =
            random() % 50 == 0 ? 1 + random() % (3 * kMiB) : std::size_t{512} << (random() % 8);
        try {
          const memory::Block* block =
              allocator_.allocate(bytes, stream_handle(random() % kStreams).native).block;
          live.push_back({block->position(), block->size});
          owners_.claim(live.back().address, live.back().size, thread + 1);
          ++allocations_;
        } catch (const OutOfMemoryError&) {
          while (live.size() > 10) free_one(live, thread, random);
        }
      } else if (dice < 985) {
        free_one(live, thread, random);
        if (live.size() > 200) free_one(live, thread, random);
      } else if (dice < 990) {
        free_recorded(live, thread);
      } else if (dice < 998) {
        if (thread == 0) complete();
      } else if (dice == 998 && thread == 1 && i % 4 == 0) {
        EXPECT_TRUE(allocator_.empty_cache().ok());
      } else if (thread == 2) {
        const std::int64_t allocated = allocator_.allocated();  // first: the others go on
        EXPECT_GE(allocator_.max_allocated(), allocated);
        (void)allocator_.snapshot();
      }
      if (allocator_.contended()) contended_ = true;
    }
    while (!live.empty()) free_one(live, thread, random);
  }

  void free_one(std::vector<Piece>& live, unsigned thread, std::mt19937_64& random) {
    std::swap(live[random() % live.size()], live.back());
    const Piece piece = live.back();
    live.pop_back();
    owners_.release(piece.address, piece.size, thread + 1);
    EXPECT_TRUE(allocator_.free(reinterpret_cast<void*>(piece.address)));
  }

  void free_recorded(std::vector<Piece>& live, unsigned thread) {
    const Piece piece = live.back();
    live.pop_back();
    auto* pointer = reinterpret_cast<void*>(piece.address);
    EXPECT_TRUE(allocator_.record_stream(pointer, stream_handle(kStreams)));
    owners_.release(piece.address, piece.size, thread + 1);
    owners_.claim(piece.address, piece.size, kWaiting);
    const std::lock_guard lock(waiting_mutex_);  // the event that free() records belongs to it
    waiting_.push_back(piece);
    EXPECT_TRUE(allocator_.free(pointer));
  }

  void expect_all_returned() {
    complete();
    EXPECT_TRUE(allocator_.empty_cache().ok());
    const cuda::MemoryCounters counters = allocator_.counters();
    for (const auto* group :
         {&counters.allocation, &counters.active, &counters.segment, &counters.inactive_split,
          &counters.allocated_bytes, &counters.active_bytes, &counters.reserved_bytes,
          &counters.inactive_split_bytes, &counters.requested_bytes}) {
      for (const auto* counter : {&group->all, &group->small_pool, &group->large_pool}) {
        EXPECT_EQ(counter->current, 0);
        EXPECT_EQ(counter->allocated, counter->freed);
        EXPECT_LE(counter->peak, counter->allocated);
      }
    }
    EXPECT_EQ(device_.segments(), 0U);
  }

  static constexpr unsigned kWaiting = 1000;
  SharedDevice device_;
  CachingAllocator allocator_;
  Owners owners_;
  std::mutex waiting_mutex_;
  std::vector<Piece> waiting_;
  std::atomic<std::int64_t> allocations_{0};
  std::atomic<bool> contended_{false};
};

TEST_F(Threads, RandomOperationsNeitherOverlapNorMiscount) {
  const char* asked = std::getenv("EMBER_TEST_OPERATIONS");  // of all threads together
  const int each = asked != nullptr   ? std::atoi(asked) / static_cast<int>(kThreads)
                   : kThreadSanitizer ? 30'000
                                      : 100'000;
  run([this, each](unsigned thread) { random_operations(thread, each); });
  EXPECT_TRUE(owners_.clean());
  EXPECT_TRUE(contended_) << "the shards were never open: the test proves too little";
  EXPECT_EQ(allocator_.counters().allocation.all.allocated, allocations_);
  expect_all_returned();
}

// Each thread never holds more than kMost blocks, and at a barrier all hold exactly that many: so
// the true peak is known, to the byte.
TEST_F(Threads, PeaksAreExact) {
  constexpr int kMost = 40;
  const auto size_of = [](unsigned thread) { return (thread + 1) * 4 * kKiB - 100; };
  const auto rounded = [](unsigned thread) { return (thread + 1) * 4 * kKiB; };
  std::int64_t peak_bytes = 0, peak_requested = 0;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    peak_bytes += static_cast<std::int64_t>(kMost * rounded(thread));
    peak_requested += static_cast<std::int64_t>(kMost * size_of(thread));
  }
  // On a machine with other things to do, threads may run one after the other for a while.
  for (int round = 0; round < 5 || (!contended_ && round < 200); ++round) {
    std::barrier barrier(kThreads);
    std::atomic<std::int64_t> allocations{0};
    const std::int64_t before = allocator_.counters().allocation.all.allocated;
    run([&](unsigned thread) {
      std::mt19937 random(thread);
      std::vector<void*> live;
      const auto walk = [&](int steps) {
        for (int i = 0; i < steps; ++i) {
          if (live.empty() || (random() % 2 == 0 && live.size() < kMost)) {
            live.push_back(
                allocator_.allocate(size_of(thread), stream_handle(thread % 2).native).address);
            ++allocations;
          } else {
            EXPECT_TRUE(allocator_.free(live.back()));
            live.pop_back();
          }
          if (allocator_.contended()) contended_ = true;
        }
      };
      walk(20'000);
      while (live.size() < kMost) {
        live.push_back(
            allocator_.allocate(size_of(thread), stream_handle(thread % 2).native).address);
        ++allocations;
      }
      barrier.arrive_and_wait();
      walk(20'000);
      barrier.arrive_and_wait();
      for (void* pointer : live) EXPECT_TRUE(allocator_.free(pointer));
    });
    const cuda::MemoryCounters counters = allocator_.counters();
    EXPECT_EQ(counters.allocation.all.peak, kMost * kThreads);
    EXPECT_EQ(counters.allocation.small_pool.peak, kMost * kThreads);
    EXPECT_EQ(counters.allocation.large_pool.peak, 0);
    EXPECT_EQ(counters.active.all.peak, kMost * kThreads);
    EXPECT_EQ(counters.allocated_bytes.all.peak, peak_bytes);
    EXPECT_EQ(counters.active_bytes.all.peak, peak_bytes);
    EXPECT_EQ(counters.requested_bytes.all.peak, peak_requested);
    EXPECT_EQ(counters.allocation.all.allocated - before, allocations);
    EXPECT_EQ(counters.allocation.all.current, 0);
    EXPECT_EQ(counters.allocated_bytes.all.current, 0);
    EXPECT_EQ(counters.requested_bytes.all.current, 0);
    allocator_.reset_peaks();
    EXPECT_EQ(allocator_.counters().allocation.all.peak, 0);
  }
  EXPECT_TRUE(contended_);
  expect_all_returned();
}

// The blocks of a thread that has ended, and of one that is idle, are found by those who need them.
TEST_F(Threads, NothingIsLostInShards) {
  std::atomic<int> done{0};
  run([&](unsigned thread) {
    random_operations(thread, 20'000);
    ++done;
    while (thread != 0 && done < static_cast<int>(kThreads)) std::this_thread::yield();
  });
  // All that is free is one piece per segment again.
  complete();
  EXPECT_TRUE(allocator_.empty_cache().ok());
  memory::Block* everything = allocator_.allocate(kCapacity, nullptr).block;
  ASSERT_NE(everything, nullptr);
  EXPECT_TRUE(allocator_.free(everything->address()));
  expect_all_returned();
}

// What one thread allocates, another one frees.
TEST_F(Threads, BlocksMoveBetweenThreads) {
  constexpr int kRounds = 50'000;
  std::array<std::atomic<void*>, 64> places{};
  run([&](unsigned thread) {
    std::mt19937 random(thread);
    for (int i = 0; i < kRounds; ++i) {
      memory::Block* block = allocator_.allocate(std::size_t{512} << (random() % 6), nullptr).block;
      owners_.claim(block->position(), block->size, 1);
      if (void* old = places[random() % places.size()].exchange(block)) {
        auto* freed = static_cast<memory::Block*>(old);
        owners_.release(freed->position(), freed->size, 1);
        EXPECT_TRUE(allocator_.free(freed, freed->address(), freed->serial));
      }
    }
  });
  for (auto& place : places) {
    auto* block = static_cast<memory::Block*>(place.load());
    EXPECT_TRUE(block == nullptr || allocator_.free(block->address()));
  }
  EXPECT_TRUE(owners_.clean());
  EXPECT_EQ(allocator_.counters().allocation.all.allocated, kRounds * kThreads);
  expect_all_returned();
}

/// Records the history while it lives.
struct Recording {
  explicit Recording(std::size_t most) {
    cuda::record_memory_history({.context = {}, .max_entries = most});
  }
  ~Recording() { cuda::record_memory_history({.enabled = {}}); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

/// What entries say of memory, one after the other: which bytes are in use.
struct Told {
  std::map<std::uint64_t, std::uint64_t> in_use;  // size by address
  std::int64_t allocations = 0;

  void add(const cuda::MemoryEvent& event) {
    using Action = cuda::MemoryEvent::Action;
    if (event.action() == Action::alloc) {
      const auto after = in_use.lower_bound(event.address);
      ASSERT_TRUE(after == in_use.end() || event.address + event.size <= after->first);
      if (after != in_use.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, event.address);
      }
      in_use.emplace_hint(after, event.address, event.size);
      ++allocations;
    } else if (event.action() == Action::free_completed) {
      ASSERT_EQ(in_use.erase(event.address), 1U);
    }
  }
};

// Entries are written by several threads at once, in no lock of all of them.
TEST_F(Threads, TheHistoryIsExact) {
  const Recording recording(std::size_t{1} << 40);
  allocator_.apply(memory::history_wish());
  std::vector<std::vector<cuda::MemoryEvent>> looks;
  for (int round = 0; round < 3 || (!contended_ && round < 50); ++round) {
    run([&](unsigned thread) {
      random_operations(thread, 10'000);
      if (thread != 3 || looks.size() >= 8) return;
      looks.emplace_back();
      (void)allocator_.snapshot(looks.back());
    });
    complete();
  }
  EXPECT_TRUE(contended_);
  expect_all_returned();
  std::vector<cuda::MemoryEvent> events;
  (void)allocator_.snapshot(events);
  Told told;
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(events[i].sequence, i);
    ASSERT_NO_FATAL_FAILURE(told.add(events[i])) << i;
  }
  EXPECT_TRUE(told.in_use.empty());
  EXPECT_EQ(told.allocations, allocations_);
  EXPECT_EQ(allocator_.counters().allocation.all.allocated, allocations_);
  // What was seen while it went on is the beginning of this.
  for (const std::vector<cuda::MemoryEvent>& look : looks) {
    ASSERT_LE(look.size(), events.size());
    for (std::size_t i = 0; i < look.size(); ++i) {
      ASSERT_EQ(look[i].sequence, i);
      ASSERT_EQ(look[i].address, events[i].address) << i;
      ASSERT_EQ(look[i].kind, events[i].kind) << i;
    }
  }
}

TEST_F(Threads, TheLastEntriesAreKept) {
  const Recording recording(3000);
  allocator_.apply(memory::history_wish());
  std::vector<cuda::MemoryEvent> before, events;
  run([this](unsigned thread) { random_operations(thread, 20'000); });
  (void)allocator_.snapshot(before);
  run([this](unsigned thread) { random_operations(thread, 20); });
  (void)allocator_.snapshot(events);
  ASSERT_EQ(before.size(), 3000U);
  ASSERT_EQ(events.size(), 3000U);
  const std::uint64_t first = events.front().sequence;
  ASSERT_GT(first, before.front().sequence);
  ASSERT_LT(first, before.back().sequence) << "the second look has nothing of the first one";
  for (std::size_t i = 0; i < events.size(); ++i) ASSERT_EQ(events[i].sequence, first + i);
  for (std::size_t i = first - before.front().sequence, at = 0; i < before.size(); ++i, ++at) {
    ASSERT_EQ(before[i].address, events[at].address);
    ASSERT_EQ(before[i].time_us, events[at].time_us);
  }
}

// An address that a thread kept over a reset may be another one's memory, who is freeing it.
TEST_F(Threads, StreamsMayBeNotedBesideFrees) {
  std::atomic<unsigned> rounds{0};
  std::array<std::atomic<void*>, kThreads> addresses{};
  run([&](unsigned thread) {
    while (rounds < 40'000) {
      if (thread < 2) {
        for (const auto& address : addresses)
          allocator_.record_stream(address, stream_handle(kStreams));
        complete();
        continue;
      }
      const memory::BlockUse use = allocator_.allocate(kKiB, stream_handle(0).native);
      addresses[thread] = use.address;
      EXPECT_TRUE(allocator_.free(use.block, use.address, use.serial));
      ++rounds;
    }
  });
  complete();
  EXPECT_TRUE(allocator_.empty_cache().ok());
  EXPECT_EQ(allocator_.counters().active.all.current, 0);
  EXPECT_EQ(device_.segments(), 0U);
}

}  // namespace
}  // namespace ember::test
