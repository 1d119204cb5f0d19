// Making the driver that was chosen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ember/driver/choice.h"
#include "ember/driver/driver.h"

namespace ember::inline v0::driver {

/// Makes the chosen driver. Failures, each with a detail for people:
///   invalid_value        the simulated machine that was named has other devices
///   not_permitted        it cannot be joined, such as for a record that is somebody else's
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

/// The UUIDs ("GPU-550e8400-...") of all devices of the machine, whatever is visible, without
/// initialising CUDA. Code::not_ready where NVML cannot tell: it is missing, or a device is cut
/// into MIG instances.
Status uuids_without_opening(const Choice& choice, std::vector<std::string>& out) noexcept;

/// What Driver::device_sensor and device_processes would say of one of the devices that open()
/// would give, without initialising CUDA. Code::not_ready when only the driver can tell;
/// Code::not_initialized without NVML, Code::no_device without an NVIDIA driver.
Status sensor_without_opening(const Choice& choice, int device, Sensor sensor,
                              std::int64_t& out) noexcept;
Status processes_without_opening(const Choice& choice, int device, GpuProcesses& out) noexcept;

/// Whether that loads the CUDA object, or asks it: a process forked meanwhile by another thread
/// can do neither again.
bool counting_leaves_ember(const Choice& choice) noexcept;

/// Whether the CUDA object was looked for already, found or not, and is not looked for again.
bool cuda_object_is_known() noexcept;

/// "sm_90 compute_90", or "" without a CUDA object.
std::string compiled_architectures();

/// The simulated driver; defined in driver/sim. Without a schedule EMBER_SIM_SCHEDULE has it;
/// Code::invalid_value when that is malformed or cannot be replayed. Joins the machine that `spec`
/// names, if it does: Code::invalid_value if that has other devices, Code::not_permitted if it
/// cannot be joined, each with a detail for people.
Status make_simulated(const SimulatedSpec& spec, const std::optional<Schedule>& schedule,
                      std::unique_ptr<Driver>& out);

/// Makes a machine out of `spec` that other processes can join, and joins it: gives it a name and a
/// folder if it has none. `driver`, if there is one, is moved there with what it holds; it must
/// have the same devices. Failures as above; defined in driver/sim.
Status share_simulated(SimulatedSpec& spec, Driver* driver);

/// Whether the driver is a simulated one of such devices, on no shared machine or on that one;
/// defined in driver/sim.
bool may_share(const Driver& driver, const SimulatedSpec& spec) noexcept;

/// Fills in which devices a named machine has. Code::invalid_value if there is none; defined in
/// driver/sim.
Status find_simulated(SimulatedSpec& spec);

/// The process ends, and does so without std::exit: others no longer need to wait for it on the
/// machines that it shares. Defined in driver/sim.
void leave_simulated();

/// A simulated device on which nothing has happened yet in this process, but perhaps in others that
/// its machine is shared with; defined in driver/sim.
Status idle_simulated_sensor(const SimulatedSpec& spec, int device, Sensor sensor,
                             std::int64_t& out);
Status idle_simulated_processes(const SimulatedSpec& spec, int device, GpuProcesses& out);

/// What CUDA_VISIBLE_DEVICES says of the devices that are chosen; nothing where all are visible.
std::optional<std::string> visible_text(const Choice& choice);

/// Which of `spec`'s devices CUDA_VISIBLE_DEVICES leaves, by their numbers; defined in driver/sim.
std::vector<int> visible_simulated(const SimulatedSpec& spec);

/// The UUIDs of all of `spec`'s devices; defined in driver/sim.
std::vector<std::string> simulated_uuids(const SimulatedSpec& spec);

/// How many of `spec`'s devices CUDA_VISIBLE_DEVICES leaves; defined in driver/sim.
int count_simulated(const SimulatedSpec& spec);

}  // namespace ember::inline v0::driver
