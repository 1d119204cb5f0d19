// When work runs, for observers that want to know. Private to the layers that record it.
#pragma once

#include <cstdint>
#include <string>

#include "ember/base/ref.h"
#include "ember/driver/driver.h"

namespace ember::inline v0::cuda::detail {

struct TimedPair;

/// The time of the machine; before there is one, of the clock that it will have.
std::int64_t now() noexcept;

/// Around a call of the driver's that enqueues one piece of work. A driver that notes itself when
/// work runs is asked to; with others, two timed events stand around it. Never fails: work that
/// could not be timed counts as dropped.
class Timing {
 public:
  Timing(driver::Driver& machine, const driver::StreamHandle& stream) noexcept;
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  /// The work is in the queue. Where it will stand when that ran; the caller's until this ends.
  driver::WorkTimes* enqueued() noexcept;

 private:
  driver::Driver& machine_;
  const driver::StreamHandle stream_;
  Ref<driver::WorkTimes> times_;
  TimedPair* pair_ = nullptr;
  bool asked_ = false;
};

/// Has noted what a wait for its device has shown to be over. Where events stand around work, says
/// why; empty otherwise. Waits for no device.
std::string collect_times() noexcept;
/// No observer wants times any more.
void pause_times() noexcept;
/// For the child of a fork.
void renew_timing_locks() noexcept;

}  // namespace ember::inline v0::cuda::detail
