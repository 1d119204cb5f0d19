// What the streams of a simulated machine share: memory, peers, faults, and the scheduler.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/status.h"
#include "ember/driver/choice.h"
#include "ember/driver/kernel.h"
#include "ember/driver/sim/arena.h"
#include "ember/driver/sim/pinned.h"
#include "ember/driver/sim/scheduler.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

/// The health of one device: how often it was reset, and its fault since then.
class Health {
 public:
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
  /// A reset: forgets the fault. Work of earlier epochs is no longer run, and its faults no longer
  /// count.
  std::uint32_t begin_epoch() noexcept;
  /// The first fault of an epoch stays for its length; later ones are its consequences.
  void fail(Status status, std::uint32_t epoch);
  /// The fault, or a success.
  Status fault() const;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Whether a task of that epoch is to be run. Otherwise it is dropped.
  bool accepts(std::uint32_t epoch) const noexcept { return epoch == this->epoch() && !failed(); }

 private:
  mutable Mutex mutex_;
  Status fault_ EMBER_GUARDED_BY(mutex_);
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> failed_{false};
};

/// Made once and never destroyed: workers use it until the process ends.
struct Machine {
  Machine(int devices, std::size_t bytes_per_device)
      : arena(devices, bytes_per_device),
        scheduler(std::make_unique<PriorityScheduler>(devices)),
        health(static_cast<std::size_t>(devices)),
        peers(static_cast<std::size_t>(devices)) {}

  Health& health_of(int device) { return health[static_cast<std::size_t>(device)]; }
  const Health& health_of(int device) const { return health[static_cast<std::size_t>(device)]; }
  bool may_access(int device, int owner) const {
    return device == owner || peers[static_cast<std::size_t>(device)].allowed[owner].load();
  }
  /// Where a worker of `device` finds `bytes` at an address, which a copy, a fill or a kernel is
  /// about to touch. Host memory is taken as it is. Code::illegal_address if it is device memory
  /// that is not (or no longer) within one allocation, or lies on another device that is in a
  /// fault.
  Status locate(int device, const void* pointer, std::size_t bytes, void*& out) const;

  struct Peers {
    std::atomic<bool> allowed[SimulatedSpec::kMaxDevices] = {};
  };

  Arena arena;
  PinnedMemory pinned;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<Health> health;
  std::vector<Peers> peers;  // by device: whose memory it may touch
  Exit exit;
  std::atomic<int> running{0};  // tasks in progress
  Mutex peers_mutex;            // held while access is granted or a reset takes it back
};

/// The view that a kernel has from a simulated device.
class DeviceLaunch final : public HostLaunch {
 public:
  DeviceLaunch(const Machine& machine, int device, const Context* context) noexcept
      : HostLaunch(device, context), machine_(machine) {}
  Status fault() const override { return fault_; }

 private:
  void* resolve(void* pointer, std::size_t bytes) const noexcept override;

  const Machine& machine_;
  mutable Status fault_;
};

}  // namespace ember::inline v0::driver::sim
