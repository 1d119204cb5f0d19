// Vector clocks: how much of each actor's work is known to be over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ember::inline v0::cuda::sanitizer {

/// A stream, or a thread of the host: what does one thing after the other.
using Actor = std::uint32_t;
/// Counts what an actor did, from 1.
using Number = std::uint64_t;

/// One thing that an actor did.
struct Epoch {
  Actor actor = 0;
  Number number = 0;
};

/// For each actor the last thing that happened before. Plain data.
class Clock {
 public:
  Number of(Actor actor) const noexcept { return actor < at_.size() ? at_[actor] : 0; }
  bool covers(const Epoch& epoch) const noexcept { return epoch.number <= of(epoch.actor); }
  void raise(Actor actor, Number number) {
    if (actor >= at_.size()) at_.resize(actor + 1);
    at_[actor] = std::max(at_[actor], number);
  }
  void join(const Clock& other) {
    if (other.at_.size() > at_.size()) at_.resize(other.at_.size());
    for (std::size_t i = 0; i < other.at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }
  bool empty() const noexcept { return at_.empty(); }

 private:
  std::vector<Number> at_;
};

/// What somebody knows to be over.
struct Known {
  /// By waits, which hold whatever the timing.
  Clock by_waits;
  /// By queries that happened to answer "done", and by what was waited for after them.
  Clock by_queries;

  void join(const Known& other) {
    by_waits.join(other.by_waits);
    if (!other.by_queries.empty()) by_queries.join(other.by_queries);
  }
};

}  // namespace ember::inline v0::cuda::sanitizer
