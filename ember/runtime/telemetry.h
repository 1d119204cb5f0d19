// What a device is doing, beside the work of this process: chapter 17 of the documents.
//
// Real GPUs are asked through NVML (libnvidia-ml.so.1, a part of the NVIDIA driver), which is
// opened at the first use; only ever asked, never told to change anything. A device is found by its
// UUID once CUDA is initialised, before that by its place in CUDA_VISIBLE_DEVICES: so nothing here
// initialises CUDA for a device that is named by a number, and the process may still fork.
//
// A simulated device tells what it did in the last second; temperature and power follow from that
// by a model of a GPU, and its clock is the one by which sleep_cycles counts.
//
// All functions may be called by any thread at any time, also while the device is in a fault. They
// wait for no work; the first one blocks for a tenth of a second where NVML is opened. Errors, each
// an Error:
//   `device 3 is not visible (CUDA_VISIBLE_DEVICES=[0, 1])`
//   `cuda driver can't be loaded, is cuda enabled?`   NVML finds no NVIDIA driver
//   `Can't get device UUIDs`                           CUDA_VISIBLE_DEVICES names them, NVML does
//   not the name of the library, or of the function of NVML's, that is missing or has failed: not
//   every GPU has every sensor
#pragma once

#include <cstdint>
#include <string>

#include "ember/base/export.h"
#include "ember/driver/telemetry.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

using driver::GpuProcess;
using driver::GpuProcesses;

/// Percent of the last sample period (on simulated devices: of the last second) in which a kernel
/// ran. A simulated device counts copies and fills, too.
EMBER_API int utilization(DeviceArg device = {});

/// Percent of it in which device memory was read or written. On a simulated device: in which a copy
/// or fill ran, or a kernel that had asked for memory.
EMBER_API int memory_usage(DeviceArg device = {});

/// Degrees Celsius, of the die. On a simulated device 30 when it has nothing to do, 65 when it is
/// never without.
EMBER_API int temperature(DeviceArg device = {});

/// Milliwatts. On a simulated device 75,000 to 700,000.
EMBER_API int power_draw(DeviceArg device = {});

/// The clock of the multiprocessors, MHz. (Older documents say Hz.) 1000 on a simulated device.
EMBER_API int clock_rate(DeviceArg device = {});

/// Bytes of the device's memory that all processes use, and what the driver itself keeps of it. On
/// a simulated device: what processes have of it.
EMBER_API std::int64_t device_memory_used(DeviceArg device = {});

/// The processes that compute on a device, whether they use ember or not, as far as the driver lets
/// this one know: in a container perhaps none, or by the numbers that they have outside.
EMBER_API GpuProcesses gpu_processes(DeviceArg device = {});

/// The same as text, in the documents' words. Says so in place of an error where there is no NVML
/// or no NVIDIA driver.
EMBER_API std::string list_gpu_processes(DeviceArg device = {});

}  // namespace ember::inline v0::cuda
