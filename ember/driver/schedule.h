// In which order simulated devices do what is ready: EMBER_SIM_SCHEDULE. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ember/base/export.h"
#include "ember/base/status.h"

namespace ember::inline v0::driver {

struct Schedule {
  static constexpr int kMaxDepth = 64;

  enum class Kind {
    threads,  ///< as it comes: a thread for each stream
    random,   ///< any task that is ready, by the seed
    pct,      ///< by priorities from the seed, which change `depth` - 1 times
    replay,   ///< as in `file`, which is the log of an earlier run
  };
  Kind kind = Kind::threads;
  std::uint64_t seed = 0;
  int depth = 0;
  std::string file;

  /// Whether a seed decides, and nothing runs beside anything else.
  bool seeded() const noexcept { return kind != Kind::threads; }
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Parses `threads`, `random:SEED`, `pct:SEED:DEPTH` or `replay:FILE`; nothing or an empty text is
/// `threads`. Otherwise Code::invalid_value with a detail that names the variable, the value and
/// what was expected, and `out` is untouched. Does not look for the file.
EMBER_API Status parse_schedule(const std::optional<std::string>& text, Schedule& out);

/// Parses EMBER_SIM_PATIENCE: seconds, 0 to 86400; nothing or an empty text is 20. The same error.
EMBER_API Status parse_patience(const std::optional<std::string>& text, int& out);

/// The text that parse_schedule reads as this.
EMBER_API std::string schedule_text(const Schedule& schedule);

}  // namespace ember::inline v0::driver
