// What simulated devices answer to telemetry: what they did in the last second, and from that what
// a model of a GPU says.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ember/driver/open.h"
#include "ember/driver/sim/sim_driver.h"

namespace ember::inline v0::driver {
namespace {

/// What the shares mean for the rest, roughly as on a Hopper GPU in its server: between nothing and
/// everything in a straight line, at once.
struct Model {
  static constexpr double kIdleCelsius = 30;
  static constexpr double kBusyCelsius = 65;
  static constexpr double kIdleMilliwatts = 75'000;
  static constexpr double kBusyMilliwatts = 700'000;
  /// The clock by which `sleep` counts nanoseconds; it does not change.
  static constexpr int kMegahertz = 1000;
};

int percent(double share) { return static_cast<int>(std::lround(100 * share)); }

int between(double idle, double busy, double share) {
  return static_cast<int>(std::lround(idle + (busy - idle) * share));
}

/// What is known of a device: the shares of the last second, and bytes.
struct Figures {
  double busy = 0, memory = 0;
  std::uint64_t used = 0;
};

std::int64_t read(Sensor sensor, const Figures& figures) {
  const double busy = figures.busy;
  switch (sensor) {
    case Sensor::utilization: return percent(busy);
    case Sensor::memory_usage: return percent(figures.memory);
    case Sensor::temperature: return between(Model::kIdleCelsius, Model::kBusyCelsius, busy);
    case Sensor::power_draw: return between(Model::kIdleMilliwatts, Model::kBusyMilliwatts, busy);
    case Sensor::clock_rate: return Model::kMegahertz;
    case Sensor::memory_used: return static_cast<std::int64_t>(figures.used);
  }
  return 0;
}

/// `shared`: a RecordFile, or what has one.
template <class Shared>
Figures figures_of(const Shared& shared, int ordinal) {
  Figures figures{.busy = shared.share(ordinal, &sim::RecordMeters::busy),
                  .memory = shared.share(ordinal, &sim::RecordMeters::memory)};
  for (const GpuProcess& process : shared.processes(ordinal))
    if (process.bytes != GpuProcess::kUnknown) figures.used += process.bytes;
  return figures;
}

Status find_visible(const SimulatedSpec& spec, int device, int& ordinal) {
  const std::vector<int> visible = visible_simulated(spec);
  if (device < 0 || static_cast<std::size_t>(device) >= visible.size())
    return not_visible(device, visible);
  ordinal = visible[static_cast<std::size_t>(device)];
  return {};
}

/// What other processes do on the machine that a process would join. Nothing where it is not
/// shared, or nobody has joined it.
Status look_if_shared(const SimulatedSpec& spec,
                      const std::function<void(const sim::RecordFile&)>& look) {
  if (spec.machine.empty()) return {};
  Status status = sim::look_at(spec, [&](const sim::RecordFile& file) {
    // With other devices it is not joined, as is said there.
    if (file.spec().count == spec.count) look(file);
  });
  return status.code() == Code::not_ready ? Status() : status;
}

}  // namespace

Status idle_simulated_sensor(const SimulatedSpec& spec, int device, Sensor sensor,
                             std::int64_t& out) {
  int ordinal = 0;
  EMBER_TRY(find_visible(spec, device, ordinal));
  Figures figures;
  EMBER_TRY(look_if_shared(
      spec, [&](const sim::RecordFile& file) { figures = figures_of(file, ordinal); }));
  out = read(sensor, figures);
  return {};
}

Status idle_simulated_processes(const SimulatedSpec& spec, int device, GpuProcesses& out) {
  GpuProcesses found;
  EMBER_TRY(find_visible(spec, device, found.machine_index));
  EMBER_TRY(look_if_shared(spec, [&](const sim::RecordFile& file) {
    found.processes = file.processes(found.machine_index);
  }));
  out = std::move(found);
  return {};
}

namespace sim {

Status SimDriver::check_visible(int device) const noexcept {
  if (check_device(device).ok()) return {};
  std::vector<int> visible;
  for (const auto& state : devices_) visible.push_back(state->ordinal);
  return not_visible(device, visible);
}

Status SimDriver::device_sensor(int device, Sensor sensor, std::int64_t& out) noexcept {
  EMBER_TRY(check_visible(device));
  if (const SharedMachine* shared = machine_.shared.load()) {
    out = read(sensor, figures_of(*shared, at(device).ordinal));
    return {};
  }
  DeviceActivity& activity = machine_.activity_of(device);
  const MemoryInfo memory = machine_.arena.info(device);
  out = read(sensor, {.busy = activity.busy.share(),
                      .memory = activity.memory.share(),
                      .used = memory.total - memory.free});
  return {};
}

Status SimDriver::device_processes(int device, GpuProcesses& out) noexcept {
  EMBER_TRY(check_visible(device));
  GpuProcesses found;
  found.machine_index = at(device).ordinal;
  const MemoryInfo memory = machine_.arena.info(device);
  if (const SharedMachine* shared = machine_.shared.load())
    found.processes = shared->processes(found.machine_index);
  else if (at(device).active || memory.free < memory.total)
    found.processes.push_back({.pid = static_cast<std::uint32_t>(process_),
                               .bytes = static_cast<std::uint64_t>(memory.total - memory.free)});
  out = std::move(found);
  return {};
}

}  // namespace sim
}  // namespace ember::inline v0::driver
