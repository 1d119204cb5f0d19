// Which of the machine's devices this process sees, step by step, as tools ask for it: chapters 2
// and 28 of the documents. device_count() (runtime/device.h) is the answer for everybody else.
//
// Real devices are known from NVML, so that nothing here initialises CUDA and the process may still
// fork. On simulated devices the machine has those that EMBER_DEVICES asks for; "NVML" is ember
// itself then. CUDA_VISIBLE_DEVICES is read at every call.
//
// All functions may be called by any thread at any time; the first one that asks for the machine's
// devices blocks for a tenth of a second where NVML is opened. ValueError for a malformed
// EMBER_DEVICES.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/driver/choice.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

using driver::VisibleList;

/// What CUDA_VISIBLE_DEVICES asks for, whatever the machine has: numbers, or prefixes of UUIDs.
/// Never throws but for want of memory.
EMBER_API VisibleList parse_visible_devices();

/// The places of the UUIDs that start with the candidates: driver::match_uuids.
inline std::vector<int> transform_uuid_to_ordinals(const std::vector<std::string>& candidates,
                                                   const std::vector<std::string>& uuids) {
  return driver::match_uuids(candidates, uuids);
}

/// The UUIDs ("GPU-550e8400-...") of all devices of the machine. Nothing where NVML cannot tell: it
/// is missing, or a device is cut into MIG instances.
EMBER_API std::optional<std::vector<std::string>> machine_uuids();

/// How many devices the machine has; -1 where NVML cannot tell.
EMBER_API int machine_device_count();

/// How many of them are visible; -1 where NVML cannot tell, or CUDA_VISIBLE_DEVICES names instances
/// of MIG.
EMBER_API int visible_device_count();

/// The number of a visible device among all of the machine. Error `device 3 is not visible
/// (CUDA_VISIBLE_DEVICES=[0, 1])`, and `Can't get device UUIDs` where CUDA_VISIBLE_DEVICES names
/// UUIDs and NVML cannot tell. Nothing, and plain "cuda", is the current device, which initialises.
EMBER_API int machine_device_index(DeviceArg device = {});

}  // namespace ember::inline v0::cuda
