// What is recorded of allocations beyond counters, and by whom they were made: the history, and the
// tags of scopes. The ledger calls this; nothing of it costs more than a load while nobody wants
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/memory/event_log.h"
#include "ember/memory/history.h"
#include "ember/memory/stats.h"

namespace ember::inline v0::memory {

struct Block;

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
  std::uint64_t time_ns = 0;  ///< when it began, since 1970; 0: that was not asked for
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

/// Adds an entry to the log, whose lock is held, at the time of the calling thread's operation: the
/// clock is not read under the lock. Later than `after`. Returns its stamp.
std::uint64_t add_entry(EventLog& log, cuda::MemoryEvent::Action action,
                        const cuda::MemoryEvent& event, std::uint64_t after = 0) noexcept;

/// What happened to a block of the device, under the lock of the log: whom it belongs to, what the
/// tags hold, and the entry.
void track_block(int device, AllocEvent::Kind kind, Block& block, EventLog& log) noexcept;

}  // namespace ember::inline v0::memory
