// The block table and the counters of one device's memory, and what its observer is told.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/block.h"
#include "ember/memory/block_map.h"
#include "ember/memory/shards.h"
#include "ember/memory/stats.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::memory {

/// The one lock of a device's memory is here. Under it the driver is asked for nothing but the
/// device's epoch, and no observer's code runs.
class Ledger {
 public:
  Ledger(int device, bool counts) noexcept : device_(device), counts_(counts) {}

  Mutex mutex;
  BlockMap map;   // written under the lock, read without
  Stats stats;    // the same
  Shards shards;  // has locks of its own, after this one
  BlockPool records EMBER_GUARDED_BY(mutex);
  std::map<std::uintptr_t, Segment> segments EMBER_GUARDED_BY(mutex);

  /// The block that contains an address, or null.
  Block* containing(const void* inside) EMBER_REQUIRES(mutex);
  /// Enters a new segment; its one block is claimed.
  Block* add_segment(const Segment& segment) EMBER_REQUIRES(mutex);
  /// Takes a whole segment out of the table, because it is about to be given back: from then on its
  /// address may belong to another allocation. It still counts as reserved, and for its pool, until
  /// that has succeeded. Its block is `releasing`.
  Segment remove_segment(Block* whole) EMBER_REQUIRES(mutex);

  BlockUse hand_out(Block* block, std::size_t requested) EMBER_REQUIRES(mutex) {
    const BlockUse use = block->begin_use(requested);
    emit(AllocEvent::Kind::allocated, *block);
    return use;
  }
  /// What happened to a block is counted and reported.
  void emit(AllocEvent::Kind kind, const Block& block) EMBER_REQUIRES(mutex) {
    if (counts_) [[likely]] {
      const Usage usage{1, static_cast<std::int64_t>(block.size),
                        static_cast<std::int64_t>(block.requested_bytes())};
      const bool small = block.segment->small;
      if (kind == AllocEvent::Kind::allocated && shards.open()) [[unlikely]]
        shards.make_room(stats, small, usage);
      stats.apply(kind, small, usage);
    }
    if (cuda::observed()) [[unlikely]]
      report(event_of(kind, block, *block.segment));
  }
  /// The same for everything else.
  void emit(const AllocEvent& event) EMBER_REQUIRES(mutex) {
    if (counts_) stats.apply(event);
    if (cuda::observed()) [[unlikely]]
      report(event);
  }
  static AllocEvent event_of(AllocEvent::Kind kind, const Block& block, const Segment& segment) {
    return {kind,       segment.small,          segment.stream, block.address(),
            block.size, block.requested_bytes()};
  }

  /// Tells the observer what has happened, in the order in which it did: one thread at a time, and
  /// without any lock. With `wait`, returns once all that had happened before has been told;
  /// without, what another thread is telling at this moment, or will tell next, is left to that
  /// thread.
  void tell(bool wait) noexcept {
    if (untold_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      tell_all(wait);
  }

 private:
  void report(const AllocEvent& event) EMBER_REQUIRES(mutex);
  void tell_all(bool wait) noexcept;

  const int device_;
  const bool counts_;
  // What has happened and was not told yet; `untold_` includes what is being told.
  std::atomic<std::size_t> untold_{0};
  std::vector<cuda::Activity> news_ EMBER_GUARDED_BY(mutex);
  std::uint64_t reported_ EMBER_GUARDED_BY(mutex) = 0, told_ EMBER_GUARDED_BY(mutex) = 0;
  bool telling_ EMBER_GUARDED_BY(mutex) = false;
  Condition changed_;
};

/// Every operation ends with this, after its locks. A thread that allocates waits until the
/// observer was notified of its memory. One that frees does not: so a free never waits for an
/// observer, nor for what that may wait for.
class Tell {
 public:
  explicit Tell(Ledger& ledger, bool wait = false) noexcept : ledger_(ledger), wait_(wait) {}
  ~Tell() { ledger_.tell(wait_); }
  Tell(const Tell&) = delete;
  Tell& operator=(const Tell&) = delete;

 private:
  Ledger& ledger_;
  const bool wait_;
};

}  // namespace ember::inline v0::memory
