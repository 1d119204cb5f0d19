// What can be asked of a device beside its work: sensors, and who uses it. Chapter 17 of the
// documents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::driver {

enum class Sensor : std::uint8_t {
  utilization,   ///< percent of the last sample period in which a kernel ran
  memory_usage,  ///< percent of it in which memory was read or written
  temperature,   ///< degrees Celsius
  power_draw,    ///< milliwatts
  clock_rate,    ///< of the multiprocessors, MHz
  memory_used,   ///< bytes, by all processes
};

/// A process that uses a device.
struct GpuProcess {
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

  std::uint32_t pid =
      0;  ///< as the driver knows it: of the host, where containers number their own
  std::uint64_t bytes = kUnknown;  ///< of device memory; kUnknown where the driver does not tell
};

/// The processes of a device.
struct GpuProcesses {
  int machine_index = 0;  ///< the device's number among all of the machine, whatever is visible
  std::vector<GpuProcess> processes;
};

/// Code::invalid_device: `device 3 is not visible (CUDA_VISIBLE_DEVICES=[0, 2])`. The list has the
/// numbers of the visible devices among all of the machine.
Status not_visible(std::int64_t device, const std::vector<int>& visible);

}  // namespace ember::inline v0::driver
