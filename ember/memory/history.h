// The history of device memory: which blocks came and went, when, and where the program stood.
// Chapter 10 of the documents. snapshot.h shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/export.h"
#include "ember/memory/pool_id.h"

namespace ember::inline v0::cuda {

/// One entry of a device's history.
struct MemoryEvent {
  enum class Action : std::uint8_t {
    alloc,           ///< a block was handed out; `size`: the bytes asked for
    free_requested,  ///< its user freed it; `size` as above
    free_completed,  ///< ... and no stream uses it any longer
    segment_alloc,   ///< memory came from the device
    segment_free,    ///< ... and went back
    segment_map,     ///< a part of a growable segment came
    segment_unmap,   ///< ... and went back
    snapshot,        ///< memory was looked at; `size`: bytes in use, or waiting for streams
    oom,             ///< an allocation failed; `address`: the device's free bytes
  };
  std::uint64_t sequence = 0;  ///< counts a device's entries, also those that are not kept
  std::uint64_t address = 0;
  std::uint64_t size = 0;          ///< bytes
  std::uint64_t stream = 0;        ///< native handle
  std::uint64_t time_us : 56 = 0;  ///< microseconds since 1970
  std::uint64_t kind : 8 = 0;      ///< an Action
  std::uint32_t stack = 0;         ///< see MemorySnapshot::frames; 0: none was recorded
  std::uint16_t tag = 0;           ///< of the MemoryScope of the allocation; 0: none
  std::uint16_t pool = 0;          ///< see pool_id(); what does not fit in 15 bits is 32767

  Action action() const noexcept { return static_cast<Action>(kind); }
  /// (0, 0) is that of requests that name none.
  MemPoolId pool_id() const noexcept {
    const std::uint64_t number = pool & 0x7FFFU;
    return pool > 0x7FFF ? MemPoolId(number, 0) : MemPoolId(0, number);
  }
};
static_assert(sizeof(MemoryEvent) == 48);

/// As the documents call it, such as "free_requested".
EMBER_API const char* action_name(MemoryEvent::Action action) noexcept;

/// What is recorded, of all devices.
struct MemoryHistoryOptions {
  /// "all": entries. "state": where blocks in use come from, and the last entry alone. Nothing:
  /// stops, and forgets the entries.
  std::optional<std::string> enabled = "all";
  /// Whose stacks are taken: of blocks in use ("state"), also for entries, where a free has that of
  /// its allocation ("alloc"), or of the free itself ("all"). Nothing: none.
  std::optional<std::string> context = "all";
  /// "python": of the language that ember is used from, or, where a thread does not stand in it, of
  /// native code. "all": native code's frames, and then the language's.
  std::string stacks = "all";
  /// The last so many entries of each device are kept, 48 bytes each.
  std::size_t max_entries = std::numeric_limits<std::size_t>::max();
  /// Forgets the entries first.
  bool clear_history = false;
  /// Names of actions that get no entry.
  std::vector<std::string> skip_actions = {};
};

/// Records the history of device memory from now on, or stops. Error `expected state to be 'state',
/// 'all', or None`, `expected context to be 'state', 'alloc', 'all', or None`, `expected stacks to
/// be 'python', or 'all'`; ValueError for an action that does not exist: nothing has changed then.
/// While nothing is recorded, an allocation pays for a load. Thread-safe; does not block or
/// initialise.
EMBER_API void record_memory_history(const MemoryHistoryOptions& options = {});

}  // namespace ember::inline v0::cuda
