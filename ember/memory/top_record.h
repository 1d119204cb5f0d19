// What a process tells `ember top` of itself, and how it is written between the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/export.h"

namespace ember::inline v0::driver {
class Driver;
}

namespace ember::inline v0::cuda::top {

/// A device, and what a process holds of it.
struct DeviceUse {
  static constexpr int kUnknown = -1;

  int device = 0;  ///< the process's number of it
  bool simulated = false;
  std::uint64_t allocated = 0;  ///< bytes in tensors and buffers
  std::uint64_t reserved = 0;   ///< bytes held of the device, those included
  std::uint64_t total = 0;      ///< bytes that the device has
  int utilization = kUnknown;   ///< the sensors of runtime/telemetry.h
  int memory_usage = kUnknown;
  int temperature = kUnknown;
  int power_draw = kUnknown;
  int clock_rate = kUnknown;
  std::string uuid{};  ///< "GPU-...", the same in every process
  std::string name{};

  friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

/// What the device's sensors say; kUnknown stays where they say nothing.
void read_sensors(driver::Driver& driver, int device, DeviceUse& use);
void copy_sensors(const DeviceUse& from, DeviceUse& to);

/// A process that allows to be asked.
struct ProcessUse {
  std::uint32_t pid = 0;
  std::string command{};
  std::vector<DeviceUse> devices{};

  friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

/// Lines of fields between tabs, with a last line that says so.
std::string to_text(const ProcessUse& process);
/// Reads that back: nothing for anything else, a number that is none among it. Text of other
/// processes goes to a terminal, so what is not printable ASCII becomes `?`.
EMBER_TEST_API std::optional<ProcessUse> parse(std::string_view text);

}  // namespace ember::inline v0::cuda::top
