#include "ember/runtime/telemetry.h"

#include <cinttypes>
#include <cstdio>
#include <limits>

#include "ember/base/error.h"
#include "ember/driver/driver.h"
#include "ember/driver/open.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

using driver::Choice;
using driver::Driver;
using driver::Sensor;

/// What is no device's index is refused by the driver, by its number.
int as_int(std::int64_t index) {
  if (index < std::numeric_limits<int>::min() || index > std::numeric_limits<int>::max())
    throw Error("device " + std::to_string(index) + " is not visible: no index is that large");
  return static_cast<int>(index);
}

/// Asks the driver if there is one, else whatever `early` asks; and the driver, made for that,
/// where only it can tell: which device is the current one is up to CUDA, too. Where there is no
/// NVML that is the answer, whether there is CUDA or not.
template <class Early, class Ask>
Status ask(DeviceArg given, const Early& early, const Ask& ask_driver) {
  Driver* made = driver_if_made();
  if (made == nullptr) {
    const int device = given.means_current() ? 0 : as_int(given.index());
    Status status =
        detail::with_choice([&](const Choice& choice) { return early(choice, device); });
    const bool no_nvml = status.code() == Code::not_initialized || status.code() == Code::no_device;
    if (no_nvml || (status.code() != Code::not_ready && !given.means_current())) return status;
    made = &active_driver();
  }
  return ask_driver(*made, as_int(given.index()));
}

Status ask_sensor(DeviceArg device, Sensor sensor, std::int64_t& out) {
  return ask(
      device,
      [&](const Choice& choice, int index) {
        return driver::sensor_without_opening(choice, index, sensor, out);
      },
      [&](Driver& driver, int index) { return driver.device_sensor(index, sensor, out); });
}

Status ask_processes(DeviceArg device, GpuProcesses& out) {
  tell_figure_asked("list_gpu_processes");
  return ask(
      device,
      [&](const Choice& choice, int index) {
        return driver::processes_without_opening(choice, index, out);
      },
      [&](Driver& driver, int index) { return driver.device_processes(index, out); });
}

void require(const Status& status) {
  if (!status.ok()) throw Error(status.detail());
}

std::int64_t read(DeviceArg device, Sensor sensor) {
  tell_figure_asked("a sensor of the device");
  std::int64_t value = 0;
  require(ask_sensor(device, sensor, value));
  return value;
}
int read_int(DeviceArg device, Sensor sensor) { return static_cast<int>(read(device, sensor)); }

std::string line_of(const GpuProcess& process) {
  char memory[32] = "n/a";
  if (process.bytes != GpuProcess::kUnknown) {
    // Thousandths of a MiB, rounded; printf would write the point as the locale has it.
    constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
    const std::uint64_t whole = process.bytes / kMiB;
    const std::uint64_t thousandths = (process.bytes % kMiB * 1000 + kMiB / 2) / kMiB;
    std::snprintf(memory, sizeof memory, "%" PRIu64 ".%03u", whole + thousandths / 1000,
                  static_cast<unsigned>(thousandths % 1000));
  }
  char line[96];
  std::snprintf(line, sizeof line, "\nprocess %10u uses %12s MB GPU memory", process.pid, memory);
  return line;
}

}  // namespace

int utilization(DeviceArg device) { return read_int(device, Sensor::utilization); }
int memory_usage(DeviceArg device) { return read_int(device, Sensor::memory_usage); }
int temperature(DeviceArg device) { return read_int(device, Sensor::temperature); }
int power_draw(DeviceArg device) { return read_int(device, Sensor::power_draw); }
int clock_rate(DeviceArg device) { return read_int(device, Sensor::clock_rate); }
std::int64_t device_memory_used(DeviceArg device) { return read(device, Sensor::memory_used); }

GpuProcesses gpu_processes(DeviceArg device) {
  GpuProcesses found;
  require(ask_processes(device, found));
  return found;
}

std::string list_gpu_processes(DeviceArg device) {
  GpuProcesses found;
  const Status status = ask_processes(device, found);
  if (status.code() == Code::not_initialized)
    return "libnvidia-ml.so.1 not found, please install the NVIDIA driver";
  if (status.code() == Code::no_device) return status.detail();
  require(status);
  std::string text = "GPU:" + std::to_string(found.machine_index);
  if (found.processes.empty()) text += "\nno processes are running";
  for (const GpuProcess& process : found.processes) text += line_of(process);
  return text;
}

}  // namespace ember::inline v0::cuda
