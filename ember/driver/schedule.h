// In which order simulated devices do what is ready: EMBER_SIM_SCHEDULE. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::driver {

/// One task that runs, behind those before it in its stream, before the host goes on from a point.
/// The host comes to a point whenever it has enqueued something, and whenever it waits.
struct Step {
  std::uint64_t point = 0;   ///< from 1
  std::uint32_t stream = 0;  ///< the stream's number in the run, from 1
  std::uint64_t task = 0;    ///< its number in the stream and in the run, from 1
  /// Another task that overlaps with it: each of them reads what was there before both, and what
  /// both have written stays. 0: none.
  std::uint32_t with_stream = 0;
  std::uint64_t with_task = 0;
  bool half = false;  ///< only the first half of its bytes; of a copy
  friend bool operator==(const Step&, const Step&) = default;
};

struct Schedule {
  static constexpr int kMaxDepth = 64;

  enum class Kind {
    threads,  ///< as it comes: a thread for each stream
    random,   ///< any task that is ready, by the seed
    pct,      ///< by priorities from the seed, which change `depth` - 1 times
    replay,   ///< as in `file`, which is the log of an earlier run
    steps,    ///< as late as can be, except for `steps`, or those in `file`
    model,    ///< by the times of a device model: `file` is its name or file, and what differs
    swarm,    ///< as one of the kinds random, pct and model, which the seed draws
  };
  Kind kind = Kind::threads;
  std::uint64_t seed = 0;
  int depth = 0;
  std::string file;
  std::vector<Step> steps = {};  ///< by point; done in their order

  /// Whether a seed or a model decides, and nothing runs beside anything else.
  bool seeded() const noexcept { return kind != Kind::threads; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Parses `threads`, `random:SEED`, `pct:SEED:DEPTH`, `replay:FILE`, `steps:LIST`, `steps:@FILE`,
/// `model`, `model:NAME_OR_FILE` with any number of `,KEY=VALUE` behind it, the last of which may
/// be `seed=SEED`, or `swarm:SEED`; nothing or an empty text is `threads`. Otherwise
/// Code::invalid_value with a detail that names the variable, the value and what was expected, and
/// `out` is untouched. Does not look for the file.
EMBER_API Status parse_schedule(const std::optional<std::string>& text, Schedule& out);

/// Parses steps such as "3:s2.1,5:s1.1": before the host goes on from its third point, task 1 of
/// stream 2 runs. "3:s2.1+s1.4": it overlaps with task 4 of stream 1. "3:s2.1/2": the first half of
/// that copy. In a file lines may stand for commas; what stands behind a space, up to the end
/// of the line, is a remark, and so is a line that begins with `#`. Points must not decrease.
/// Otherwise Code::invalid_value with a detail that says what was expected.
EMBER_API Status parse_steps(const std::string& text, std::vector<Step>& out);
/// "3:s2.1,5:s1.1".
EMBER_API std::string steps_text(const std::vector<Step>& steps);

/// Parses EMBER_SIM_PATIENCE: seconds, 0 to 86400; nothing or an empty text is 20. The same error.
EMBER_API Status parse_patience(const std::optional<std::string>& text, int& out);

/// The text that parse_schedule reads as this.
EMBER_API std::string schedule_text(const Schedule& schedule);

}  // namespace ember::inline v0::driver
