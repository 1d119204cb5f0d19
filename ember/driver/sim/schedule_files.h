// What a schedule names beside itself.
#pragma once

#include <optional>

#include "ember/driver/sim/decision_log.h"
#include "ember/driver/sim/device_model.h"

namespace ember::inline v0::driver::sim {

struct ScheduleFiles {
  std::optional<Recording> recording;  ///< of kind replay
  std::optional<DeviceModel> model;    ///< of kind model, or of what is replayed
};

/// Reads them, and completes the schedule with its steps, or the seed of what is replayed.
/// Code::invalid_value with a detail that names the file.
inline Status open_files(Schedule& schedule, ScheduleFiles& out) {
  Schedule decides;
  EMBER_TRY(open_recording(schedule, out.recording, decides));
  EMBER_TRY(open_steps(schedule));
  return open_model(decides, out.model);
}

}  // namespace ember::inline v0::driver::sim
