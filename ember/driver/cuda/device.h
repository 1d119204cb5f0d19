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
#include "ember/driver/cuda/batch.h"
#include "ember/driver/cuda/call_gate.h"
#include "ember/driver/cuda/host_calls.h"
#include "ember/driver/cuda/launch_log.h"
#include "ember/driver/cuda/peer_stream.h"
#include "ember/driver/cuda/recent_work.h"
#include "ember/driver/cuda/staging.h"
#include "ember/driver/properties.h"

namespace ember::inline v0::driver::cuda {

class Device;

/// One call on a device: it passes the device's gate and, if it needs to, has the device's context
/// as the thread's current one meanwhile. At the end the thread has the context again that it came
/// with: the current device of CUDA's runtime, and with it of other libraries in the process, is
/// the one whose context is current. A thread that came without a context keeps the device's, so
/// that it need not be set in every call.
class ContextGuard {
 public:
  ContextGuard() = default;
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    if (came_with_ != nullptr) [[unlikely]]
      api.cuCtxSetCurrent(came_with_);
    if (calls_ != nullptr) CallGate::leave(*calls_, entered_);
  }

  bool admitted() const noexcept { return device_ != nullptr; }
  Device* operator->() const noexcept { return device_; }
  Device& operator*() const noexcept { return *device_; }

 private:
  friend class Device;
  Device* device_ = nullptr;
  CallsOfThread* calls_ = nullptr;  ///< the thread's
  std::uint64_t entered_ = 0;       ///< the gate to leave
  CUcontext came_with_ = nullptr;   ///< null when there is nothing to put back
};

class Device {
 public:
  /// All devices of the driver, this one included.
  using Siblings = std::vector<std::unique_ptr<Device>>;
  Device(int index, CUdevice device, const Siblings& siblings)
      : index_(index), device_(device), siblings_(siblings), gate_(index) {}

  int index() const noexcept { return index_; }
  CUdevice id() const noexcept { return device_; }
  /// How often the device was reset.
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  bool faulted() const noexcept { return faulted_.load(std::memory_order_acquire); }
  RecentWork& recent() noexcept { return recent_; }
  LaunchLog& launch_log() noexcept { return launch_log_; }
  Staging& staging() noexcept { return staging_; }
  PeerStream& peer_stream() noexcept { return peer_stream_; }
  HostCalls& host_calls() noexcept { return host_calls_; }
  Batches& batches() noexcept { return batches_; }

  Status properties(DeviceProperties& out) noexcept;
  Status uuid(std::array<std::uint8_t, 16>& out) noexcept;

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

