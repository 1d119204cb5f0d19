#pragma once

#include <chrono>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/driver/handles.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

/// An event: a point on the timeline of the stream that recorded it last. Recording again replaces
/// the point and disturbs nobody, since waits hold points, not events.
class Event {
 public:
  using Clock = std::chrono::steady_clock;

  struct Record {
    bool made = false;
    Point point;
    Clock::time_point stamp;  // of timed events, once the point is reached
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

  void set(Point point) {
    const MutexLock lock(mutex_);
    record_.made = true;
    record_.point = point;
  }
  /// The number that the stamp of the next record has to bring along.
  std::uint64_t next_serial() {
    const MutexLock lock(mutex_);
    return ++serial_;
  }
  /// The record with that number was not made after all.
  void withdraw(std::uint64_t serial) {
    const MutexLock lock(mutex_);
    if (serial == serial_) --serial_;
  }
  /// Called by the worker that reaches the record. A stamp of an earlier record comes too late.
  void stamp(std::uint64_t serial) {
    const Unseen stamping;  // who looks at the event learns nothing of the stream's work by it
    const MutexLock lock(mutex_);
    if (serial == serial_) record_.stamp = Clock::now();
  }
  Record record() const {
    const MutexLock lock(mutex_);
    return record_;
  }

 private:
  mutable Mutex mutex_;
  int device_ EMBER_GUARDED_BY(mutex_) = 0;
  std::uint32_t epoch_ EMBER_GUARDED_BY(mutex_) = 0;
  EventOptions options_ EMBER_GUARDED_BY(mutex_);
  Record record_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t serial_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::driver::sim
