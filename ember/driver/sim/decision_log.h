// The decisions of a seeded run: what was recorded, as text, and read back.
//
// A file is lines of text. docs/order.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/schedule.h"

namespace ember::inline v0::driver::sim {

/// Where a decision was taken: what a host thread was doing.
enum class At : std::uint8_t {
  submit,  ///< it has submitted a task
  query,   ///< it asks whether something is done
  wait,    ///< it waits
  turn,    ///< several host threads could go on; streams and tasks are threads and their turns
  note,    ///< not a decision: from here on several host threads had their say
};

/// One decision. Of what was ready it keeps the number, and a sum by which a replay notices that
/// something else is ready; of what was chosen, everything.
struct Decision {
  At at = At::submit;
  std::uint32_t ready = 0;        ///< how many tasks
  std::uint32_t sum = 0;          ///< of their streams and numbers
  std::uint32_t stream = 0;       ///< of the chosen task, from 1; 0: the host went on
  std::uint64_t task = 0;         ///< its number in its stream, from 1
  const char* name = "";          ///< its kernel's
  std::uint32_t with_stream = 0;  ///< of the task that overlaps with it; 0: none
  std::uint64_t with_task = 0;
  bool half = false;  ///< only the first half of it, which is a copy

  bool same_as(const Decision& other) const noexcept;
};

/// "wait 3 9ad01c77 s2.14 affine"; "s2.14+s1.3" and "s2.14/2" as in steps (driver/schedule.h).
EMBER_TEST_API std::string decision_text(const Decision& decision);

/// What stands in a log beside the decisions.
struct LogFrame {
  std::string schedule;  ///< as EMBER_SIM_SCHEDULE has it
  std::string remark;    ///< of the policy, may be empty; a replay does not read it
};

EMBER_TEST_API std::string log_text(const LogFrame& frame, const std::vector<Decision>& decisions);

/// A log that was read. Names are interned only when it is well-formed.
struct Recording {
  LogFrame frame;
  std::vector<Decision> decisions;
};

/// Code::invalid_value with a detail that names the line and what was expected; `out` is untouched.
EMBER_TEST_API Status parse_log(std::string_view text, Recording& out);

/// Writes the file anew. Code::invalid_value with a detail that names it when that fails.
Status write_log(const std::string& file, const std::string& text);

/// The whole of a file that a schedule names; the detail says only what is wrong with it.
EMBER_TEST_API Status read_text(const std::string& file, std::string& out);
/// Reads the file, too. The detail names the file.
Status read_log(const std::string& file, Recording& out);
/// The same for what a schedule of kind replay names, which gets the seed of the run that was
/// recorded; nothing for others. `recorded`: the schedule of that run, or `schedule` for others.
Status open_recording(Schedule& schedule, std::optional<Recording>& out, Schedule& recorded);
/// Reads the steps of a schedule that names a file of them; nothing for others. The detail names
/// the file.
Status open_steps(Schedule& schedule);

}  // namespace ember::inline v0::driver::sim
