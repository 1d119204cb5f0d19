// A mutex that clang's thread-safety analysis understands: what a lock guards is written where the
// data is (EMBER_GUARDED_BY) and checked by `./dev lint`. With other compilers the notes vanish.
//
// It is the lock of this library. Another kind says at its definition what it is needed for:
// std::shared_mutex where many read at once, std::recursive_mutex where users hold it around calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>

#if defined(__clang__)
#define EMBER_THREAD_NOTE(x) __attribute__((x))
#else
#define EMBER_THREAD_NOTE(x)
#endif

#define EMBER_GUARDED_BY(m) EMBER_THREAD_NOTE(guarded_by(m))
#define EMBER_REQUIRES(...) EMBER_THREAD_NOTE(requires_capability(__VA_ARGS__))
#define EMBER_EXCLUDES(...) EMBER_THREAD_NOTE(locks_excluded(__VA_ARGS__))

namespace ember::inline v0 {

class EMBER_THREAD_NOTE(capability("mutex")) Mutex {
 public:
  void lock() EMBER_THREAD_NOTE(acquire_capability()) { mutex_.lock(); }
  void unlock() EMBER_THREAD_NOTE(release_capability()) { mutex_.unlock(); }
  bool try_lock() EMBER_THREAD_NOTE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class EMBER_THREAD_NOTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) EMBER_THREAD_NOTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() EMBER_THREAD_NOTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Makes a lock anew in the child of a fork, in which the thread that held it does not exist. By
/// single bytes and unseen by the thread sanitizer, which takes that thread to be still there and
/// would call this a race.
template <class Lock>
__attribute__((no_sanitize("thread"))) void renew_in_child(Lock& lock) noexcept {
  static constinit Lock fresh;
  auto* to = reinterpret_cast<volatile unsigned char*>(&lock);
  const auto* from = reinterpret_cast<const volatile unsigned char*>(&fresh);
  for (std::size_t i = 0; i < sizeof(Lock); ++i) to[i] = from[i];
}

/// A condition variable for Mutex. As always: wait in a loop that checks what is waited for.
class Condition {
 public:
  void wait(Mutex& mutex) EMBER_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// False when `until` passed without a notification.
  template <class TimePoint>
  bool wait_until(Mutex& mutex, const TimePoint& until) EMBER_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool notified = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ember::inline v0
