// A number that only grows, and waiting for it.
#pragma once

#include <atomic>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/base/spin.h"

namespace ember::driver::sim {

/// The progress of one stream: how many of its tasks are done. A point on it, (timeline, value), is
/// what an event stands for. "Done" means that the number was reached; an empty queue proves
/// nothing, since its last task may be running. A point always refers to work that was submitted
/// before, so waits cannot form a circle. Timelines live as long as the driver.
class Timeline {
 public:
  std::uint64_t reached() const noexcept { return reached_.load(std::memory_order_acquire); }
  bool has_reached(std::uint64_t value) const noexcept { return reached() >= value; }

  /// One more task is done. Called by the stream's worker only.
  void advance() noexcept {
    // With waiters_ first, a waiter either sees the new value or is seen here (both are seq_cst).
    reached_.fetch_add(1);
    if (waiters_.load() == 0) return;
    const MutexLock lock(mutex_);
    moved_.notify_all();
  }

  /// Blocks until the value is reached.
  void wait(std::uint64_t value) noexcept {
    if (has_reached(value) || spin_briefly([&] { return has_reached(value); })) return;
    waiters_.fetch_add(1);
    {
      const MutexLock lock(mutex_);
      while (reached_.load() < value) moved_.wait(mutex_);
    }
    waiters_.fetch_sub(1);
  }

 private:
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<int> waiters_{0};
  Mutex mutex_;
  Condition moved_;
};

/// What an event stands for, and what a waiting task waits for.
struct Point {
  Timeline* timeline = nullptr;
  std::uint64_t value = 0;
  bool reached() const noexcept { return timeline == nullptr || timeline->has_reached(value); }
};

}  // namespace ember::driver::sim
