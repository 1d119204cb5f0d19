// What a schedule names or draws beside itself.
#pragma once

#include <optional>

#include "ember/driver/faults.h"
#include "ember/driver/sim/decision_log.h"
#include "ember/driver/sim/device_model.h"
#include "ember/driver/sim/swarm.h"

namespace ember::inline v0::driver::sim {

struct ScheduleFiles {
  std::optional<Recording> recording;  ///< of kind replay
  std::optional<DeviceModel> model;    ///< of kind model, or of what is replayed
  std::optional<Schedule> swarm;       ///< of kind swarm: it, instead of which another one decides
  Faults faults;                       ///< that the run begins with
};

/// Reads and draws them, and makes the schedule the one that decides: with its steps, with the seed
/// of what is replayed, or as it was drawn. Code::invalid_value with a detail that names the file.
inline Status open_files(Schedule& schedule, ScheduleFiles& out) {
  if (schedule.kind == Schedule::Kind::swarm) {
    Drawn drawn = draw_swarm(schedule.seed);
    out.swarm = schedule;
    out.faults = std::move(drawn.faults);
    schedule = std::move(drawn.schedule);
  }
  Schedule decides;
  EMBER_TRY(open_recording(schedule, out.recording, decides));
  EMBER_TRY(open_steps(schedule));
  return open_model(decides, out.model);
}

}  // namespace ember::inline v0::driver::sim
