// A lock that costs the one thread that uses it no atomic exchange.
#pragma once

#include <atomic>
#include <cstdint>

#include "ember/memory/spin_lock.h"

namespace ember::memory {

/// Like SpinLock. After a thread has taken it many times with nobody else in between, the lock
/// leans towards that thread: it then only says that it is inside and looks whether the lock still
/// leans its way. Two plain accesses, where an exchange would wait until everything written before
/// has reached the cache; that was half of an uncontended free.
///
/// The other side pays. A thread that finds the lock leaning towards another one takes that back,
/// and has the kernel run a memory barrier on every processor that runs this process
/// (membarrier(2), some microseconds): after that either the owner is seen inside, or it sees that
/// the lock is no longer its own. Each time, it takes longer until the lock leans again. Where the
/// kernel has no such call it never does.
///
/// A thread may hold one such lock at a time.
class EMBER_THREAD_NOTE(capability("mutex")) BiasedLock {
 public:
  /// False only if another thread holds the lock.
  bool try_lock() noexcept EMBER_THREAD_NOTE(try_acquire_capability(true)) {
    if (enter_as_owner()) [[likely]]
      return true;
    if (!shared_.try_lock()) return false;
    (void)settle();
    return true;
  }
  /// True if another thread had it, so that this one had to wait.
  bool lock() noexcept EMBER_THREAD_NOTE(acquire_capability())
      EMBER_THREAD_NOTE(no_thread_safety_analysis) {
    if (enter_as_owner()) [[likely]]
      return false;
    const bool taken = !shared_.try_lock();
    if (taken) shared_.lock();
    const bool inside = settle();
    return taken || inside;
  }
  void unlock() noexcept EMBER_THREAD_NOTE(release_capability())
      EMBER_THREAD_NOTE(no_thread_safety_analysis) {
    Owner* const me = my_owner;
    if (me != nullptr && me->inside.load(std::memory_order_relaxed))
      me->inside.store(false, std::memory_order_release);
    else
      shared_.unlock();
  }

 private:
  static constexpr std::uint32_t kFirstRun = 1 << 10;
  static constexpr std::uint32_t kLongestRun = 1 << 20;

  /// What a thread says about itself, as owner of whichever lock leans towards it. Written by that
  /// thread only: one that is late to see that it has lost a lock must not disturb the next owner.
  /// Never destroyed; another thread's once its thread has ended.
  struct alignas(64) Owner {
    std::atomic<bool> inside{false};
    Owner* next = nullptr;  // while no thread's
  };
  class Owners;

  bool enter_as_owner() noexcept {
    Owner* const me = my_owner;
    if (me == nullptr || owner_.load(std::memory_order_relaxed) != me) return false;
    me->inside.store(true, std::memory_order_relaxed);
    // Not before the store, as the compiler sees it; the processor is told by who takes the lock
    // away.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (owner_.load(std::memory_order_acquire) == me) [[likely]]
      return true;
    me->inside.store(false, std::memory_order_release);
    return false;
  }
  /// With shared_ taken. True if the owner was inside.
  bool settle() noexcept {
    bool inside = false;
    if (owner_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      inside = take_back();
    if (last_ != &my_owner) [[unlikely]]
      begin_run();
    else if (--until_biased_ == 0) [[unlikely]]
      lean();
    return inside;
  }
  bool take_back() noexcept;
  void begin_run() noexcept;
  void lean() noexcept;

  static thread_local constinit Owner* my_owner [[gnu::tls_model("initial-exec")]];

  std::atomic<Owner*> owner_{nullptr};  // changed under shared_
  SpinLock shared_;                     // for everybody else
  // Under shared_. Who took it last is only a guess: a new thread may look like one that has ended.
  const void* last_ = nullptr;
  std::uint32_t run_ = kFirstRun;
  std::uint32_t until_biased_ = kFirstRun;
};

class EMBER_THREAD_NOTE(scoped_lockable) BiasedGuard {
 public:
  explicit BiasedGuard(BiasedLock& lock) noexcept EMBER_THREAD_NOTE(acquire_capability(lock))
      : lock_(lock) {
    (void)lock_.lock();
  }
  ~BiasedGuard() EMBER_THREAD_NOTE(release_capability()) { lock_.unlock(); }
  BiasedGuard(const BiasedGuard&) = delete;
  BiasedGuard& operator=(const BiasedGuard&) = delete;

 private:
  BiasedLock& lock_;
};

}  // namespace ember::memory
