#include "ember/runtime/timing.h"

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::detail {

using driver::EventHandle;
using driver::WorkTimes;

/// Two events around a piece of work.
struct TimedPair {
  EventHandle begin, end;
  Ref<WorkTimes> times;
};

namespace {

// Note [Times by events]
// ~~~~~~~~~~~~~~~~~~~~~~
// An event says how many milliseconds after another one of its device it came, as a float. So there
// is a base for each device whose time on the machine's clock is known: at first one recorded on a
// stream of its own, for which the host waits. Numbers of more than a second lose what matters, so
// the first event that is further away becomes the next base. What stands between a device's fault
// or reset and its last look is dropped: after that its events answer nothing.

constexpr std::size_t kMostPairs = 1 << 14;  // of a device, in flight; work beyond is not timed
constexpr int kLookAt = 4;                   // pairs that each new one looks at
constexpr float kFar = 1000;                 // milliseconds

class DeviceTimer {
 public:
  /// Records the first of two events; null if it cannot.
  std::unique_ptr<TimedPair> begin(driver::Driver& machine, const driver::StreamHandle& stream) {
    const RelaxedCapture relaxed;
    const MutexLock lock(mutex_);
    if (!ready(machine, stream.device)) return nullptr;
    look(machine, kLookAt);
    if (pending_.size() >= kMostPairs) return nullptr;
    auto pair = std::make_unique<TimedPair>();
    if (!take(machine, pair->begin)) return nullptr;
    if (!take(machine, pair->end) || !machine.event_record(pair->begin, stream).ok()) {
      give_back(machine, *pair);
      return nullptr;
    }
    return pair;
  }
  void end(driver::Driver& machine, const driver::StreamHandle& stream,
           std::unique_ptr<TimedPair> pair) {
    const RelaxedCapture relaxed;
    const MutexLock lock(mutex_);
    if (pair->end.epoch != epoch_ || !machine.event_record(pair->end, stream).ok()) {
      pair->times->dropped();
      return give_back(machine, *pair);
    }
    pending_.push_back(std::move(pair));
  }
  void abandon(driver::Driver& machine, std::unique_ptr<TimedPair> pair) {
    const MutexLock lock(mutex_);
    give_back(machine, *pair);
  }
  void collect(driver::Driver& machine) {
    const RelaxedCapture relaxed;
    const MutexLock lock(mutex_);
    look(machine, static_cast<int>(kMostPairs));
  }
  void renew() noexcept { renew_in_child(mutex_); }

 private:
  bool take(driver::Driver& machine, EventHandle& out) EMBER_REQUIRES(mutex_) {
    if (!free_.empty()) {
      out = free_.back();
      free_.pop_back();
      return true;
    }
    return machine.event_create(base_.device, {.timing = true}, out).ok();
  }
  void give_back(driver::Driver& machine, const TimedPair& pair) EMBER_REQUIRES(mutex_) {
    for (const EventHandle& event : {pair.begin, pair.end}) give_back(machine, event);
  }
  void give_back(driver::Driver& machine, const EventHandle& event) EMBER_REQUIRES(mutex_) {
    if (event.native == nullptr) return;
    if (has_base_ && event.epoch == epoch_)
      free_.push_back(event);
    else
      (void)machine.event_destroy(event);
  }

  /// Makes a base, unless there is one of this epoch.
  bool ready(driver::Driver& machine, int device) EMBER_REQUIRES(mutex_) {
    const std::uint32_t epoch = machine.device_epoch(device);
    if (has_base_ && epoch_ == epoch) return true;
    forget(machine);
    driver::StreamHandle own;
    if (!machine.stream_create(device, 0, own).ok()) return false;
    EventHandle base;
    bool made = machine.event_create(device, {.timing = true}, base).ok();
    if (made) {
      made = machine.event_record(base, own).ok() && HostWait::event(WaitKind::library, base).ok();
      base_time_ = machine.now();
      if (!made) (void)machine.event_destroy(base);
    }
    (void)machine.stream_destroy(own);
    if (!made) return false;
    base_ = base;
    epoch_ = base.epoch;
    has_base_ = true;
    return true;
  }

  /// What was not seen to be over never will be.
  void forget(driver::Driver& machine) EMBER_REQUIRES(mutex_) {
    const bool had = std::exchange(has_base_, false);
    for (const auto& pair : pending_) {
      pair->times->dropped();
      give_back(machine, *pair);
    }
    pending_.clear();
    for (const EventHandle& event : free_) (void)machine.event_destroy(event);
    free_.clear();
    if (had) (void)machine.event_destroy(base_);
  }

  void look(driver::Driver& machine, int most) EMBER_REQUIRES(mutex_) {
    // Streams go on beside each other: one that waits is not to hide that the next one's is over.
    for (std::size_t i = 0; i < pending_.size() && most-- > 0;) {
      TimedPair& pair = *pending_[i];
      const Status status = machine.event_query(pair.end);
      if (status.code() == Code::not_ready) {
        ++i;
        continue;
      }
      float from_base = 0;
      float lasted = 0;
      if (!status.ok() || !machine.event_elapsed(base_, pair.begin, from_base).ok() ||
          !machine.event_elapsed(pair.begin, pair.end, lasted).ok())
        return forget(machine);
      const std::int64_t began = base_time_ + nanoseconds(from_base);
      pair.times->began(began);
      pair.times->ended(began + nanoseconds(lasted), false);
      if (std::abs(from_base) > kFar) {
        std::swap(base_, pair.begin);
        base_time_ = began;
      }
      give_back(machine, pair);
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  static std::int64_t nanoseconds(float milliseconds) noexcept {
    return std::llround(static_cast<double>(milliseconds) * 1e6);
  }

  Mutex mutex_;
  bool has_base_ EMBER_GUARDED_BY(mutex_) = false;
  std::uint32_t epoch_ EMBER_GUARDED_BY(mutex_) = 0;
  EventHandle base_ EMBER_GUARDED_BY(mutex_);
  std::int64_t base_time_ EMBER_GUARDED_BY(mutex_) = 0;
  std::vector<EventHandle> free_ EMBER_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<TimedPair>> pending_ EMBER_GUARDED_BY(mutex_);
};

constexpr std::size_t kDevices = 64;
using Timers = std::array<DeviceTimer, kDevices>;

Timers& timers() {
  static NoDestructor<Timers> made;  // threads enqueue until the process ends
  return *made;
}
[[maybe_unused]] const Timers& timers_made_at_load = timers();  // not beside a fork

DeviceTimer* timer_of(const driver::StreamHandle& stream) noexcept {
  const auto device = static_cast<std::size_t>(stream.device);
  return device < kDevices ? &timers()[device] : nullptr;
}

}  // namespace

std::int64_t now() noexcept {
  driver::Driver* const machine = driver_if_made();
  return machine != nullptr ? machine->now() : driver::clock_time(std::chrono::steady_clock::now());
}

Timing::Timing(driver::Driver& machine, const driver::StreamHandle& stream) noexcept
    : machine_(machine), stream_(stream), times_(make_ref<WorkTimes>()) {
  const Status status = machine.time_next(stream, times_.get());
  asked_ = status.ok();
  if (status.code() != Code::not_supported) return;
  if (DeviceTimer* const timer = timer_of(stream)) pair_ = timer->begin(machine, stream).release();
  if (pair_ != nullptr) pair_->times = times_;
}

Timing::~Timing() {
  if (asked_) (void)machine_.time_next(stream_, nullptr);
  if (pair_ != nullptr)
    timer_of(stream_)->abandon(machine_, std::unique_ptr<TimedPair>(std::exchange(pair_, nullptr)));
}

WorkTimes* Timing::enqueued() noexcept {
  if (pair_ != nullptr)
    timer_of(stream_)->end(machine_, stream_,
                           std::unique_ptr<TimedPair>(std::exchange(pair_, nullptr)));
  else if (!asked_)
    times_->dropped();
  return times_.get();
}

std::string collect_times() noexcept {
  driver::Driver* const machine = driver_if_made();
  if (machine == nullptr) return {};
  const Status status = machine->times_collect();
  for (DeviceTimer& timer : timers()) timer.collect(*machine);
  return status.code() == Code::not_supported ? status.detail() : "";
}

void pause_times() noexcept {
  if (driver::Driver* const machine = driver_if_made()) (void)machine->times_pause();
}

void renew_timing_locks() noexcept {
  for (DeviceTimer& timer : timers()) timer.renew();
}

}  // namespace ember::inline v0::cuda::detail
