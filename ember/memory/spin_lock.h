// A lock for sections of a few dozen nanoseconds.
#pragma once

#include <sched.h>

#include <atomic>

#include "ember/base/mutex.h"

namespace ember::memory {

/// Like Mutex, for the allocator's hot locks. Unlocking is a plain store, where a mutex needs
/// an atomic exchange to look for sleepers: that is a quarter of an uncontended allocation. The
/// price is that who waits spins, and then yields its time slice, until the lock is free: so
/// nothing slow may be done under it, least of all a driver call.
class EMBER_THREAD_NOTE(capability("mutex")) SpinLock {
 public:
  bool try_lock() noexcept EMBER_THREAD_NOTE(try_acquire_capability(true)) {
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept EMBER_THREAD_NOTE(acquire_capability()) {
    for (int spins = 0; !try_lock(); ++spins) pause(spins);
  }
  void unlock() noexcept EMBER_THREAD_NOTE(release_capability()) {
    locked_.store(false, std::memory_order_release);
  }

  /// What a thread does that waits, for the `spins`th time.
  static void pause(int spins) noexcept {
    if (spins < kSpins)
      relax();
    else
      sched_yield();
  }

 private:
  static constexpr int kSpins = 200;  // a few microseconds: longer than any holder that is running
  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::atomic<bool> locked_{false};
};

class EMBER_THREAD_NOTE(scoped_lockable) SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept EMBER_THREAD_NOTE(acquire_capability(lock))
      : lock_(lock) {
    lock_.lock();
  }
  ~SpinGuard() EMBER_THREAD_NOTE(release_capability()) { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace ember::memory
