// Host functions on their way through CUDA.
#pragma once

#include <list>

#include "ember/base/mutex.h"
#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

/// Whether the thread is running a host function for this driver. CUDA permits no calls there.
bool in_host_call() noexcept;

/// The host functions of one device that were enqueued and have not been called. CUDA drops what is
/// queued when a device is reset, and tells nobody; what a function owns is destroyed all the same.
/// Thread-safe.
class HostCalls {
 public:
  HostCalls() = default;
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// Enqueues `function(argument)` and then `destroy(argument)` on the stream, whose context is
  /// current. If CUDA refuses, neither is called.
  CUresult enqueue(CUstream stream, void (*function)(void*), void (*destroy)(void*),
                   void* argument);

  /// From here on functions are not called any more; blocks until the one that is running has
  /// returned. Nobody enqueues.
  void begin_reset() noexcept;
  /// After a reset that was done, what is left will not be heard of again.
  void end_reset(bool done) noexcept;
  /// Destroys what was dropped; under no lock.
  void destroy_dropped() noexcept;

 private:
  struct Call {
    HostCalls* owner;
    void (*function)(void*);
    void (*destroy)(void*);
    void* argument;
    std::list<Call>::iterator self;
  };
  static void CUDA_CB run(void* call);

  Mutex mutex_;
  Condition idle_;
  std::list<Call> waiting_ EMBER_GUARDED_BY(mutex_);
  std::list<Call> dropped_ EMBER_GUARDED_BY(mutex_);
  int running_ EMBER_GUARDED_BY(mutex_) = 0;
  bool resetting_ EMBER_GUARDED_BY(mutex_) = false;
};

}  // namespace ember::inline v0::driver::cuda
