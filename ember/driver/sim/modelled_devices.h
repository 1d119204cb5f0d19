// What the devices of a run are busy with where a device model decides, and what tasks take there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/driver/sim/device_model.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/task_queue.h"

namespace ember::inline v0::driver::sim {

/// Each device has its multiprocessors with its memory, and engines for copies. A task has one of
/// these to itself while it is busy there, and the next one begins after that: kernels that fill
/// the device follow each other, and what small ones take beside that (their floor) overlaps. Not
/// thread-safe.
class ModelledDevices {
 public:
  ModelledDevices(const DeviceModel& model, const Machine& machine);

  /// A part of a device, of which a task has at most one.
  enum class Part : std::uint8_t { none, compute, to_device, to_host, peer };
  static constexpr std::size_t kParts = 5;

  /// What the task occupies.
  Part part_of(const Task& task) const;
  /// From when on it can: at first zero.
  std::int64_t free_from(int device, Part part) const noexcept;
  /// The task has begun: occupies its part, and answers how long it lasts. `traffic`: the bytes
  /// that a kernel has asked for.
  std::int64_t begin(int device, const Task& task, std::int64_t now, std::uint64_t traffic);
  /// How long a call of the host takes that has enqueued such a task.
  std::int64_t call_time(TaskKind kind) const noexcept;

  const DeviceModel& model() const noexcept { return model_; }

 private:
  struct Time {
    std::int64_t busy = 0;
    std::int64_t least = 0;
  };
  Time kernel_time(const Task& task, std::uint64_t traffic) const;
  Time copy_time(const CopyArgs& copy, Part part) const;

  /// When each engine of a part is free; the multiprocessors are one.
  using Engines = std::vector<std::int64_t>;
  const Engines& engines(int device, Part part) const noexcept {
    return engines_[static_cast<std::size_t>(device) * kParts + static_cast<std::size_t>(part)];
  }

  DeviceModel model_;
  const Machine& machine_;
  std::vector<Engines> engines_;  // by device and part
};

}  // namespace ember::inline v0::driver::sim
