// What is recorded of allocations beyond counters, and by whom they were made: the history, and the
// tags of scopes. The ledger calls this; nothing of it costs more than a load while nobody wants
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/memory/event_ring.h"
#include "ember/memory/history.h"

namespace ember::inline v0::memory {

/// What is wanted, in one word.
struct Tracking {
  enum class Context : std::uint8_t { none, state, alloc, all };
  bool scopes = false;   ///< a scope was opened once: blocks may have tags
  bool history = false;  ///< it was switched on
  bool entries = false;  ///< ... and has entries
  bool native = false;   ///< stacks of native code are wanted in any case
  Context context = Context::none;

  std::uint32_t word() const noexcept {
    return std::uint32_t{scopes} | std::uint32_t{history} << 1 | std::uint32_t{entries} << 2 |
           std::uint32_t{native} << 3 | static_cast<std::uint32_t>(context) << 4;
  }
  static Tracking of(std::uint32_t word) noexcept {
    return {(word & 1) != 0, (word & 2) != 0, (word & 4) != 0, (word & 8) != 0,
            static_cast<Context>(word >> 4)};
  }
};

namespace detail {
extern constinit std::atomic<std::uint32_t> tracking;
}
/// Whether allocations are to be looked at one by one.
inline bool tracked() noexcept { return detail::tracking.load(std::memory_order_relaxed) != 0; }
inline Tracking tracking() noexcept {
  return Tracking::of(detail::tracking.load(std::memory_order_relaxed));
}
/// A scope was opened: from now on and for ever.
void track_scopes() noexcept;

/// On whose behalf the calling thread is in an allocator.
struct Caller {
  std::uint32_t stack = 0;
  std::uint16_t tag = 0;
  std::uint64_t time_us = 0;  ///< when it began; 0: that was not asked for
};
Caller& caller() noexcept;
/// What caller() is to be in an operation that begins, before its locks: takes the stack if one is
/// wanted. `allocates`: it is an allocation, and not a free or something else.
Caller take_caller(bool allocates) noexcept;

/// What a ledger's history is to keep, as it was asked for last.
struct HistoryWish {
  bool clear = false;         ///< forget what there is
  std::size_t most = 0;       ///< entries
  std::uint32_t skipped = 0;  ///< a bit for each action
};
HistoryWish history_wish();

/// The entries of one device. Belongs to the ledger's lock.
class History {
 public:
  void apply(const HistoryWish& wish) {
    if (wish.clear) ring_.clear();
    ring_.keep(wish.most);
    skipped_ = wish.skipped;
  }
  /// At the time of the calling thread's operation: the clock is not read under the lock.
  void add(cuda::MemoryEvent::Action action, cuda::MemoryEvent event) noexcept;
  const EventRing& ring() const noexcept { return ring_; }

 private:
  EventRing ring_;
  std::uint32_t skipped_ = 0;
};

}  // namespace ember::inline v0::memory
