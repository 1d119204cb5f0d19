// Whether two accesses touch a common byte, with the gaps that strides leave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda::sanitizer {

/// Which bytes of a range are touched: runs of adjacent bytes, in dimensions with steps.
struct Pattern {
  static constexpr std::size_t kDims = 8;
  struct Dim {
    std::uint64_t count = 1, step = 0;  // in bytes
    bool operator==(const Dim&) const = default;
  };
  std::uint64_t run = 1;  ///< adjacent bytes
  std::size_t dims = 0;   ///< beyond the run, the largest step first
  std::array<Dim, kDims> dim{};
  bool exact = true;  ///< false: more dimensions than fit; some of the bytes between are touched

  bool operator==(const Pattern&) const = default;
};

/// The bytes [first, last) and, unless all of them are touched, their pattern.
struct Bytes {
  std::uintptr_t first = 0, last = 0;
  std::shared_ptr<const Pattern> pattern;

  bool dense() const noexcept { return pattern == nullptr; }
  bool operator==(const Bytes& other) const noexcept {
    if (first != other.first || last != other.last || dense() != other.dense()) return false;
    return dense() || *pattern == *other.pattern;
  }
  bool contains(const Bytes& other) const noexcept {
    return first <= other.first && other.last <= last;
  }
};
Bytes bytes_of(const Access& access);

enum class Overlap : std::uint8_t { none, certain, possible };
/// Exact unless it would take more than some twenty times `limit` steps: then `possible`. Runs that
/// the same steps keep apart, as those of even and odd elements, take few, however many there are.
Overlap overlap(const Bytes& a, const Bytes& b, std::size_t limit = 20000);

}  // namespace ember::inline v0::cuda::sanitizer
