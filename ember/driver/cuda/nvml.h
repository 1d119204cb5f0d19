// The management library: what can be known of the machine's GPUs without initialising CUDA. It is
// only ever asked: nothing here changes a setting of a GPU's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ember/driver/telemetry.h"

namespace ember::inline v0::driver::cuda {

/// How many devices CUDA would show under the present CUDA_VISIBLE_DEVICES; -1 when NVML cannot
/// tell. CUDA is not touched, so that the process may still fork.
int count_without_cuda() noexcept;

/// Whether NVML has told already: then counting asks it nothing any more.
bool devices_are_known() noexcept;

/// CudaObject::uuids_without_cuda. Lives as long as the process.
const std::vector<std::string>* uuids_without_cuda() noexcept;

/// CudaObject::sensor_without_cuda and processes_without_cuda.
Status sensor_without_cuda(int device, Sensor sensor, std::int64_t& out) noexcept;
Status processes_without_cuda(int device, GpuProcesses& out) noexcept;

/// The same of the device with a UUID, as CUDA has it. Numbers of CUDA's and NVML's are of no use
/// to each other: CUDA orders devices by speed unless CUDA_DEVICE_ORDER says otherwise.
using Uuid = std::array<std::uint8_t, 16>;
Status sensor_of(const Uuid& uuid, Sensor sensor, std::int64_t& out) noexcept;
Status processes_of(const Uuid& uuid, GpuProcesses& out) noexcept;
/// The number of that device among all of the machine; -1 when NVML cannot tell.
int machine_index_of(const Uuid& uuid) noexcept;

}  // namespace ember::inline v0::driver::cuda
