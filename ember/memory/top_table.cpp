// The table of `ember top`.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/driver/driver.h"
#include "ember/memory/top.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/telemetry.h"

namespace ember::inline v0::cuda::top {
namespace {

/// A line of the upper part.
struct DeviceLine {
  std::string label;
  DeviceUse use;
  std::vector<driver::GpuProcess> processes{};  // as NVML knows them
};

/// A line of the lower part.
struct ProcessLine {
  std::uint32_t pid = 0;
  std::string device;
  std::string in_use{"-"}, cached{"-"}, driver{"-"};
  std::string command{};
};

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[512];
  const int length = std::snprintf(text, sizeof text, format, values...);
  return {text, static_cast<std::size_t>(std::clamp(length, 0, 511))};
}

std::string sensor(int value, const char* unit) {
  return value == DeviceUse::kUnknown ? "-" : std::to_string(value) + " " + unit;
}

/// The real devices that this process sees. Those that are simulated in this process are nobody's.
std::vector<DeviceLine> own_devices() {
  std::vector<DeviceLine> found;
  if (device_count() == 0 || get_device_properties(0).simulated) return found;
  for (int device = 0; device < device_count(); ++device) {
    DeviceLine line;
    const DeviceProperties& properties = get_device_properties(device);
    line.use.device = device;
    line.use.name = properties.name;
    line.use.uuid = "GPU-" + properties.uuid_text();
    line.use.total = properties.total_memory;
    driver::Driver& driver = active_driver();
    read_sensors(driver, device, line.use);
    driver::GpuProcesses processes;
    if (driver.device_processes(device, processes).ok()) {
      line.label = "GPU " + std::to_string(processes.machine_index);
      line.processes = std::move(processes.processes);
    } else {
      line.label = "cuda:" + std::to_string(device);
    }
    found.push_back(std::move(line));
  }
  return found;
}

/// The line of a device that a process uses; added if there is none.
DeviceLine& line_of(std::vector<DeviceLine>& lines, const ProcessUse& process,
                    const DeviceUse& use) {
  if (!use.simulated)
    for (DeviceLine& line : lines)
      if (!line.use.simulated && line.use.uuid == use.uuid) return line;
  DeviceLine& made = lines.emplace_back();
  made.use = use;
  made.label =
      use.simulated
          ? "sim " + std::to_string(use.device) + " of " + std::to_string(process.pid)
          : "GPU (cuda:" + std::to_string(use.device) + " of " + std::to_string(process.pid) + ")";
  return made;
}

/// The name of a process that does not answer.
std::string name_of(std::uint32_t pid) {
  const int file = open(("/proc/" + std::to_string(pid) + "/comm").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "-";
  char text[64];
  const ssize_t got = read(file, text, sizeof text);
  close(file);
  std::string name(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  std::erase_if(name, [](char c) { return c < ' ' || c > '~'; });
  return name;
}

std::string driver_bytes(std::uint64_t bytes) {
  return bytes == driver::GpuProcess::kUnknown ? "-" : format_bytes(bytes);
}

/// Processes that answer, then the others that NVML knows.
std::vector<ProcessLine> process_lines(std::vector<DeviceLine>& devices,
                                       const std::vector<ProcessUse>& answers) {
  std::vector<ProcessLine> lines;
  for (const ProcessUse& process : answers) {
    for (const DeviceUse& use : process.devices) {
      DeviceLine& device = line_of(devices, process, use);
      const auto known = std::find_if(device.processes.begin(), device.processes.end(),
                                      [&](const auto& one) { return one.pid == process.pid; });
      ProcessLine line{process.pid, device.label, format_bytes(use.allocated),
                       format_bytes(use.reserved - use.allocated)};
      line.command = process.command;
      if (known != device.processes.end()) {
        line.driver = driver_bytes(known->bytes);
        device.processes.erase(known);
      }
      lines.push_back(std::move(line));
    }
  }
  for (const DeviceLine& device : devices)
    for (const driver::GpuProcess& process : device.processes) {
      ProcessLine line{process.pid, device.label};
      line.driver = driver_bytes(process.bytes);
      line.command = name_of(process.pid);
      lines.push_back(std::move(line));
    }
  return lines;
}

}  // namespace

std::string table() {
  std::vector<DeviceLine> devices = own_devices();
  const std::vector<ProcessUse> answers = processes();
  const std::vector<ProcessLine> lines = process_lines(devices, answers);
  std::string text = formatted("%-18s %-22s %11s %6s %6s %6s %9s %9s\n", "device", "name", "memory",
                               "busy", "memory", "temp", "power", "clock");
  for (const DeviceLine& line : devices)
    text += formatted(
        "%-18s %-22.22s %11s %6s %6s %6s %9s %9s\n", line.label.c_str(), line.use.name.c_str(),
        format_bytes(line.use.total).c_str(), sensor(line.use.utilization, "%").c_str(),
        sensor(line.use.memory_usage, "%").c_str(), sensor(line.use.temperature, "C").c_str(),
        line.use.power_draw == DeviceUse::kUnknown
            ? "-"
            : sensor((line.use.power_draw + 500) / 1000, "W").c_str(),
        sensor(line.use.clock_rate, "MHz").c_str());
  if (devices.empty()) text += "no devices are in use\n";
  text += formatted("\n%10s %-18s %12s %12s %12s  %s\n", "process", "device", "in use", "cached",
                    "of driver", "command");
  for (const ProcessLine& line : lines)
    text += formatted("%10u %-18s %12s %12s %12s  %.100s\n", line.pid, line.device.c_str(),
                      line.in_use.c_str(), line.cached.c_str(), line.driver.c_str(),
                      line.command.c_str());
  if (lines.empty()) text += "no process allows to be asked (EMBER_TOP=1)\n";
  return text;
}

}  // namespace ember::inline v0::cuda::top
