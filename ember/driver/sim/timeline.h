// A number that only grows, and waiting for it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/base/spin.h"

namespace ember::driver::sim {

/// The end of the process. From stop() on nothing more is run. The thread that destroys the static
/// objects must not wait for work then, and is told so; every other thread just stays where it is
/// until the process is gone, as it would in any other wait.
class Exit {
 public:
  void stop() noexcept {
    leaving_ = pthread_self();
    stopping_ = true;
  }
  bool stopping() const noexcept { return stopping_.load(); }
  /// Whether the calling thread is the one that is leaving.
  bool refuses() const noexcept {
    return stopping() && pthread_equal(leaving_, pthread_self()) != 0;
  }

 private:
  pthread_t leaving_{};  // written before stopping_
  std::atomic<bool> stopping_{false};
};

/// The progress of one stream: how many of its tasks are done. A point on it, (timeline, value), is
/// what an event stands for. "Done" means that the number was reached; an empty queue proves
/// nothing, since its last task may be running. A point always refers to work that was submitted
/// before, so waits cannot form a circle. Timelines live as long as the driver.
class Timeline {
 public:
  explicit Timeline(const Exit& exit) : exit_(exit) {}

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

  /// Blocks until the value is reached; false when the thread is leaving the process instead.
  bool wait(std::uint64_t value) noexcept {
    if (has_reached(value) || spin_briefly([&] { return has_reached(value); })) return true;
    waiters_.fetch_add(1);
    {
      const MutexLock lock(mutex_);
      while (reached_.load() < value && !exit_.refuses()) moved_.wait(mutex_);
    }
    waiters_.fetch_sub(1);
    return has_reached(value);
  }

 private:
  const Exit& exit_;
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
