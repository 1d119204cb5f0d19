// What allocators would make of a recorded trace of allocations: settings chosen by figures,
// without a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

struct ReplayOptions {
  /// Which allocators, each one of
  /// - "torch": PyTorch's without options, "torch-expandable": with expandable segments;
  /// - "ember": ember's without options;
  /// - settings of ember's as in EMBER_ALLOC_CONF, such as "max_split_size_mb:64".
  /// Empty: "torch", "torch-expandable", "ember" and "expandable_segments:True".
  std::vector<std::string> policies = {};
  std::size_t device = 0;  ///< whose history of a snapshot
  /// Bytes that the device has; 0: any number. garbage_collection_threshold and
  /// per_process_memory_fraction are parts of it, and need it.
  std::uint64_t memory = 0;
  std::size_t points = 10;  ///< of each ReplayOutcome::course; 0 to 10,000
};

/// Bytes: of blocks in use, and of what was asked of the device and has not gone back.
struct ReplayPeaks {
  std::uint64_t allocated = 0, reserved = 0;
  /// What is held and not in use, of what is held: 0 to 1.
  double unused() const noexcept {
    if (reserved == 0) return 0;
    return 1 - static_cast<double>(allocated) / static_cast<double>(reserved);
  }
  friend bool operator==(const ReplayPeaks&, const ReplayPeaks&) = default;
};

/// The trace behind an entry.
struct ReplayPoint {
  std::size_t entry = 0;
  ReplayPeaks bytes;
  friend bool operator==(const ReplayPoint&, const ReplayPoint&) = default;
};

struct ReplayOutcome {
  std::string policy;  ///< as in ReplayOptions
  ReplayPeaks peaks;   ///< the most of each; not of one moment
  /// Calls of the device, for memory and to give it back: in the first tenth of the entries, and
  /// after that.
  std::size_t calls_first = 0, calls_after = 0;
  /// Of each of ReplayOptions::points parts of the trace, which are equally long, the first moment
  /// at which most was in use.
  std::vector<ReplayPoint> course;
  /// The entry for which there was not enough memory, and why, in words: the replay ended there.
  std::optional<std::size_t> failed_at;
  std::string failure;
  /// Of "torch", with any amount of memory and a trace whose segments do not grow: how many blocks
  /// and segments came out otherwise than in it, and the first of them in words. None at all if
  /// PyTorch recorded it without options: its segments lie where the trace has them, so all blocks
  /// must, too.
  bool compared = false;
  std::size_t differences = 0;
  std::string first_difference;
};

struct Replayed {
  std::string program;  ///< what was recorded, as the trace has it; may be empty
  std::size_t entries = 0;
  std::size_t streams = 0;
  std::size_t points = 0;   ///< of each course: no more than there are entries
  std::size_t dropped = 0;  ///< entries about memory from before the history, which are left out
  /// What PyTorch counted itself, without and with expandable segments; if the trace has it.
  std::optional<ReplayPeaks> native, expandable;
  ReplayPeaks recorded;                 ///< of the trace itself: bytes as they were asked for
  std::vector<ReplayOutcome> outcomes;  ///< as the policies

  /// As a table, in MiB, with a line feed behind each line.
  EMBER_API std::string str() const;
};

/// Gives a trace to allocators. `trace` is the text that docs/traces.md describes, or a snapshot
/// with a history, as ember's `dump_memory_snapshot` and PyTorch's `_dump_snapshot` write it.
///
/// The models of PyTorch's allocator were made from the documents (chapter 8); what ember does is
/// done by its allocator itself. A trace says when blocks were free for all streams, which is kept
/// to; and where memory went back to the device, the cache is emptied. Not enough memory ends the
/// replay of that policy, which says so; all others go on.
///
/// ValueError for what is no trace, contradicts itself or has no such device; for policies that
/// there are not, and settings that cannot be replayed (backend:cudaMallocAsync is the driver's own
/// pool). Thread-safe; needs no device; does not wait for one.
EMBER_API Replayed replay_memory(std::string_view trace, const ReplayOptions& options = {});

}  // namespace ember::inline v0::cuda
