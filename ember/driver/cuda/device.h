// One visible device: its context, how often it was reset, and the fault it is in.
//
// Only primary contexts are used, which are what cudart uses too: kernels that a user starts with
// `<<<>>>`, and other libraries in the process, work on the same memory and streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/status.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/peer_lane.h"
#include "ember/driver/cuda/recent_work.h"
#include "ember/driver/cuda/staging.h"
#include "ember/driver/properties.h"

namespace ember::driver::cuda {

class Device;

/// One call's stay on a device, whose context is the thread's current one meanwhile. At the end the
/// thread has the context again that it came with: the current device of CUDA's runtime, and with
/// it of other libraries in the process, is the one whose context is current. A thread that came
/// without a context keeps the device's, so that it need not be set in every call.
class Visit {
 public:
  Visit() = default;
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    if (came_with_ != nullptr) [[unlikely]]
      api.cuCtxSetCurrent(came_with_);
  }

  Device* operator->() const noexcept { return device_; }
  Device& operator*() const noexcept { return *device_; }

 private:
  friend class Device;
  Device* device_ = nullptr;
  CUcontext came_with_ = nullptr;  ///< null when there is nothing to put back
};

class Device {
 public:
  /// All devices of the driver, this one included.
  using Siblings = std::vector<std::unique_ptr<Device>>;
  Device(int index, CUdevice device, const Siblings& siblings)
      : index_(index), device_(device), siblings_(siblings) {}

  int index() const noexcept { return index_; }
  CUdevice id() const noexcept { return device_; }
  /// How often the device was reset.
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  bool faulted() const noexcept { return faulted_.load(std::memory_order_acquire); }
  RecentWork& recent() noexcept { return recent_; }
  Staging& staging() noexcept { return staging_; }
  PeerLane& peer_lane() noexcept { return peer_lane_; }

  Status properties(DeviceProperties& out) noexcept;

  /// Whether the primary context exists, be it by another library's doing. Never makes it.
  bool active() noexcept;
  /// Whether `context` is this device's; null is nobody's.
  bool owns(CUcontext context) const noexcept {
    return context != nullptr && context == context_.load(std::memory_order_acquire);
  }
  /// The primary context, made at the first need. Refused while the device is in a fault.
  Status context(CUcontext& out) noexcept {
    if (faulted()) [[unlikely]]
      return fault();
    return retain(out);
  }

  /// What every call on the device starts with: refuses while the device is in a fault, otherwise
  /// makes its context the calling thread's current one for the length of the visit.
  Status enter(Visit& visit) noexcept {
    if (faulted()) [[unlikely]]
      return fault();
    return make_current(visit);
  }

  /// What every call ends with: turns CUDA's answer into a Status. `describe` says what was tried,
  /// as text; it is only called on failure. A sticky answer becomes the device's fault.
  template <class Describe>
  Status outcome(CUresult result, Describe&& describe) noexcept {
    if (result == CUDA_SUCCESS) [[likely]]
      return {};
    if (is_sticky(to_code(result))) return enter_fault(to_code(result));
    return failure(result, describe());
  }

  /// For calls on a stream that look at nothing else of the context. The stream knows its own; only
  /// the default stream, and a thread that has no context yet, need a current one. Asking CUDA for
  /// it would be a quarter of what recording an event costs.
  template <class Call, class Describe>
  Status on_stream(CUstream stream, const Call& call, const Describe& describe) noexcept {
    if (faulted()) [[unlikely]]
      return fault();
    Visit visit;
    if (stream == nullptr) EMBER_TRY(make_current(visit));
    CUresult result = call();
    if (result == CUDA_ERROR_INVALID_CONTEXT && stream != nullptr) [[unlikely]] {
      EMBER_TRY(make_current(visit));
      result = call();
    }
    return outcome(result, describe);
  }

  /// Makes a call that enqueues, and notes the operation as one that may fault. It is noted first,
  /// because under CUDA_LAUNCH_BLOCKING=1 the call itself reports the fault.
  template <class Call, class Describe>
  Status enqueue(const RecentWork::Operation& operation, Call&& call,
                 Describe&& describe) noexcept {
    const RecentWork::Number number = recent_.add(operation);
    const CUresult result = call();
    if (result == CUDA_SUCCESS) [[likely]]
      return {};
    refused(number, to_code(result));
    return outcome(result, describe);
  }
  /// The operation was noted and could not be enqueued, so it is no suspect.
  void refused(RecentWork::Number number, Code code) noexcept;

  /// For calls that give something back, which work in a fault too: then CUDA only repeats the
  /// fault, and what was to be released ends with the process.
  template <class Call, class Describe>
  Status release(Call&& call, Describe&& describe) noexcept {
    Visit visit;
    Status status = make_current(visit);
    if (status.ok()) status = outcome(call(), describe);
    return faulted() ? Status() : std::move(status);
  }

  /// The device is in a fault from now on; the first one is kept. Returns it, with
  /// the operations in the detail that may have caused it.
  Status enter_fault(Code code) noexcept;

  /// Destroys the context with everything in it; `forget` is called when nothing made before can be
  /// used any more. Changes nothing if it fails, as it does when the device is in a fault.
  template <class Forget>
  Status reset(Forget&& forget) noexcept {
    MutexLock lock(mutex_);
    EMBER_TRY(destroy_context());
    staging_.forget();
    peer_lane_.forget();
    forget();
    return {};
  }

 private:
  Status retain(CUcontext& out) noexcept;
  // Which context is current is asked of CUDA in every call (cuCtxGetCurrent reads a thread-local
  // variable, some 15 ns): others change it behind our back, such as torch, cudaSetDevice in a
  // user's code, or a kernel's own CUDA column. Remembering what was set last would need their
  // cooperation.
  Status make_current(Visit& visit) noexcept {
    visit.device_ = this;
    const CUcontext wanted = context_.load(std::memory_order_acquire);
    CUcontext current = nullptr;
    if (wanted != nullptr && api.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == wanted)
        [[likely]]
      return {};
    return change_current(visit);
  }
  /// The same where the context is another one, or is yet to be made.
  Status change_current(Visit& visit) noexcept;
  Status fault() noexcept;
  Status destroy_context() noexcept EMBER_REQUIRES(mutex_);

  const int index_;
  const CUdevice device_;
  const Siblings& siblings_;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> faulted_{false};
  /// Null until the first need and after a reset; written under mutex_.
  std::atomic<CUcontext> context_{nullptr};
  RecentWork recent_;
  Staging staging_;
  PeerLane peer_lane_;

  Mutex mutex_;
  Mutex fault_mutex_;  ///< may be taken while mutex_ is held, not the other way round
  Status fault_ EMBER_GUARDED_BY(fault_mutex_);
};

}  // namespace ember::driver::cuda
