// What a policy comes to, entry by entry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/replay/policies.h"

namespace ember::inline v0::replay {

class Tally {
 public:
  Tally(const Trace& trace, const Limits& limits)
      : entries_(trace.entries.size()),
        points_(std::min(limits.points, entries_)),
        memory_(limits.memory) {
    outcome.course.reserve(points_);
  }

  Outcome outcome;

  /// A call of the device.
  void call(std::size_t entry) noexcept {
    ++(entry < entries_ / 10 ? outcome.calls_first : outcome.calls_after);
  }
  /// How much there is behind an entry; of each, in their order.
  void note(std::size_t entry, std::uint64_t allocated, std::uint64_t reserved) {
    const cuda::ReplayPeaks now{allocated, reserved};
    outcome.peaks.allocated = std::max(outcome.peaks.allocated, allocated);
    outcome.peaks.reserved = std::max(outcome.peaks.reserved, reserved);
    if (points_ == 0) return;
    const std::size_t part = entry * points_ / entries_;
    if (part == outcome.course.size())
      outcome.course.push_back({entry, now});
    else if (allocated > outcome.course.back().bytes.allocated)
      outcome.course.back() = {entry, now};
  }
  /// Whether the device has so many bytes beside those that are reserved.
  bool fits(std::uint64_t reserved, std::uint64_t bytes) const noexcept {
    return memory_ == 0 || (bytes <= memory_ && reserved <= memory_ - bytes);
  }
  /// Ends the replay: there is not enough for a request.
  void fail_for_memory(std::size_t entry, std::uint64_t requested, std::uint64_t allocated,
                       std::uint64_t reserved) {
    fail(entry, format_bytes(requested) + " are asked for; " + format_bytes(reserved) +
                    " are reserved, of which " + format_bytes(allocated) +
                    " are in use; the device has " + format_bytes(memory_));
  }
  void fail(std::size_t entry, std::string why) {
    outcome.failed_at = entry;
    outcome.failure = std::move(why);
  }
  bool failed() const noexcept { return outcome.failed_at.has_value(); }

 private:
  std::size_t entries_, points_;
  std::uint64_t memory_;  // 0: any number of bytes
};

}  // namespace ember::inline v0::replay
