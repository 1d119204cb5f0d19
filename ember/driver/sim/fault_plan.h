// Which calls and tasks are to go wrong (driver/faults.h): counted and decided in one place.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/base/status.h"
#include "ember/driver/choice.h"
#include "ember/driver/faults.h"

namespace ember::inline v0::driver::sim {

/// What was asked to happen to a kernel that is submitted.
struct Trouble {
  std::uint32_t slow = 0;  ///< milliseconds before it
  std::uint32_t late = 0;  ///< and after it
  bool fails = false;
};

/// Thread-safe. Costs a load while nothing is asked for.
class FaultPlan {
 public:
  /// From now on, in place of what was asked for before. Counts begin anew; devices that were lost
  /// are there again, in the fault that they are in.
  void set(const Faults& faults);
  /// How many faults have happened since.
  std::uint64_t happened() const;

  /// One more call of that kind: what it has to answer.
  Status next(Fault::What call) noexcept {
    return armed_.load(std::memory_order_acquire) ? count(call) : Status();
  }
  /// One more kernel.
  Trouble next_kernel() noexcept {
    return armed_.load(std::memory_order_acquire) ? count_kernel() : Trouble();
  }
  /// One more operation on a device: whether the device is lost with it.
  bool loses(int device) noexcept {
    return armed_.load(std::memory_order_acquire) && count_operation(device);
  }
  bool lost(int device) const noexcept {
    return lost_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
  }
  /// Whether copies between two devices lie; counts that as a fault that has happened.
  bool lies(int device, int peer) noexcept {
    return armed_.load(std::memory_order_acquire) && count_lie(device, peer);
  }

 private:
  Status count(Fault::What call) noexcept;
  Trouble count_kernel() noexcept;
  bool count_operation(int device) noexcept;
  bool count_lie(int device, int peer) noexcept;
  /// Whether the call or kernel with that number is meant.
  static bool meant(const Fault& fault, std::uint64_t number) noexcept {
    return fault.number == number || (fault.and_later && number > fault.number);
  }

  std::atomic<bool> armed_{false};
  std::array<std::atomic<bool>, SimulatedSpec::kMaxDevices> lost_{};
  mutable Mutex mutex_;
  Faults faults_ EMBER_GUARDED_BY(mutex_);
  std::array<std::uint64_t, Fault::kWhats> counts_ EMBER_GUARDED_BY(mutex_){};
  std::array<std::uint64_t, SimulatedSpec::kMaxDevices> operations_ EMBER_GUARDED_BY(mutex_){};
  std::uint64_t happened_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::driver::sim
