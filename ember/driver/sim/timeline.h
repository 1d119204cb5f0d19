// A number that only grows, and waiting for it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/mutex.h"
#include "ember/base/sanitizer.h"
#include "ember/base/spin.h"
#include "ember/base/status.h"
#include "ember/driver/sim/seen_stream.h"

namespace ember::inline v0::driver::sim {

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
/// before, so waits cannot form a circle. A task that was dropped is passed over like one that was
/// done, but remembered: whoever waited for it must not take its results for real. Timelines live
/// as long as the driver.
class Timeline {
 public:
  Timeline(const Exit& exit, int device) : exit_(exit), device_(device) {}

  /// Whose work it counts.
  int device() const noexcept { return device_; }
  /// What the thread sanitizer sees of it, where a seed decides.
  SeenOrder& order() noexcept { return order_; }
  std::uint64_t reached() const noexcept { return reached_.load(std::memory_order_acquire); }
  bool has_reached(std::uint64_t value) const noexcept { return reached() >= value; }
  /// The same without order for the thread sanitizer: for looks that only save time.
  bool seems_reached(std::uint64_t value) const noexcept {
    const Unseen look;
    return has_reached(value);
  }

  /// One more task is done. Called by the stream's worker only.
  void advance() noexcept {
    // With waiters_ first, a waiter either sees the new value or is seen here (both are seq_cst).
    reached_.fetch_add(1);
    const Unseen who_waits;  // the waiting thread has no say in what the next task may assume
    if (waiters_.load() != 0) wake();
  }

  /// The task that is next to be done, of that epoch, will not be: called before advance().
  void drop_next(std::uint32_t epoch) {
    const MutexLock lock(mutex_);
    const std::uint64_t number = reached_.load(std::memory_order_relaxed) + 1;
    if (dropped_.empty() || dropped_.back().epoch != epoch) dropped_.push_back({number, 0, epoch});
    dropped_.back().last = number;
    any_dropped_.store(true, std::memory_order_release);
  }
  /// Whether the task was dropped, for a record that was made in that epoch.
  bool was_dropped(std::uint64_t number, std::uint32_t epoch) const {
    if (!any_dropped_.load(std::memory_order_acquire)) [[likely]]
      return false;
    const MutexLock lock(mutex_);
    for (const Range& range : dropped_)
      if (range.epoch == epoch && range.first <= number && number <= range.last) return true;
    return false;
  }

  /// A run begins: what was dropped in the last one no longer matters. Nobody waits.
  void forget_dropped() {
    if (!any_dropped_.load(std::memory_order_acquire)) return;
    const MutexLock lock(mutex_);
    dropped_.clear();
    any_dropped_.store(false, std::memory_order_release);
  }

  /// What became of a wait.
  enum class Waited : std::uint8_t {
    reached,
    given_up,     ///< `stop()` said so
    interrupted,  ///< by the user, see Embedding::interrupted
    exiting,      ///< the thread is leaving the process
  };

  /// Blocks until the value is reached or `stop()` answers true; wake() makes it ask again.
  template <class Stop>
  Waited wait(std::uint64_t value, const Stop& stop) noexcept {
    return wait_for(value, stop, [this]() EMBER_REQUIRES(mutex_) { moved_.wait(mutex_); });
  }
  Waited wait(std::uint64_t value) noexcept {
    return wait(value, [] { return false; });
  }
  /// For a thread of the user's, who may interrupt it.
  Waited wait_interruptibly(std::uint64_t value) noexcept {
    bool interrupted = false;
    const Waited waited = wait_for(
        value, [&] { return interrupted; },
        [&]() EMBER_REQUIRES(mutex_) {
          if (moved_.wait_until(mutex_, std::chrono::steady_clock::now() + kAskEvery)) return;
          mutex_.unlock();  // the interpreter's lock may be held by a thread that submits work here
          interrupted = ember::interrupted();
          mutex_.lock();
        });
    return waited == Waited::given_up ? Waited::interrupted : waited;
  }

  /// Makes all who wait look again.
  void wake() noexcept {
    const MutexLock lock(mutex_);
    moved_.notify_all();
  }

 private:
  static constexpr std::chrono::milliseconds kAskEvery{20};

  /// Tasks that were dropped, from first to last.
  struct Range {
    std::uint64_t first, last;
    std::uint32_t epoch;
  };

  template <class Stop, class Sleep>
  Waited wait_for(std::uint64_t value, const Stop& stop, const Sleep& sleep) noexcept {
    if (has_reached(value) || spin_briefly([&] { return has_reached(value); }))
      return Waited::reached;
    Waited waited = Waited::reached;
    {
      const Unseen sleeping;  // two that wait for the same work tell each other nothing
      waiters_.fetch_add(1);
      const MutexLock lock(mutex_);
      while (reached_.load() < value) {
        if (exit_.refuses()) {
          waited = Waited::exiting;
          break;
        }
        if (stop()) {
          waited = Waited::given_up;
          break;
        }
        sleep();
      }
      waiters_.fetch_sub(1);
    }
    (void)reached();  // seen: what was waited for is done
    return waited;
  }

  const Exit& exit_;
  const int device_;
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<int> waiters_{0};
  std::atomic<bool> any_dropped_{false};
  [[no_unique_address]] SeenOrder order_;
  mutable Mutex mutex_;
  Condition moved_;
  std::vector<Range> dropped_ EMBER_GUARDED_BY(mutex_);
};

/// What an event stands for, and what a waiting task waits for: that a task is done, as recorded in
/// an epoch of the timeline's device.
struct Point {
  Timeline* timeline = nullptr;
  std::uint64_t value = 0;
  std::uint32_t epoch = 0;
  bool reached() const noexcept { return timeline == nullptr || timeline->has_reached(value); }
  /// The calling thread knows that it is reached.
  void see() const noexcept {
    if (timeline != nullptr) timeline->order().seen(value);
  }
};

}  // namespace ember::inline v0::driver::sim
