// Free blocks that threads keep apart while they compete for the ledger's lock.
//
// Ordinarily there are none: memory without competition behaves exactly as the documents say. A
// thread that finds the ledger's lock taken opens the shards. From then on each thread puts what it
// frees into its shard, and takes from it blocks of exactly the size, stream and pool that it
// wants, under the shard's lock, which is hardly ever contended. After tens of thousands of
// operations, and before the device is asked for more memory, the shards are closed and all blocks
// go back to the free lists; the next thread that finds the lock taken opens them again.
//
// Note [Quota]
// ~~~~~~~~~~~~
// Counters are exact, peaks included, though a shard counts without the ledger's lock. What a shard
// may count is granted in advance:
//
//   - While shards are open, the levels in Stats are those of what is in use plus all quota.
//   - A block taken from a shard is counted against the shard's quota, and one put there adds to
//     it; so neither changes the levels. A quota is never negative, so what is in use never exceeds
//     the levels; and these stay below the peaks (next point). So no peak is missed.
//   - A block that the quota does not cover is counted in the levels, under the ledger's lock.
//     Should that lift them above a peak, all quota is recalled first (make_room), with every
//     shard's lock held at once: the levels are then what is in use at that moment, and what they
//     rise to is a true peak. So no peak is invented.
//   - New quota is a share of the room that is left below the peaks. None of it is needed for
//     correctness: a shard without quota only sends its threads to the ledger more often.
//
// A thread that reads a level recalls first (settle). Peaks can be read at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/memory/block.h"
#include "ember/memory/event_log.h"
#include "ember/memory/stats.h"

namespace ember::inline v0::memory {

struct Request;

class Shards {
 public:
  /// Of that device. `ledgers` is the ledger's log.
  Shards(int device, EventStore& store, EventLog& ledgers) noexcept;

  bool open() const noexcept { return open_.load(std::memory_order_acquire); }

  // Without the ledger's lock:

  /// A block of exactly that size from the calling thread's shard, handed out, counted and tracked.
  /// None if there is none, or if the quota does not cover it.
  BlockUse take(const Request& request) noexcept;
  /// Keeps a claimed block that nobody uses, and counts and tracks it as freed. False: nothing has
  /// happened.
  bool put(Block* block) noexcept;

  // With the ledger's lock:

  /// A thread found the lock taken.
  void contended() noexcept {
    if (!open()) open_.store(true, std::memory_order_release);
  }
  /// Whether it is time to close.
  bool expired() const noexcept { return expired_.load(std::memory_order_relaxed); }
  /// All blocks, chained by Block::link and claimed; no quota is left.
  Block* close(Stats& stats) noexcept;
  /// A block of exactly that size, claimed and not counted, from the calling thread's shard or from
  /// any; null if there is none.
  enum class Where : bool { mine, any };
  Block* find(const Request& request, Where where) noexcept;
  /// Before `next` is counted in the levels: recalls and shares out anew if a peak would rise.
  void make_room(Stats& stats, bool small, const Usage& next) noexcept {
    if (!stats.within_peaks(small, next)) recall(stats, &next, small);
  }
  /// A share of the room for the calling thread's shard.
  void grant(Stats& stats) noexcept;
  /// The levels become what is in use.
  void settle(Stats& stats) noexcept {
    if (open()) recall(stats, nullptr, false);
  }
  /// Whether nobody used the open shards between this call's settle() and the one of the call
  /// before: then they are only in the way of who looks.
  bool idle() noexcept {
    return open() && std::exchange(seen_operations_, operations_) == operations_;
  }
  /// Calls `visit(log)` for that of each shard, under its lock.
  template <class Visit>
  void each_log(const Visit& visit) {
    for (Shard& shard : shards_) {
      const MutexLock lock(shard.mutex);
      visit(shard.log);
    }
  }

 private:
  /// Blocks of one pool, stream and size; `first` leads to the others through Block::link.
  struct Stack {
    const Pool* pool = nullptr;
    void* stream = nullptr;
    std::size_t size = 0;
    Block* first = nullptr;

    bool holds(const Request& request) const noexcept;
  };
  struct alignas(64) Shard {
    static constexpr std::size_t kStacks = 128, kProbes = 4;
    Stack* find(const Request& request, bool make) noexcept EMBER_REQUIRES(mutex);
    Block* pop(Stack& stack) noexcept EMBER_REQUIRES(mutex);

    Mutex mutex;
    int operations EMBER_GUARDED_BY(mutex) = 0;  // since the shards were opened
    bool used EMBER_GUARDED_BY(mutex) = false;   // since the last recall
    std::size_t blocks EMBER_GUARDED_BY(mutex) = 0, bytes EMBER_GUARDED_BY(mutex) = 0;
    UsageByKind quota EMBER_GUARDED_BY(mutex), increases EMBER_GUARDED_BY(mutex);
    std::array<Stack, kStacks> stacks EMBER_GUARDED_BY(mutex);
    EventLog log EMBER_GUARDED_BY(mutex);
  };
  static constexpr std::size_t kShards = EventStore::kLogs - 1;
  // Generous, since everything comes back before the device is asked for more.
  static constexpr std::size_t kMostBlocks = 512, kMostBytes = 256 * kMiB;
  static constexpr std::size_t kLargestBlock = 16 * kMiB;
  static constexpr int kOperations = 1 << 16;

  Shard& mine() noexcept;
  bool count_operation(Shard& shard) noexcept EMBER_REQUIRES(shard.mutex);
  void recall(Stats& stats, const Usage* next, bool small) noexcept;

  const int device_;
  EventLog& ledgers_;  // under the ledger's lock
  std::atomic<bool> open_{false}, expired_{false};
  std::atomic<int> users_{1};  // shards that were used between the last two recalls
  // Guarded by the ledger's lock: since the shards were opened, up to the last recall and to
  // idle().
  int operations_ = 0, seen_operations_ = -1;
  std::array<Shard, kShards> shards_;
};

}  // namespace ember::inline v0::memory
