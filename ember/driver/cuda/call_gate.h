// Keeps a reset of a device apart from calls on it that other threads are making.
#pragma once

#include <atomic>
#include <cstdint>

#include "ember/base/mutex.h"

namespace ember::inline v0::driver::cuda {

/// What a thread is doing with this driver. Written by that thread alone.
struct alignas(64) CallsOfThread {
  std::atomic<std::uint64_t> devices{0};  ///< on which it is inside a call, a bit each
  bool in_host_function = false;  ///< it runs one for the driver; CUDA permits no calls there
  bool in_batch = false;          ///< its launches may be kept (Driver::batch_begin)
  bool had_context = false;       ///< the driver has made one current for it
  std::uint64_t timed = 0;        ///< the WorkClock's number of what it enqueues next; 0: none
  std::atomic<bool> used{true};   ///< by a living thread
  CallsOfThread* next = nullptr;

  /// The calling thread's; made at its first call, and used again by another thread after its end.
  static CallsOfThread& mine() {
    CallsOfThread* made = this_thread;
    return made != nullptr ? *made : make();
  }

 private:
  static CallsOfThread& make();
  static thread_local constinit CallsOfThread* this_thread;
};

/// One device's gate. Every call on the device passes it; a reset closes it and waits until nobody
/// is inside: CUDA asks that nothing uses a context that is being reset.
///
/// Passing is a store and a load: "I am inside", "is it closed?". For one of the two sides to see
/// the other, each needs a memory barrier in between. A barrier in every call would be a tenth of
/// recording an event; so a closing thread, which has time, has the kernel make one on every
/// processor that runs this process (membarrier). Where the kernel cannot, each call makes its own.
class CallGate {
 public:
  explicit CallGate(int device) noexcept : bit_(std::uint64_t{1} << (device % 64)) {}
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  /// Goes in; blocks while the gate is closed. Answers what to leave: 0 if the thread is inside
  /// already, for then the outer call is the one that leaves.
  std::uint64_t enter(CallsOfThread& calls) noexcept {
    const std::uint64_t before = calls.devices.load(std::memory_order_relaxed);
    if ((before & bit_) != 0) return 0;
    if (barrier_by_kernel) [[likely]] {
      calls.devices.store(before | bit_, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order
    } else {
      calls.devices.exchange(before | bit_);
    }
    if (closed_.load()) [[unlikely]]
      wait_until_open(calls);
    return bit_;
  }
  static void leave(CallsOfThread& calls, std::uint64_t entered) noexcept {
    const std::uint64_t inside = calls.devices.load(std::memory_order_relaxed);
    calls.devices.store(inside & ~entered, std::memory_order_release);
  }

  /// Making one lets nobody in any more and blocks until the last one is out; the gate opens again
  /// at its end. For a thread that is inside no gate.
  ///
  /// Of all gates only one is closed at a time. A thread that is inside one may wait at another (a
  /// wait between devices passes two), so two closed ones might wait for each other's threads.
  /// Those that a single one waits for stop at no gate.
  class Closed {
   public:
    explicit Closed(CallGate& gate) noexcept : alone_(closing), gate_(gate) { gate_.close(); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;
    ~Closed() { gate_.open(); }

   private:
    const MutexLock alone_;
    CallGate& gate_;
  };

 private:
  static const bool barrier_by_kernel;
  static Mutex closing;  ///< held while a gate is closed

  void close() noexcept;
  void open() noexcept;
  void wait_until_open(CallsOfThread& calls) noexcept;

  const std::uint64_t bit_;  // devices 64 apart share one, and wait for each other's calls
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  Condition opened_;
};

}  // namespace ember::inline v0::driver::cuda
