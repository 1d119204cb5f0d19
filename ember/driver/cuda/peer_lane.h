// Where work runs that touches the memory of another device and is asked for on a default stream.
//
// CUDA orders such work among what is on the default streams of both devices: it waits for whatever
// the other one's holds, and holds that up in turn. The seam promises that work is in the order of
// its own stream only. So it runs on a stream of this driver's, between two events.
#pragma once

#include "ember/base/mutex.h"
#include "ember/driver/cuda/api.h"

namespace ember::driver::cuda {

/// The side stream of one device's default stream, made at the first need. Thread-safe.
class PeerLane {
 public:
  /// Calls `enqueue(stream)`, which puts work on the stream that it is given, so that the work is
  /// in the order of the default stream of the device, whose context is current. Blocks if
  /// `enqueue` does, without holding up other threads, and makes nothing once it is warm.
  template <class Enqueue>
  CUresult run(const Enqueue& enqueue) noexcept {
    CUstream stream = nullptr;
    CUresult result = enter(stream);
    if (result != CUDA_SUCCESS) return result;
    result = enqueue(stream);
    // Even if it failed: part of the work may be on its way.
    const CUresult left = leave();
    return result == CUDA_SUCCESS ? left : result;
  }

  /// After a reset, which took the stream and the events away.
  void forget() noexcept;

 private:
  CUresult make() noexcept EMBER_REQUIRES(mutex_);
  CUresult enter(CUstream& stream) noexcept;
  CUresult leave() noexcept;

  Mutex mutex_;
  CUstream stream_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent before_ EMBER_GUARDED_BY(mutex_) = nullptr;
  CUevent after_ EMBER_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace ember::driver::cuda
