#include "ember/sanitizer/written.h"

#include <algorithm>
#include <iterator>

namespace ember::inline v0::cuda::sanitizer {
namespace {

/// Calls `visit(first, last)` for the runs, until it answers false.
template <class Visit>
bool each_run(const Pattern& pattern, std::size_t dim, std::uintptr_t first, const Visit& visit) {
  if (dim == pattern.dims) return visit(first, first + pattern.run);
  const Pattern::Dim& along = pattern.dim[dim];
  for (std::uint64_t i = 0; i < along.count; ++i)
    if (!each_run(pattern, dim + 1, first + i * along.step, visit)) return false;
  return true;
}

}  // namespace

/// Whether its runs are known, and it takes few enough steps to go through them.
bool Written::is_short(const Bytes& bytes) const noexcept {
  const Pattern& pattern = *bytes.pattern;
  if (!pattern.exact) return false;
  std::uint64_t runs = 1;
  for (std::size_t i = 0; i < pattern.dims; ++i) {
    if (pattern.dim[i].count > most()) return false;
    runs *= pattern.dim[i].count;
    if (runs > most()) return false;
  }
  return true;
}

void Written::add(Range range) {
  if (range.empty()) return;
  auto at = intervals_.upper_bound(range.first);
  if (at != intervals_.begin() && std::prev(at)->second >= range.first) --at;
  while (at != intervals_.end() && at->first <= range.last) {
    range.first = std::min(range.first, at->first);
    range.last = std::max(range.last, at->second);
    at = intervals_.erase(at);
  }
  intervals_.emplace_hint(at, range.first, range.last);
}

void Written::add(const Bytes& bytes) {
  if (all_) return;
  if (bytes.dense() || !is_short(bytes)) {
    if (bytes.dense() || bound_ == Bound::above) add(Range{bytes.first, bytes.last});
  } else {
    (void)each_run(*bytes.pattern, 0, bytes.first, [&](std::uintptr_t first, std::uintptr_t last) {
      add(Range{first, last});
      return true;
    });
  }
  if (intervals_.size() <= most()) return;
  if (bound_ == Bound::above)
    add_all();
  else
    intervals_.clear();
}

void Written::add_all() {
  all_ = true;
  intervals_.clear();
}

Written::Range Written::missing(Range range) const {
  auto at = intervals_.upper_bound(range.first);
  if (at != intervals_.begin()) range.first = std::max(range.first, std::prev(at)->second);
  if (at != intervals_.end()) range.last = std::min(range.last, std::max(range.first, at->first));
  return range;
}

Written::Range Written::missing(const Bytes& bytes) const {
  if (all_) return {};
  const Range whole = missing(Range{bytes.first, bytes.last});
  if (bytes.dense() || whole.empty()) return whole;
  // Of what is not gone through, only that nothing was written anywhere between says enough.
  if (!is_short(bytes) && bound_ == Bound::below) return whole;
  if (!is_short(bytes))
    return whole.first == bytes.first && whole.last == bytes.last ? whole : Range{};
  Range found;
  (void)each_run(*bytes.pattern, 0, bytes.first, [&](std::uintptr_t first, std::uintptr_t last) {
    found = missing(Range{first, last});
    return found.empty();
  });
  return found;
}

}  // namespace ember::inline v0::cuda::sanitizer
