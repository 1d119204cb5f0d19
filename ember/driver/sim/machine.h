// What the streams of a simulated machine share: memory, peers, faults, and the executor.
#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/status.h"
#include "ember/driver/choice.h"
#include "ember/driver/kernel.h"
#include "ember/driver/recent_launches.h"
#include "ember/driver/sim/activity.h"
#include "ember/driver/sim/arena.h"
#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/fault_plan.h"
#include "ember/driver/sim/pinned.h"
#include "ember/driver/sim/timeline.h"
#include "ember/driver/sim/write_journal.h"

namespace ember::inline v0::driver::sim {

/// The health of one device: how often it was reset, and its fault since then.
class Health {
 public:
  std::uint32_t epoch() const noexcept {
    return static_cast<std::uint32_t>(state_.load(std::memory_order_acquire) >> 1);
  }
  /// A reset: forgets the fault. Work of earlier epochs is no longer run, and its faults no longer
  /// count.
  std::uint32_t begin_epoch() noexcept;
  /// The first fault of an epoch stays for its length; later ones are its consequences.
  void fail(Status status, std::uint32_t epoch);
  /// The fault, or a success.
  Status fault() const;
  /// The fault if nobody has asked for it since it came, or a success.
  Status unnoticed_fault() const;
  /// A run begins: forgets the fault, in the same epoch. No task runs, and nobody waits for one.
  void begin_run();
  bool failed() const noexcept { return (state_.load(std::memory_order_acquire) & kFailed) != 0; }
  /// Whether a task of that epoch is to be run. Otherwise it is dropped.
  bool accepts(std::uint32_t epoch) const noexcept {
    return state_.load(std::memory_order_acquire) == state_of(epoch);
  }

 private:
  static constexpr std::uint64_t kFailed = 1;
  static constexpr std::uint64_t state_of(std::uint32_t epoch) noexcept {
    return std::uint64_t{epoch} << 1;
  }

  mutable Mutex mutex_;
  Status fault_ EMBER_GUARDED_BY(mutex_);
  mutable bool noticed_ EMBER_GUARDED_BY(mutex_) = false;
  // The epoch and whether it failed, in one word: a fault is never taken for the next epoch's.
  std::atomic<std::uint64_t> state_{0};
};

/// Made once and never destroyed: workers use it until the process ends.
struct Machine {
  Machine(int devices, std::size_t bytes_per_device)
      : arena(devices, bytes_per_device),
        health(static_cast<std::size_t>(devices)),
        activities(static_cast<std::size_t>(devices)),
        peers(static_cast<std::size_t>(devices)) {}

  Health& health_of(int device) { return health[static_cast<std::size_t>(device)]; }
  DeviceActivity& activity_of(int device) { return activities[static_cast<std::size_t>(device)]; }
  const Health& health_of(int device) const { return health[static_cast<std::size_t>(device)]; }
  bool may_access(int device, int owner) const {
    return device == owner || peers[static_cast<std::size_t>(device)].allowed[owner].load();
  }
  /// The epoch of the device that an address belongs to; zero for host memory.
  std::uint32_t epoch_of(const void* address) const noexcept {
    const int owner = arena.owner(address);
    return owner < 0 ? 0 : health_of(owner).epoch();
  }

  struct Peers {
    std::atomic<bool> allowed[SimulatedSpec::kMaxDevices] = {};
  };

  Arena arena;
  PinnedMemory pinned;
  std::unique_ptr<Executor> executor;  // made before the first stream
  // Where a task notes what it writes that is to overlap with another one; null otherwise.
  WriteJournal* journal = nullptr;
  std::vector<Health> health;
  std::vector<DeviceActivity> activities;  // by device
  std::vector<Peers> peers;                // by device: whose memory it may touch
  FaultPlan faults;
  Exit exit;
  std::atomic<int> running{0};  // tasks in progress
  // How many launches are kept of each stream, and how they are asked where they stand.
  std::atomic<int> recorded{0};
  std::atomic<StackNumber> stack{nullptr};
  // The machine of which this is a part, if processes share one. It is never destroyed.
  std::atomic<SharedMachine*> shared{nullptr};
  // Held while access is granted, a context is made, or a reset takes them back.
  Mutex peers_mutex;
};

/// The memory that one task of a device touches. What it has found of other devices, and of other
/// processes, stays where it is until the task is over, also if those are reset, or it is closed,
/// meanwhile.
class TaskMemory {
 public:
  TaskMemory(Machine& machine, int device) noexcept : machine_(machine), device_(device) {}
  ~TaskMemory();
  TaskMemory(const TaskMemory&) = delete;
  TaskMemory& operator=(const TaskMemory&) = delete;

  enum class Use : std::uint8_t { reads, writes };  // writes: or both

  /// Where the task finds `bytes` at an address, to do that with them. Host memory is taken as it
  /// is. `epoch`: which the memory's device must be in (or kAnyEpoch). Code::illegal_address if it
  /// is not, if the bytes are not (or no longer) within one allocation, or lie on another device
  /// that is in a fault.
  Status locate(const void* pointer, std::size_t bytes, std::uint32_t epoch, Use use, void*& out);

 private:
  Machine& machine_;
  const int device_;
  std::bitset<SimulatedSpec::kMaxDevices> others_;  // whose memory is held
  std::vector<Ref<const Imported>> imported_;       // of other processes
};

/// How many bytes a kernel asks for: each range once as read and once as written.
class Traffic {
 public:
  void add(const void* pointer, std::size_t bytes, bool writes) {
    const Range range{pointer, bytes, writes};
    if (std::find(seen_.begin(), seen_.end(), range) != seen_.end()) return;
    if (seen_.size() < kMostRanges) seen_.push_back(range);
    bytes_ += bytes;
  }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  /// Of a kernel that asks for more, such as one by one, later ones count whenever asked for.
  static constexpr std::size_t kMostRanges = 64;
  struct Range {
    const void* pointer;
    std::size_t bytes;
    bool writes;
    friend bool operator==(const Range&, const Range&) = default;
  };
  std::vector<Range> seen_;
  std::uint64_t bytes_ = 0;
};

/// The view that a kernel has from a simulated device.
class DeviceLaunch final : public HostLaunch {
 public:
  /// `traffic`: what is added to, or null.
  DeviceLaunch(Machine& machine, int device, PeerMemory peer, const Context* context,
               WorkerActivity& activity, Traffic* traffic) noexcept
      : HostLaunch(device, context),
        machine_(machine),
        peer_(peer),
        memory_(machine, device),
        activity_(activity),
        traffic_(traffic) {}
  Status fault() const override { return fault_; }

 private:
  void* resolve(void* pointer, const Touch& touch) const noexcept override;

  const Machine& machine_;
  const PeerMemory peer_;
  mutable TaskMemory memory_;
  mutable Status fault_;
  WorkerActivity& activity_;
  Traffic* const traffic_;
};

}  // namespace ember::inline v0::driver::sim
