// Host functions on their way through CUDA.
#pragma once

#include <atomic>
#include <list>

#include "ember/base/mutex.h"
#include "ember/base/ref.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/work_times.h"

namespace ember::inline v0::driver::cuda {

/// Whether the thread is running a host function for this driver. CUDA permits no calls there.
bool in_host_call() noexcept;

/// The host functions of one device that were enqueued and have not been called. CUDA drops what is
/// queued when a device is reset or in a fault, and tells nobody; what a function owns is destroyed
/// all the same. Thread-safe.
class HostCalls {
 public:
  HostCalls() = default;
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// Enqueues `function(argument)` and then `destroy(argument)` on the stream, whose context is
  /// current. If CUDA refuses, or the device is in a fault, neither is called.
  /// Notes in `times`, if there are, when it runs.
  CUresult enqueue(CUstream stream, void (*function)(void*), void (*destroy)(void*), void* argument,
                   Ref<WorkTimes> times = {});

  /// The same for a stream that is captured: the function is called by every replay, and destroyed
  /// with the graph.
  CUresult capture(CUgraph graph, CUstream stream, void (*function)(void*), void (*destroy)(void*),
                   void* argument);

  /// From here on a function whose turn comes is dropped; blocks until those that are running have
  /// returned. Calls on the device go on meanwhile: other threads may enqueue, and wait for work
  /// behind a function that was dropped.
  void begin_reset() noexcept;
  /// No call on the device is in progress. After a reset that was done CUDA will not call what is
  /// left, so it is dropped too; after one that failed it will be called.
  void end_reset(bool done) noexcept;
  /// Whether functions were dropped since begin_reset: then work behind them that is done proves
  /// nothing. False again from end_reset on.
  bool dropping() const noexcept { return dropping_.load(std::memory_order_acquire); }

  /// The device is in a fault for good. CUDA will not call what is left, so it is dropped.
  void enter_fault(CUresult fault) noexcept;

  /// Destroys what was dropped, under no lock and as on the thread that calls host functions: with
  /// no calls permitted. Does nothing in a host function.
  void destroy_dropped() noexcept;

 private:
  struct Call {
    HostCalls* owner;
    void (*function)(void*);
    void (*destroy)(void*);
    void* argument;
    std::list<Call>::iterator self;
    Ref<WorkTimes> times{};
  };
  static void CUDA_CB run(void* call);
  struct Captured {
    HostCalls* owner;
    void (*function)(void*);
    void (*destroy)(void*);
    void* argument;
  };
  static void CUDA_CB run_captured(void* call);

  Mutex mutex_;
  Condition idle_;
  std::list<Call> waiting_ EMBER_GUARDED_BY(mutex_);
  std::list<Call> dropped_ EMBER_GUARDED_BY(mutex_);
  /// Destroyed after a fault, in which CUDA might still call one: run() must find that it is over.
  std::list<Call> over_ EMBER_GUARDED_BY(mutex_);
  int enqueuing_ EMBER_GUARDED_BY(mutex_) = 0;  ///< CUDA has not said yet whether it takes them
  int running_ EMBER_GUARDED_BY(mutex_) = 0;
  bool resetting_ EMBER_GUARDED_BY(mutex_) = false;
  CUresult fault_ EMBER_GUARDED_BY(mutex_) = CUDA_SUCCESS;
  std::atomic<bool> dropping_{false};
};

}  // namespace ember::inline v0::driver::cuda
