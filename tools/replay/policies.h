// What allocators make of a trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tools/replay/trace.h"

namespace ember::replay {

struct Outcome {
  Peaks peaks;
  /// Calls of the device, for memory and to give it back: in the first tenth of the entries, and
  /// after that.
  std::size_t calls_first = 0, calls_after = 0;
  /// Of the entries about blocks and segments, how many came out otherwise than in the trace; and
  /// the first of them, in words. Of the model of PyTorch only.
  std::size_t differences = 0;
  std::string first_difference;

  /// What was held and never in use, of what was held.
  double waste() const noexcept {
    if (peaks.reserved == 0) return 0;
    return 1 - static_cast<double>(peaks.allocated) / static_cast<double>(peaks.reserved);
  }
};

/// What the trace itself says: allocated bytes as asked for, since it does not have the sizes of
/// blocks.
Outcome recorded(const Trace& trace);
/// A model of PyTorch's allocator by chapter 8 of the documents, without options: made from these,
/// and from nothing of ember's. Its segments lie where the trace has them, so each block must, too.
Outcome replay_torch(const Trace& trace);
/// The same with expandable segments. A trace without them does not say where its blocks would lie,
/// so there are no differences; what it comes to is held against Trace::expandable.
Outcome replay_expandable(const Trace& trace);
/// ember's allocator on a device that has any amount of memory; `grows`: with segments that grow
/// (expandable_segments:True), of which mapping a chunk is a call, and giving it back.
Outcome replay_ember(const Trace& trace, bool grows = false);

/// What ember is held to: with places() streams and pools, never more than the better of PyTorch's
/// two peaks, as counted or else as the models have them, and 2 MiB for each; after the first tenth
/// no more calls of the device than PyTorch without expandable segments.
struct Verdict {
  std::uint64_t most_reserved = 0;
  bool reserved = false, calls = false;
};
Verdict judge(const Trace& trace, const Outcome& torch, const Outcome& expandable,
              const Outcome& ember);

}  // namespace ember::replay
