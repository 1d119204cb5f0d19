// ember.cuda: what devices are doing.
#include "define.h"

namespace ember::python {

void bind_telemetry(nb::module_& m) {
  using cuda::DeviceArg;
  define_for_device(
      m, "utilization", [](DeviceArg device) { return cuda::utilization(device); },
      "Percent of the last sample period in which a kernel ran.");
  define_for_device(
      m, "memory_usage", [](DeviceArg device) { return cuda::memory_usage(device); },
      "Percent of the last sample period in which device memory was read or written.");
  define_for_device(
      m, "temperature", [](DeviceArg device) { return cuda::temperature(device); },
      "Degrees Celsius, of the die.");
  define_for_device(
      m, "power_draw", [](DeviceArg device) { return cuda::power_draw(device); }, "Milliwatts.");
  define_for_device(
      m, "clock_rate", [](DeviceArg device) { return cuda::clock_rate(device); },
      "The clock of the multiprocessors, MHz.");
  define_for_device(
      m, "device_memory_used", [](DeviceArg device) { return cuda::device_memory_used(device); },
      "Bytes of a device's memory that all processes use.");
  define_for_device(
      m, "list_gpu_processes", [](DeviceArg device) { return cuda::list_gpu_processes(device); },
      "The processes that compute on a device, and their memory, as text.");
}

}  // namespace ember::python
