// The block table and the counters of one device's memory, and what observers are told of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/block.h"
#include "ember/memory/block_map.h"
#include "ember/memory/shards.h"
#include "ember/memory/stats.h"
#include "ember/memory/tracking.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::memory {

/// Whether every change of state is to be looked at, by observers or for the history: then all of
/// them pass through the ledger. Two loads and one branch, for those that nobody looks at.
inline bool watched() noexcept {
  return (static_cast<unsigned>(cuda::observed()) | static_cast<unsigned>(tracked())) != 0;
}

/// The one lock of a device's memory is here. Under it the driver is asked for nothing but the
/// device's epoch, and no observer's code runs.
class Ledger {
 public:
  Ledger(int device, bool counts) : shards(device, store_, log), device_(device), counts_(counts) {
    log.open(store_, 0);
  }

  Mutex mutex;
  BlockMap map;   // written under the lock, read without
  Stats stats;    // the same
  Shards shards;  // has locks of its own, after this one
  EventLog log EMBER_GUARDED_BY(mutex);
  BlockPool records EMBER_GUARDED_BY(mutex);
  std::map<std::uintptr_t, Segment> segments EMBER_GUARDED_BY(mutex);

  /// The block that contains an address, or null.
  Block* containing(const void* inside) EMBER_REQUIRES(mutex);
  /// Whether the allocation at that position with that serial is still in use.
  bool in_use(const std::pair<std::uintptr_t, std::uint64_t>& allocation) const
      EMBER_REQUIRES(mutex);
  /// A segment that has some of these bytes, or null.
  const Segment* overlapping(std::uintptr_t address, std::size_t bytes) const EMBER_REQUIRES(mutex);
  /// Enters a new segment, which overlaps none; its one block is claimed.
  Block* add_segment(const Segment& segment) EMBER_REQUIRES(mutex);
  /// Takes a whole segment out of the table, because it is about to be given back: from then on its
  /// address may belong to another allocation. It still counts as reserved, and for its pool, until
  /// that has succeeded. Its block is `releasing`.
  Segment remove_segment(Block* whole) EMBER_REQUIRES(mutex);

  /// What is left of a claimed block behind its first `bytes`: a block of its own, claimed.
  Block* split(Block* block, std::size_t bytes) EMBER_REQUIRES(mutex);
  /// The reverse, for neighbours that are in no list.
  void absorb_next(Block* block) EMBER_REQUIRES(mutex);

  BlockUse hand_out(Block* block, std::size_t requested) EMBER_REQUIRES(mutex) {
    const BlockUse use = block->begin_use(requested);
    emit(AllocEvent::Kind::allocated, *block);
    return use;
  }
  /// What happened to a block is counted and reported. In place: with a kind that is known, little
  /// is left of it.
  [[gnu::always_inline]] void emit(AllocEvent::Kind kind, Block& block) EMBER_REQUIRES(mutex) {
    if (counts_) [[likely]] {
      const Usage usage{1, static_cast<std::int64_t>(block.size),
                        static_cast<std::int64_t>(block.requested_bytes())};
      const bool small = block.segment->small;
      if (kind == AllocEvent::Kind::allocated && shards.open()) [[unlikely]]
        shards.make_room(stats, small, usage);
      stats.apply(kind, small, usage);
    }
    if (watched()) [[unlikely]] {
      if (tracked()) track_block(device_, kind, block, log);
      if (cuda::observed()) report(event_of(kind, block, *block.segment));
    }
  }
  /// The same for everything else.
  void emit(const AllocEvent& event) EMBER_REQUIRES(mutex) {
    if (counts_) stats.apply(event);
    if (watched()) [[unlikely]] {
      if (tracked()) track(event);
      if (cuda::observed()) report(event);
    }
  }
  /// What the history keeps from now on. The shards are closed, as for history().
  void keep(const HistoryWish& wish) EMBER_REQUIRES(mutex);
  /// The entries, oldest first, with their numbers: added to `out`.
  void history(std::vector<cuda::MemoryEvent>& out) EMBER_REQUIRES(mutex);
  static AllocEvent event_of(AllocEvent::Kind kind, const Block& block, const Segment& segment) {
    return {.kind = kind,
            .small = segment.small,
            .stream = segment.stream,
            .address = block.address(),
            .bytes = block.size,
            .requested = block.requested_bytes(),
            .oversize = segment.oversize,
            .ordered = is_ordered(segment),
            .pool = pool_of(segment),
            .stack = segment.stack};
  }

 private:
  static cuda::MemPoolId pool_of(const Segment& segment) noexcept;
  static bool is_ordered(const Segment& segment) noexcept;
  void track(const AllocEvent& event) EMBER_REQUIRES(mutex);
  void report(const AllocEvent& event) EMBER_REQUIRES(mutex);
  std::uint64_t merge(std::size_t most, std::vector<cuda::MemoryEvent>& out) EMBER_REQUIRES(mutex);

  const int device_;
  const bool counts_;
  EventStore store_;
};

/// Every operation begins with this, before its locks. What happens under them is recorded for the
/// observers, and told once they are free. On whose behalf it is, is found out before, too.
class Tell {
 public:
  enum class Operation : std::uint8_t { allocation, other };
  explicit Tell(Operation operation = Operation::other) noexcept
      : watched_(cuda::observed()), tracked_(tracked()) {
    if (watched_) [[unlikely]]
      cuda::detail::note_place();
    if (tracked_) [[unlikely]]
      outer_ = std::exchange(caller(), take_caller(operation == Operation::allocation));
  }
  ~Tell() {
    if (tracked_) [[unlikely]]
      caller() = outer_;
    if (!watched_) [[likely]]
      return;
    cuda::detail::release_place();
    cuda::detail::deliver();
  }
  Tell(const Tell&) = delete;
  Tell& operator=(const Tell&) = delete;

 private:
  const bool watched_, tracked_;
  Caller outer_;  // of the operation within which this one is: observers may free memory
};

}  // namespace ember::inline v0::memory
