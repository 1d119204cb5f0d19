// Snapshots of memory that programs have left in files, PyTorch's among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// A snapshot (a pickle of protocol 2 to 5, as PyTorch's `_dump_snapshot` writes it) as JSON. What
/// it names is never executed: it is read as None, bool, int, float, str, list, dict and tuple, and
/// any other opcode is an error. ValueError that names the opcode and its offset for what cannot be
/// read, and for a snapshot that would have more than 1 GiB as JSON. Thread-safe; needs no device.
EMBER_API std::string snapshot_json(std::string_view pickle);

/// What compare_snapshots() found. Blocks count while they are in use, or streams may still use
/// them; all sizes are bytes.
struct SnapshotComparison {
  struct Usage {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    friend bool operator==(const Usage&, const Usage&) = default;
  };
  struct Totals {
    std::uint64_t reserved = 0;  ///< of all segments
    std::uint64_t segments = 0;
    Usage active;
  };
  struct Holder {
    std::string tag;                 ///< empty: none
    std::vector<StackFrame> frames;  ///< innermost first; empty: none were recorded
    Usage before, after;
  };
  Totals before, after;
  std::vector<Holder> changed;  ///< what grew most first, what shrank most last

  /// For people: the totals, and at most `most` places that grew and as many that shrank.
  EMBER_API std::string str(std::size_t most = 10) const;
};

/// What is held in `after` and was not in `before`, by tag and stack: two snapshots as
/// snapshot_json() reads them, also of different processes, and PyTorch's. ValueError as there, and
/// for what is no snapshot. Thread-safe; needs no device.
EMBER_API SnapshotComparison compare_snapshots(std::string_view before, std::string_view after);

}  // namespace ember::inline v0::cuda
