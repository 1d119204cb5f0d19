#include "ember/sanitizer/overlap.h"

#include <algorithm>
#include <numeric>
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
    for (std::uint64_t i = from; i < to && left_ > 0; ++i)
      if (runs(pattern, dim + 1, first + i * along.step)) return true;
    return false;
  }
  bool gave_up() const noexcept { return left_ == 0; }
  static std::uint64_t extent_of(const Pattern& pattern, std::size_t dim) noexcept {
    std::uint64_t extent = pattern.run;
    for (; dim < pattern.dims; ++dim)
      extent += (pattern.dim[dim].count - 1) * pattern.dim[dim].step;
    return extent;
  }

 private:
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
    for (std::uint64_t i = from; i < to && left_ > 0; ++i)
      if (inside(pattern, dim + 1, start + i * along.step, first, last)) return true;
    return false;
  }

  const Bytes& in_;
  std::size_t left_;
};

/// Without the dimensions whose steps are multiples of `step`: their runs lie where these do, some
/// multiple of it further on.
Pattern modulo(const Bytes& bytes, std::uint64_t step) {
  Pattern rest;
  if (bytes.dense()) {
    rest.run = bytes.last - bytes.first;
    return rest;
  }
  rest.run = bytes.pattern->run;
  for (std::size_t i = 0; i < bytes.pattern->dims; ++i)
    if (bytes.pattern->dim[i].step % step != 0) rest.dim[rest.dims++] = bytes.pattern->dim[i];
  return rest;
}

/// Whether the bytes are apart even if every dimension that steps by multiples of `step` went on
/// for ever: as even and odd elements are, or columns of rows. False may also mean that it is not
/// known.
bool apart_modulo(const Bytes& a, const Bytes& b, std::uint64_t step, std::size_t limit) {
  constexpr std::uint64_t kShifts = 4;
  if (step == 0) return false;
  const Pattern of_a = modulo(a, step), of_b = modulo(b, step);
  const std::uint64_t extent_a = Search::extent_of(of_a, 0), extent_b = Search::extent_of(of_b, 0);
  if (extent_a > kShifts * step || extent_b > kShifts * step) return false;
  // Where b's begin, beside a's beginning, at the first of the shifts whose ends reach beyond it.
  const std::uintptr_t start_a = (kShifts + 1) * step + a.first % step;
  Bytes at;
  at.first = start_a;
  at.last = start_a + extent_a;
  if (of_a.dims > 0) at.pattern = std::make_shared<const Pattern>(of_a);
  Search search(at, limit);
  for (std::uintptr_t start = b.first % step; start < at.last; start += step)
    if (search.runs(of_b, 0, start)) return false;
  return !search.gave_up();
}

/// Whether some step shows that the bytes are apart, however many runs there are.
bool apart_modulo_any(const Bytes& a, const Bytes& b, std::size_t limit) {
  for (const Bytes* bytes : {&a, &b})
    for (std::size_t i = 0; !bytes->dense() && i < bytes->pattern->dims; ++i)
      if (apart_modulo(a, b, bytes->pattern->dim[i].step, limit)) return true;
  return false;
}

std::uint64_t common_step(const Bytes& a, const Bytes& b) noexcept {
  std::uint64_t step = 0;
  for (const Bytes* bytes : {&a, &b})
    for (std::size_t i = 0; !bytes->dense() && i < bytes->pattern->dims; ++i)
      step = std::gcd(step, bytes->pattern->dim[i].step);
  return step;
}

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
  if (apart_modulo(a, b, common_step(a, b), limit)) return Overlap::none;
  const Bytes& walked = a.dense() ? b : a;
  Search search(a.dense() ? a : b, limit);
  if (search.runs(*walked.pattern, 0, walked.first)) return Overlap::certain;
  if (!search.gave_up() || apart_modulo_any(a, b, limit)) return Overlap::none;
  return Overlap::possible;
}

}  // namespace ember::inline v0::cuda::sanitizer
