#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/handles.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

/// What an event stands for that was recorded in a capture: nodes of it (capture.h).
struct CaptureMark {
  std::uint64_t capture = 0;
  std::vector<std::size_t> after;
};

/// An event: a point on the timeline of the stream that recorded it last. Recording again replaces
/// the point and disturbs nobody, since waits hold points, not events.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  struct Record {
    bool made = false;
    Point point;
    std::shared_ptr<const CaptureMark> captured;  // in place of the point
    Clock::time_point stamp;                      // of timed events, once the point is reached
  };

  /// Begins a new life; what the last one left behind is forgotten.
  void open(int device, std::uint32_t epoch, EventOptions options) {
    const MutexLock lock(mutex_);
    device_ = device;
    epoch_ = epoch;
    options_ = options;
    record_ = {};
    ++serial_;
  }
  bool reusable() const noexcept { return true; }

  int device() const {
    const MutexLock lock(mutex_);
    return device_;
  }
  /// Of the device, when the event was handed out.
  std::uint32_t epoch() const {
    const MutexLock lock(mutex_);
    return epoch_;
  }
  EventOptions options() const {
    const MutexLock lock(mutex_);
    return options_;
  }

  // A reset may have ended the handle's life since the event was found by it, and another may have
  // begun. These do nothing then, and say so: false, or zero.

  bool set(const EventHandle& handle, Point point) {
    const MutexLock lock(mutex_);
    if (!is_life_of(handle)) return false;
    record_.made = true;
    record_.point = point;
    record_.captured.reset();
    return true;
  }
  bool set(const EventHandle& handle, std::shared_ptr<const CaptureMark> captured) {
    const MutexLock lock(mutex_);
    if (!is_life_of(handle)) return false;
    record_.made = true;
    record_.point = {};
    record_.captured = std::move(captured);
    return true;
  }
  /// The number that the stamp of the next record has to bring along.
  std::uint64_t next_serial(const EventHandle& handle) {
    const MutexLock lock(mutex_);
    return is_life_of(handle) ? ++serial_ : 0;
  }
  bool read(const EventHandle& handle, Record& out) const {
    const MutexLock lock(mutex_);
    if (!is_life_of(handle)) return false;
    out = record_;
    return true;
  }

  /// The record with that number was not made after all.
  void withdraw(std::uint64_t serial) {
    const MutexLock lock(mutex_);
    if (serial == serial_) --serial_;
  }
  /// Called by whoever runs the record's task. A stamp of an earlier record comes too late.
  void stamp(std::uint64_t serial, Clock::time_point now) {
    const Unseen stamping;  // who looks at the event learns nothing of the stream's work by it
    const MutexLock lock(mutex_);
    if (serial == serial_) record_.stamp = now;
  }

 private:
  bool is_life_of(const EventHandle& handle) const EMBER_REQUIRES(mutex_) {
    return device_ == handle.device && epoch_ == handle.epoch;
  }

  mutable Mutex mutex_;
  int device_ EMBER_GUARDED_BY(mutex_) = 0;
  std::uint32_t epoch_ EMBER_GUARDED_BY(mutex_) = 0;
  EventOptions options_ EMBER_GUARDED_BY(mutex_);
  Record record_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t serial_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::driver::sim
