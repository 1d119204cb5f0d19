// What one operation of an allocator tells the observer.
#pragma once

#include <vector>

#include "ember/base/mutex.h"
#include "ember/runtime/observer.h"

namespace ember::memory {

/// Lives for one operation. While somebody watches, operations take turns (the watch mutex), and
/// what they report is delivered after the allocator's own locks are gone and before the next
/// operation begins: so an observer sees a free before the reuse of the memory, and may itself
/// allocate. What it allocates is not reported. Costs one load when nobody watches.
class Notices {
 public:
  explicit Notices(Mutex& watch) EMBER_THREAD_NOTE(no_thread_safety_analysis) {
    if (!cuda::observed() || delivering) [[likely]]
      return;
    watch.lock();
    watch_ = &watch;
  }
  ~Notices() EMBER_THREAD_NOTE(no_thread_safety_analysis) {
    if (watch_ == nullptr) [[likely]]
      return;
    delivering = true;
    for (const cuda::Activity& activity : activities_) cuda::notify(activity);
    delivering = false;
    watch_->unlock();
  }
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  bool wanted() const noexcept { return watch_ != nullptr; }
  void add(const cuda::Activity& activity) {
    if (wanted()) activities_.push_back(activity);
  }

 private:
  static inline constinit thread_local bool delivering = false;
  Mutex* watch_ = nullptr;
  std::vector<cuda::Activity> activities_;
};

}  // namespace ember::memory
