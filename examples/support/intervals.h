// Stretches of time, to find out how much of one kind of work happened during another.
#pragma once

#include <algorithm>
#include <vector>

namespace example {

struct Interval {
  double begin = 0;
  double end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// In order, and without two that overlap or touch.
using Timeline = std::vector<Interval>;

/// The union of any intervals. Empty and backward ones count as nothing.
inline Timeline unite(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return !(i.begin < i.end); });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Timeline united;
  for (const Interval& next : intervals) {
    if (!united.empty() && next.begin <= united.back().end)
      united.back().end = std::max(united.back().end, next.end);
    else
      united.push_back(next);
  }
  return united;
}

inline double length(const Timeline& timeline) {
  double sum = 0;
  for (const Interval& i : timeline) sum += i.end - i.begin;
  return sum;
}

/// What lies in both.
inline Timeline intersect(const Timeline& a, const Timeline& b) {
  Timeline both;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    const Interval common{std::max(i->begin, j->begin), std::min(i->end, j->end)};
    if (common.begin < common.end) both.push_back(common);
    if (i->end < j->end)
      ++i;
    else
      ++j;
  }
  return both;
}

}  // namespace example
