// Making the driver that was chosen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ember/driver/choice.h"
#include "ember/driver/driver.h"

namespace ember::inline v0::driver {

/// Makes the chosen driver. Failures, each with a detail for people:
///   not_supported        the core was built, or installed, without its CUDA object
///   not_initialized      the CUDA object is there and cannot be opened
///   insufficient_driver  the NVIDIA driver is too old
///   no_device            no NVIDIA driver, or no visible device, or `none` was chosen
///   invalid_value        a setting of simulated devices is malformed
/// Blocks while CUDA initialises. Call it once.
Status open(const Choice& choice, std::unique_ptr<Driver>& out);

/// How many devices open() would give, found without initialising CUDA where that is possible
/// (NVML), so that the process may still fork. -1 when only open() can tell.
int count_without_opening(const Choice& choice) noexcept;

/// What Driver::device_sensor and device_processes would say of one of the devices that open()
/// would give, without initialising CUDA. Code::not_ready when only the driver can tell;
/// Code::not_initialized without NVML, Code::no_device without an NVIDIA driver.
Status sensor_without_opening(const Choice& choice, int device, Sensor sensor, int& out) noexcept;
Status processes_without_opening(const Choice& choice, int device, GpuProcesses& out) noexcept;

/// Whether that loads the CUDA object, or asks it: a process forked meanwhile by another thread
/// can do neither again.
bool counting_leaves_ember(const Choice& choice) noexcept;

/// Whether the CUDA object was looked for already, found or not, and is not looked for again.
bool cuda_object_is_known() noexcept;

/// "sm_90 compute_90", or "" without a CUDA object.
std::string compiled_architectures();

/// The simulated driver; defined in driver/sim. Without a schedule EMBER_SIM_SCHEDULE has it;
/// Code::invalid_value when that is malformed or cannot be replayed.
Status make_simulated(const SimulatedSpec& spec, const std::optional<Schedule>& schedule,
                      std::unique_ptr<Driver>& out);

/// A simulated device on which nothing has happened yet; defined in driver/sim.
Status idle_simulated_sensor(const SimulatedSpec& spec, int device, Sensor sensor, int& out);
Status idle_simulated_processes(const SimulatedSpec& spec, int device, GpuProcesses& out);

/// Which of `spec`'s devices CUDA_VISIBLE_DEVICES leaves, by their numbers; defined in driver/sim.
std::vector<int> visible_simulated(const SimulatedSpec& spec);

/// How many of `spec`'s devices CUDA_VISIBLE_DEVICES leaves; defined in driver/sim.
int count_simulated(const SimulatedSpec& spec);

}  // namespace ember::inline v0::driver
