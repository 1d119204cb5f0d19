// What happened and was not told yet. Private to runtime/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda::detail {

/// Activities with copies of what they point to. Its memory is used again, so that recording
/// allocates nothing once it has grown.
class Batch {
 public:
  bool empty() const noexcept { return activities_.empty(); }
  void add(const Activity& activity, std::uint32_t thread, std::uint64_t order,
           std::uint64_t stack);
  /// Calls `tell(activity)` for each, in their order, and forgets them.
  template <class Tell>
  void each(const Tell& tell);

 private:
  std::vector<Activity> activities_;
  std::vector<Access> accesses_;
  std::vector<std::int64_t> numbers_;  // sizes and strides of accesses
};

inline void Batch::add(const Activity& activity, std::uint32_t thread, std::uint64_t order,
                       std::uint64_t stack) {
  Activity& added = activities_.emplace_back(activity);
  added.thread = thread;
  added.order = order;
  added.stack = stack;
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
}

}  // namespace ember::inline v0::cuda::detail