  /// What every call on the device starts with: passes the gate, so that no reset comes in between
  /// while the guard lives. From here on the epoch stays what it is. False in a host function,
  /// where CUDA permits no calls. Doing it again with one guard does nothing. Whatever the call is,
  /// it comes behind the launches that batches keep.
  bool admits(ContextGuard& guard) noexcept {
    if (guard.device_ != nullptr) return true;
    if (!admits_launch(guard)) [[unlikely]]
      return false;
    if (batches_.any()) [[unlikely]]
      hand_over(guard);
    return true;
  }
  /// The same for a launch that is to be kept with the others.
  bool admits_launch(ContextGuard& guard) noexcept {
    CallsOfThread& calls = CallsOfThread::mine();
    if (calls.in_host_function) [[unlikely]]
      return false;
    guard.device_ = this;
    guard.calls_ = &calls;
    guard.entered_ = gate_.enter(calls);
    return true;
  }
  /// The same; Code::not_permitted where it is false.
  Status admit(ContextGuard& guard) noexcept {
    if (admits(guard)) [[likely]]
      return {};
    return refuse_in_host_call();
  }
  static Status refuse_in_host_call() noexcept;
  /// For calls that need a context: admits, refuses while the device is in a fault, and makes its
  /// context the calling thread's current one for the length of the guard.
  Status enter(ContextGuard& guard) noexcept {
    EMBER_TRY(admit(guard));
    if (faulted()) [[unlikely]]
      return fault();
    if (batches_.failed()) [[unlikely]]
      return batches_.take_failure();
    return make_current(guard);
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

  /// For calls on a stream that look at nothing else of the context; the guard was admitted. The
  /// stream knows its own; only the default stream, and a thread that never had a context from
  /// here, need a current one. Asking CUDA for it would be a quarter of what recording an event
  /// costs.
  template <class Call, class Describe>
  Status on_stream(ContextGuard& guard, CUstream stream, const Call& call,
                   const Describe& describe) noexcept {
    if (faulted()) [[unlikely]]
      return fault();
    if (batches_.failed()) [[unlikely]]
      return batches_.take_failure();
    if (stream == nullptr || !guard.calls_->had_context) EMBER_TRY(make_current(guard));
    CUresult result = call();
    if (result == CUDA_ERROR_INVALID_CONTEXT && stream != nullptr) [[unlikely]] {
      EMBER_TRY(make_current(guard));
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
    if (result == CUDA_SUCCESS) [[likely]] {
      launch_log_.add(operation, epoch());
      return {};
    }
    refused(number, to_code(result));
    return outcome(result, describe);
  }
  /// The operation was noted and could not be enqueued, so it is no suspect.
  void refused(RecentWork::Number number, Code code) noexcept;

  /// After a launch that was noted under `number` and failed.
  Status launch_failed(RecentWork::Number number, const char* kernel,
                       const Status& status) noexcept;

  /// For calls that give something back, which work in a fault too: then CUDA only repeats the
  /// fault, and what was to be released ends with the process.
  template <class Call, class Describe>
  Status release(ContextGuard& guard, Call&& call, Describe&& describe) noexcept {
    EMBER_TRY(admit(guard));
    Status status = make_current(guard);
    if (status.ok()) status = outcome(call(), describe);
    return faulted() ? Status() : std::move(status);
  }

  /// The device is in a fault from now on; the first one is kept. Returns it, with
  /// the operations in the detail that may have caused it.
  Status enter_fault(Code code) noexcept;

  /// What a call that found work done ends with, inside the gate: Code::context_is_destroyed if not
  /// all of it was done, of what had been enqueued in the epoch `since`.
  ///
  /// A reset waits for the calls in progress before it destroys the context, so what they wait for
  /// is done. Not so host functions, which are dropped before, and what was enqueued before a reset
  /// that the call met at the gate.
  Status all_done(std::uint32_t since) noexcept {
    if (epoch() == since && !host_calls_.dropping()) [[likely]]
      return {};
    return lost_to_reset();
  }

  /// Destroys the context with everything in it, once no call is in progress; `forget` is called
  /// before the next one begins. Changes nothing if it fails, as it does when the device is in a
  /// fault; except that host functions whose turn came meanwhile are lost.
  template <class Forget>
  Status reset(Forget&& forget) noexcept {
    if (in_host_call()) return refuse_in_host_call();
    Status status;
    {
      const MutexLock one_at_a_time(reset_mutex_);
      status = may_reset();
      if (status.ok()) {
        // First the host functions: one that is running may wait for a thread that calls.
        host_calls_.begin_reset();
        const CallGate::Closed closed(gate_);
        status = destroy_context();
        if (status.ok()) {
          staging_.forget();
          peer_stream_.forget();
          launch_log_.forget();
          batches_.forget();
          forget();
        }
        host_calls_.end_reset(status.ok());
      }
    }
    host_calls_.destroy_dropped();
    return status;
  }

 private:
  Status retain(CUcontext& out) noexcept;
  // Which context is current is asked of CUDA in every call (cuCtxGetCurrent reads a thread-local
  // variable, some 15 ns): others change it behind our back, such as torch, cudaSetDevice in a
  // user's code, or a kernel's own CUDA implementation. Remembering what was set last would need
  // their cooperation.
  Status make_current(ContextGuard& guard) noexcept {
    const CUcontext wanted = context_.load(std::memory_order_acquire);
    CUcontext current = nullptr;
    if (wanted != nullptr && api.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == wanted)
        [[likely]]
      return {};
    // Not into the guard: one whose address nobody gets lives in registers.
    CUcontext came_with = nullptr;
    EMBER_TRY(change_current(came_with));
    guard.calls_->had_context = true;
    guard.came_with_ = came_with;
    return {};
  }
  /// The same where the context is another one, or is yet to be made. `came_with` is what to put
  /// back.
  Status change_current(CUcontext& came_with) noexcept;
  void hand_over(ContextGuard& guard) noexcept;
  Status fault() noexcept;
  Status may_reset() noexcept;
  Status destroy_context() noexcept EMBER_EXCLUDES(mutex_);
  Status lost_to_reset() noexcept;

  const int index_;
  const CUdevice device_;
  const Siblings& siblings_;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> faulted_{false};
  /// Null until the first need and after a reset; written under mutex_.
  std::atomic<CUcontext> context_{nullptr};
  CallGate gate_;
  RecentWork recent_;
  LaunchLog launch_log_;
  Staging staging_;
  PeerStream peer_stream_;
  HostCalls host_calls_;
  Batches batches_{*this};

  Mutex reset_mutex_;  ///< held for the length of a reset
  Mutex mutex_;
  Mutex fault_mutex_;  ///< may be taken while mutex_ is held, not the other way round
  Status fault_ EMBER_GUARDED_BY(fault_mutex_);
};

}  // namespace ember::inline v0::driver::cuda
