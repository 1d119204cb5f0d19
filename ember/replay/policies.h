// What allocators make of a trace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/memory/settings.h"
#include "ember/replay/trace.h"

namespace ember::inline v0::replay {

using Outcome = cuda::ReplayOutcome;

/// What a policy is given besides the trace.
struct Limits {
  std::uint64_t memory = 0;  ///< bytes; 0: any number
  std::size_t points = 0;    ///< of Outcome::course
};

/// What the trace itself says: allocated bytes as asked for, since it does not have the sizes of
/// blocks.
Outcome recorded(const Trace& trace);
/// A model of PyTorch's allocator by chapter 8 of the documents, without options: made from these,
/// and from nothing of ember's. Its segments lie where the trace has them, so each block must, too.
Outcome replay_torch(const Trace& trace, const Limits& limits = {});
/// The same with expandable segments. A trace does not say where its blocks would lie, so nothing
/// is compared; what it comes to is held against Trace::expandable.
Outcome replay_expandable(const Trace& trace, const Limits& limits = {});
/// ember's allocator with such settings. Of segments that grow (expandable_segments:True) mapping a
/// chunk is a call, and giving it back.
Outcome replay_ember(const Trace& trace, const memory::Settings& settings = {},
                     const Limits& limits = {});

/// What ember is held to: with places() streams and pools, never more than the better of PyTorch's
/// two peaks, as counted or else as the models have them, and 2 MiB for each; after the first tenth
/// no more calls of the device than PyTorch without expandable segments.
struct Verdict {
  std::uint64_t most_reserved = 0;
  bool reserved = false, calls = false;
};
Verdict judge(const Trace& trace, const Outcome& torch, const Outcome& expandable,
              const Outcome& ember);

}  // namespace ember::inline v0::replay
