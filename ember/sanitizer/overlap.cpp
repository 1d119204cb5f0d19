#include "ember/sanitizer/overlap.h"

#include <algorithm>
#include <utility>

namespace ember::inline v0::cuda::sanitizer {
namespace {

/// Looks for a common byte, as long as there are steps left.
class Search {
 public:
  Search(const Bytes& in, std::size_t limit) : in_(in), left_(limit) {}

  /// Whether the runs of a pattern from `dim` on, beginning at `first`, touch the other bytes.
  bool runs(const Pattern& pattern, std::size_t dim, std::uintptr_t first) {
    if (left_ == 0) return false;
    --left_;
    if (dim == pattern.dims) return touches(first, first + pattern.run);
    const Pattern::Dim& along = pattern.dim[dim];
    // Only those whose bytes, up to the end of their inner dimensions, reach into the other's.
    const std::uint64_t extent = extent_of(pattern, dim + 1);
    const auto [from, to] = steps(first, along, extent, in_.first, in_.last);
    for (std::uint64_t i = from; i < to; ++i)
      if (runs(pattern, dim + 1, first + i * along.step)) return true;
    return false;
  }
  bool gave_up() const noexcept { return left_ == 0; }

 private:
  static std::uint64_t extent_of(const Pattern& pattern, std::size_t dim) noexcept {
    std::uint64_t extent = pattern.run;
    for (; dim < pattern.dims; ++dim)
      extent += (pattern.dim[dim].count - 1) * pattern.dim[dim].step;
    return extent;
  }
  /// Which steps of a dimension begin before `last` and end after `first`.
  static std::pair<std::uint64_t, std::uint64_t> steps(std::uintptr_t start,
                                                       const Pattern::Dim& along,
                                                       std::uint64_t extent, std::uintptr_t first,
                                                       std::uintptr_t last) noexcept {
    std::uint64_t from = 0;
    if (start + extent <= first) from = (first - (start + extent)) / along.step + 1;
    const std::uint64_t to = start >= last ? 0 : (last - start - 1) / along.step + 1;
    return {from, std::min(to, along.count)};
  }
  /// Whether [first, last) touches the other bytes.
  bool touches(std::uintptr_t first, std::uintptr_t last) {
    if (first >= in_.last || last <= in_.first) return false;
    return in_.dense() || inside(*in_.pattern, 0, in_.first, first, last);
  }
  bool inside(const Pattern& pattern, std::size_t dim, std::uintptr_t start, std::uintptr_t first,
              std::uintptr_t last) {
    if (left_ == 0) return false;
    --left_;
    if (dim == pattern.dims) return start < last && first < start + pattern.run;
    const Pattern::Dim& along = pattern.dim[dim];
    const auto [from, to] = steps(start, along, extent_of(pattern, dim + 1), first, last);
    for (std::uint64_t i = from; i < to; ++i)
      if (inside(pattern, dim + 1, start + i * along.step, first, last)) return true;
    return false;
  }

  const Bytes& in_;
  std::size_t left_;
};

}  // namespace

Bytes bytes_of(const Access& access) {
  Bytes bytes;
  bytes.first = reinterpret_cast<std::uintptr_t>(access.address);
  bytes.last = bytes.first + access.bytes;
  if (access.sizes.empty() || access.item == 0) return bytes;
  Pattern pattern;
  pattern.run = access.item;
  for (std::size_t i = 0; i < access.sizes.size(); ++i) {
    if (access.sizes[i] <= 1 || access.strides[i] == 0) continue;
    if (access.strides[i] < 0 || pattern.dims == Pattern::kDims) {
      pattern.exact = false;
      break;
    }
    pattern.dim[pattern.dims++] = {static_cast<std::uint64_t>(access.sizes[i]),
                                   static_cast<std::uint64_t>(access.strides[i]) * access.item};
  }
  const auto end = pattern.dim.begin() + static_cast<std::ptrdiff_t>(pattern.dims);
  std::sort(pattern.dim.begin(), end,
            [](const Pattern::Dim& a, const Pattern::Dim& b) { return a.step > b.step; });
  // Adjacent runs are one.
  while (pattern.dims > 0 && pattern.dim[pattern.dims - 1].step <= pattern.run) {
    Pattern::Dim& inner = pattern.dim[--pattern.dims];
    pattern.run += (inner.count - 1) * inner.step;
    inner = {};
  }
  if (pattern.dims == 0 && pattern.exact) return bytes;
  bytes.pattern = std::make_shared<const Pattern>(pattern);
  return bytes;
}

Overlap overlap(const Bytes& a, const Bytes& b, std::size_t limit) {
  if (a.first >= b.last || b.first >= a.last) return Overlap::none;
  if (a.dense() && b.dense()) return Overlap::certain;
  if ((!a.dense() && !a.pattern->exact) || (!b.dense() && !b.pattern->exact))
    return Overlap::possible;
  const Bytes& walked = a.dense() ? b : a;
  Search search(a.dense() ? a : b, limit);
  if (search.runs(*walked.pattern, 0, walked.first)) return Overlap::certain;
  return search.gave_up() ? Overlap::possible : Overlap::none;
}

}  // namespace ember::inline v0::cuda::sanitizer
