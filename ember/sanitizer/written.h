// Which bytes of an allocation were ever written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "ember/sanitizer/overlap.h"

namespace ember::inline v0::cuda::sanitizer {

/// A set of bytes, as intervals. Exact as long as it takes few steps and intervals; beyond, bytes
/// count as written, so that what is called missing is missing.
class Written {
 public:
  struct Range {
    std::uintptr_t first = 0, last = 0;
    bool empty() const noexcept { return first >= last; }
  };
  /// Runs of one strided access that are looked at, and intervals that are kept.
  static constexpr std::uint64_t kMost = 4096;

  void add(const Bytes& bytes);
  /// Everything is, from now on.
  void add_all();
  bool all() const noexcept { return all_; }
  /// The first bytes of an access that are not in the set; empty if all are.
  Range missing(const Bytes& bytes) const;

 private:
  void add(Range range);
  Range missing(Range range) const;

  std::map<std::uintptr_t, std::uintptr_t> intervals_;  // first to last; apart from each other
  bool all_ = false;
};

}  // namespace ember::inline v0::cuda::sanitizer
