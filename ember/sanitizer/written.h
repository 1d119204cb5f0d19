// Which bytes of an allocation were ever written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "ember/sanitizer/overlap.h"

namespace ember::inline v0::cuda::sanitizer {

/// A set of bytes, as intervals. Exact as long as it takes few steps and intervals. Beyond, it is
/// what was asked for: more than was written, so that what is called missing is missing; or less,
/// so that what is not was written.
class Written {
 public:
  enum class Bound : std::uint8_t { above, below };
  explicit Written(Bound bound = Bound::above) noexcept : bound_(bound) {}

  struct Range {
    std::uintptr_t first = 0, last = 0;
    bool empty() const noexcept { return first >= last; }
  };
  /// Runs of one strided access that are looked at, and intervals that are kept.
  static constexpr std::uint64_t kMost = 4096;
  /// The same for a bound from below, which only proofs ask for.
  static constexpr std::uint64_t kMostBelow = 65536;

  void add(const Bytes& bytes);
  /// Everything is, from now on.
  void add_all();
  bool all() const noexcept { return all_; }
  /// The first bytes of an access that are not in the set, or, in one that is a bound from below,
  /// might not be; empty if all are.
  Range missing(const Bytes& bytes) const;

 private:
  std::uint64_t most() const noexcept { return bound_ == Bound::above ? kMost : kMostBelow; }
  bool is_short(const Bytes& bytes) const noexcept;
  void add(Range range);
  Range missing(Range range) const;

  std::map<std::uintptr_t, std::uintptr_t> intervals_;  // first to last; apart from each other
  Bound bound_;
  bool all_ = false;
};

}  // namespace ember::inline v0::cuda::sanitizer
