// Guards: change what is current for the calling thread, and put it back when they go out of scope.
// They are used by one thread and live on its stack. Leaving a guard never touches a device.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ember/base/export.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda {

/// Makes a device current; only the device changes, streams stay. Entering makes the device ready
/// for use (on CUDA: its context). CUDA's own current device is another matter: ember sets it while
/// it calls CUDA, and for CUDA implementations, and puts it back; code beside ember that calls CUDA
/// sets it itself. A negative index changes nothing. ValueError for a device of another kind,
/// AcceleratorError for one that does not exist.
class [[nodiscard]] EMBER_API DeviceGuard {
 public:
  [[nodiscard]] explicit DeviceGuard(DeviceArg device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  /// Changes the current device again; the original one is kept. Negative: no effect.
  void set_device(DeviceArg device);
  void reset_device(DeviceArg device) { set_device(device); }
  void set_index(int index) { set_device(index); }

  /// The device that was current before, and the one this guard made current last.
  Device original_device() const noexcept { return {Device::Type::cuda, original_}; }
  Device current_device() const noexcept { return {Device::Type::cuda, current_}; }

 private:
  int original_;
  int current_;
};

/// A device guard that may be empty; it can be filled later and emptied again.
class [[nodiscard]] OptionalDeviceGuard {
 public:
  OptionalDeviceGuard() noexcept = default;
  [[nodiscard]] explicit OptionalDeviceGuard(std::optional<DeviceArg> device) {
    if (device) set_device(*device);
  }

  void set_device(DeviceArg device) {
    if (guard_)
      guard_->set_device(device);
    else
      guard_.emplace(device);
  }
  void set_index(int index) { set_device(index); }
  /// Restores the original device and becomes empty.
  void reset() noexcept { guard_.reset(); }

  std::optional<Device> original_device() const noexcept {
    return guard_ ? std::optional(guard_->original_device()) : std::nullopt;
  }
  std::optional<Device> current_device() const noexcept {
    return guard_ ? std::optional(guard_->current_device()) : std::nullopt;
  }

 private:
  std::optional<DeviceGuard> guard_;
};

/// Makes a stream current on its device, and that device current and ready for use. Leaving
/// restores the stream of that device first, then the stream that was current before, on its
/// device, then the device.
class [[nodiscard]] EMBER_API StreamGuard {
 public:
  [[nodiscard]] explicit StreamGuard(const Stream& stream) { enter(stream); }
  ~StreamGuard() { leave(); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

  /// Switches to another stream, perhaps of another device; what this guard changed so far is
  /// restored first. The originals stay what they were.
  void reset_stream(const Stream& stream);

  /// What was current, on the device that was current, before this guard.
  Stream original_stream() const;
  Stream current_stream() const;
  Device original_device() const noexcept { return {Device::Type::cuda, original_device_}; }
  Device current_device() const noexcept { return {Device::Type::cuda, device_}; }

 private:
  void enter(const Stream& stream);
  void leave() noexcept;

  int original_device_ = 0;
  int device_ = 0;                     // the guarded stream's
  Ref<detail::StreamState> replaced_;  // was current on device_; null: the default stream
  Ref<detail::StreamState> original_;  // was current on original_device_, if that is another one
};

/// A stream guard that may be empty.
class [[nodiscard]] OptionalStreamGuard {
 public:
  OptionalStreamGuard() noexcept = default;
  [[nodiscard]] explicit OptionalStreamGuard(const std::optional<Stream>& stream) {
    if (stream) reset_stream(*stream);
  }
  void reset_stream(const Stream& stream) {
    if (guard_)
      guard_->reset_stream(stream);
    else
      guard_.emplace(stream);
  }
  void reset() noexcept { guard_.reset(); }
  std::optional<Stream> original_stream() const {
    return guard_ ? std::optional(guard_->original_stream()) : std::nullopt;
  }
  std::optional<Stream> current_stream() const {
    return guard_ ? std::optional(guard_->current_stream()) : std::nullopt;
  }

 private:
  std::optional<StreamGuard> guard_;
};

/// Makes each stream current on its own device. The current device does not change.
class [[nodiscard]] EMBER_API MultiStreamGuard {
 public:
  [[nodiscard]] explicit MultiStreamGuard(std::span<const Stream> streams);
  [[nodiscard]] MultiStreamGuard(std::initializer_list<Stream> streams)
      : MultiStreamGuard(std::span(streams.begin(), streams.size())) {}
  ~MultiStreamGuard();
  MultiStreamGuard(const MultiStreamGuard&) = delete;
  MultiStreamGuard& operator=(const MultiStreamGuard&) = delete;

 private:
  std::vector<std::pair<int, Ref<detail::StreamState>>> replaced_;  // in the order of entering
};

}  // namespace ember::inline v0::cuda
