// Host threads whose order a seed decides. docs/order.md, "Several host threads", is the guide.
//
// Where a seed decides (runtime/simulation.h), only one of the threads that were started here, and
// the one that started the first of them, runs at a time. At points, which are every call that
// enqueues, asks or waits for work and every call of these classes, the seed says which one goes
// on. So what several threads do is the same in every run with that seed. Elsewhere these are
// ordinary threads, mutexes and conditions, only slower.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "ember/base/export.h"

namespace ember::inline v0::sim {

/// A thread that takes turns. Not copyable; may be moved.
class thread {
 public:
  /// No thread.
  thread() noexcept = default;
  /// Starts one that calls `body`, which must not throw (the process would end, as with
  /// std::thread). Makes simulated devices that a seed decides about, if there are none yet, with
  /// the errors of cuda::init(). ValueError for an empty function; std::system_error if there can
  /// be no thread. A point. Does not wait for the thread to run.
  EMBER_API explicit thread(std::function<void()> body);
  thread(thread&&) noexcept = default;
  /// Joins the one that it was before.
  EMBER_API thread& operator=(thread&& other) noexcept;
  /// Joins.
  EMBER_API ~thread();

  bool joinable() const noexcept { return thread_.joinable(); }
  /// Blocks until `body` has returned. Error without a thread. A point.
  EMBER_API void join();

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

/// A mutex for such threads; std::lock_guard and std::unique_lock take it. Not recursive: where a
/// seed decides, a thread that locks it again ends the process with a report, as every deadlock
/// does; elsewhere it waits for ever.
class mutex {
 public:
  mutex() = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  /// Blocks until it is free. A point.
  EMBER_API void lock();
  /// False if it is not free. A point. Does not block.
  EMBER_API bool try_lock();
  /// Error if the calling thread does not hold it. A point.
  EMBER_API void unlock();

 private:
  friend class condition;
  class Free;
  bool release() noexcept;  // under the lock of all turns

  bool held_ = false;
  std::uint32_t holder_ = 0;     // its number among those that take turns
  std::thread::id holder_id_{};  // the same in every thread
};

/// A condition for such threads. Nobody wakes without a reason. notify_one() wakes the one that has
/// waited longest, so that no seed has to be asked.
class condition {
 public:
  condition() = default;
  condition(const condition&) = delete;
  condition& operator=(const condition&) = delete;

  /// Unlocks, blocks until it is notified, and locks again. Error if the lock does not hold its
  /// mutex. Points.
  EMBER_API void wait(std::unique_lock<mutex>& lock);
  template <class Predicate>
  void wait(std::unique_lock<mutex>& lock, Predicate done) {
    while (!done()) wait(lock);
  }
  /// Points. Do not block.
  EMBER_API void notify_one();
  EMBER_API void notify_all();

 private:
  class Notice;
  std::deque<Notice*> waiting_;  // under the lock of all turns
};

/// A point: where a seed decides, another thread may go on. Does nothing else.
EMBER_API void yield();

}  // namespace ember::inline v0::sim
