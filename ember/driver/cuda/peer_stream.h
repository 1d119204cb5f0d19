// Where copies run that are asked for on a default stream and touch the memory of another device.
//
// CUDA orders such a copy among what is on the default streams of both devices: it waits for
// whatever the other one's holds, and holds that up in turn. The seam promises that a copy is in
// the order of its own stream only. So it runs on a stream of this driver's, between two events.
#pragma once

#include "ember/base/mutex.h"
#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

/// The side stream of one device's default stream, made at the first need. Thread-safe.
class PeerStream {
 public:
  /// Calls `copy(stream)`, which enqueues a copy on the stream that it is given, so that the copy
  /// is in the order of the default stream of the device, whose context is current. Blocks if
  /// `copy` does, without holding up other threads, and makes nothing once it is warm.
  template <class Copy>
  CUresult run(const Copy& copy) noexcept {
    CUstream stream = nullptr;
    CUresult result = enter(stream);
    if (result != CUDA_SUCCESS) return result;
    result = copy(stream);
    // Even if it failed: a part may be on its way.
    const CUresult left = leave(stream);
    return result == CUDA_SUCCESS ? left : result;
  }

  /// After a reset, which took the stream and the events away.
  void forget() noexcept;

 private:
  CUresult make() noexcept EMBER_REQUIRES(mutex_);
  CUresult enter(CUstream& stream) noexcept;
  CUresult leave(CUstream stream) noexcept;

  Mutex mutex_;
  CUstream stream_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent before_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent after_ EMBER_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ember::inline v0::driver::cuda
