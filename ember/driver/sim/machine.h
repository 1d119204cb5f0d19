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

namespace ember::driver::sim {

/// The health of one device.
class Health {
 public:
  /// The first fault stays until reset(); later ones are its consequences.
  void fail(Status status);
  /// The fault, or a success.
  Status fault() const;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// While a device is failed or being reset, its workers drop tasks instead of running them.
  bool dropping() const noexcept { return failed() || resetting_.load(std::memory_order_acquire); }
  void begin_reset() noexcept { resetting_ = true; }
  void end_reset() noexcept;

 private:
  mutable Mutex mutex_;
  Status fault_ EMBER_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
  std::atomic<bool> resetting_{false};
};

/// Made once and never destroyed: workers use it until the process ends.
struct Machine {
  Machine(int devices, std::size_t bytes_per_device)
      : arena(devices, bytes_per_device),
        scheduler(std::make_unique<PriorityScheduler>(devices)),
        health(static_cast<std::size_t>(devices)),
        peers(static_cast<std::size_t>(devices)) {}

  Health& health_of(int device) { return health[static_cast<std::size_t>(device)]; }
  bool may_access(int device, int owner) const {
    return device == owner || peers[static_cast<std::size_t>(device)].allowed[owner].load();
  }

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
};

/// The view that a kernel has from a simulated device.
class DeviceLaunch final : public HostLaunch {
 public:
  DeviceLaunch(const Machine& machine, int device) noexcept
      : HostLaunch(device), machine_(machine) {}
  Status fault() const override { return fault_; }

 private:
  void* resolve(void* pointer, std::size_t bytes) const noexcept override;

  const Machine& machine_;
  mutable Status fault_;
};

}  // namespace ember::driver::sim
