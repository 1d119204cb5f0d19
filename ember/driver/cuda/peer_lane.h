// Where copies between two devices run that are asked for on a default stream.
//
// CUDA orders such a copy among the work on the default streams of both devices: it waits for
// whatever the other one's holds, and holds that up in turn. The seam promises that a copy is in
// the order of its own stream only. So it runs on a stream of this driver's, between two events.
#pragma once

#include "ember/base/mutex.h"
#include "ember/driver/cuda/api.h"

namespace ember::driver::cuda {

/// The side stream of one device's default stream, made at the first need. Thread-safe.
class PeerLane {
 public:
  /// Calls `copy(stream)`, which enqueues a copy on the stream that it is given, so that the copy
  /// is in the order of the default stream of the device, whose context is current. Does not block,
  /// and makes nothing once it is warm.
  template <class Copy>
  CUresult run(const Copy& copy) noexcept {
    // One copy at a time: the events stand for one copy each.
    const MutexLock lock(mutex_);
    CUresult result = enter();
    if (result == CUDA_SUCCESS) result = copy(stream_);
    if (result == CUDA_SUCCESS) result = leave();
    return result;
  }

  /// After a reset, which took the stream and the events away.
  void forget() noexcept;

 private:
  CUresult make() noexcept EMBER_REQUIRES(mutex_);
  CUresult enter() noexcept EMBER_REQUIRES(mutex_);
  CUresult leave() noexcept EMBER_REQUIRES(mutex_);

  Mutex mutex_;
  CUstream stream_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent before_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent after_ EMBER_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ember::driver::cuda
