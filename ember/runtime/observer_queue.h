// What happened and was not told yet. Private to runtime/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/driver/work_times.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda::detail {

/// Where and when something was done.
struct Place {
  std::uint32_t thread = 0;
  std::uint64_t stack = 0;
  std::int64_t time = 0;
};

/// Activities with copies of what they point to. Its memory is used again, so that recording
/// allocates nothing once it has grown.
class Batch {
 public:
  bool empty() const noexcept { return activities_.empty(); }
  void add(const Activity& activity, const Place& place, std::uint64_t order);
  /// Calls `tell(activity)` for each, in their order, and forgets them.
  template <class Tell>
  void each(const Tell& tell);

 private:
  std::vector<Activity> activities_;
  std::vector<Access> accesses_;
  std::vector<std::int64_t> numbers_;  // sizes and strides of accesses
  std::vector<Ref<driver::WorkTimes>> times_;
};

inline void Batch::add(const Activity& activity, const Place& place, std::uint64_t order) {
  Activity& added = activities_.emplace_back(activity);
  added.thread = place.thread;
  added.order = order;
  added.stack = place.stack;
  added.time = place.time;
  if (activity.times != nullptr) times_.emplace_back(activity.times);
  for (const Access& access : activity.accesses) {
    accesses_.push_back(access);
    numbers_.insert(numbers_.end(), access.sizes.begin(), access.sizes.end());
    numbers_.insert(numbers_.end(), access.strides.begin(), access.strides.end());
  }
}

template <class Tell>
void Batch::each(const Tell& tell) {
  // Vectors move when they grow, so spans are made here.
  std::size_t access = 0, number = 0;
  const auto take = [&](std::size_t count) {
    const std::span<const std::int64_t> taken(numbers_.data() + number, count);
    number += count;
    return taken;
  };
  for (Activity& activity : activities_) {
    const std::size_t first = access;
    for (; access < first + activity.accesses.size(); ++access) {
      accesses_[access].sizes = take(accesses_[access].sizes.size());
      accesses_[access].strides = take(accesses_[access].strides.size());
    }
    // A list without elements says by its address whether it is known.
    if (access != first) activity.accesses = {accesses_.data() + first, access - first};
    tell(activity);
    if (activity.release != nullptr) activity.release(activity.annotation);
  }
  activities_.clear();
  accesses_.clear();
  numbers_.clear();
  times_.clear();
}

}  // namespace ember::inline v0::cuda::detail
