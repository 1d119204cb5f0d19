#include "ember/replay/replay.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/json_text.h"
#include "ember/replay/policies.h"
#include "ember/replay/trace.h"

namespace ember::inline v0::cuda {
namespace {

using replay::Limits;
using replay::Trace;
using Policy = std::function<ReplayOutcome(const Trace&, const Limits&)>;

constexpr std::size_t kMostPoints = 10000;
/// Enough for any trace, and a number that sums stay below.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 60;

/// Which one a name stands for. ValueError if none.
Policy policy_of(const std::string& name, const ReplayOptions& options) {
  if (name == "torch") return replay::replay_torch;
  if (name == "torch-expandable") return replay::replay_expandable;
  memory::Settings settings;
  if (name != "ember") {
    const std::string what = "policies: '" + as_line(name) + "'";
    if (name.find(':') == std::string::npos)
      throw ValueError(what +
                       ": expected 'torch', 'torch-expandable', 'ember', or settings as in "
                       "EMBER_ALLOC_CONF, such as 'max_split_size_mb:64'");
    if (const Status status = memory::parse_settings(name, settings); !status.ok())
      throw ValueError(what + ": " + status.detail());
    if (settings.ordered)
      throw ValueError(what +
                       ": what the driver's own pool does is not known; expected settings of "
                       "backend:native");
    if (options.memory == 0 &&
        (settings.garbage_collection_threshold != 0 || settings.per_process_memory_fraction != 1))
      throw ValueError(what +
                       ": garbage_collection_threshold and per_process_memory_fraction are parts "
                       "of the device's memory; expected how much that is");
  }
  return [settings](const Trace& trace, const Limits& limits) {
    return replay::replay_ember(trace, settings, limits);
  };
}

// ---- The table

std::string formatted(const char* format, auto... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string peaks_of(const ReplayPeaks& peaks) {
  return formatted("%12.2f %14.2f %7.1f%%", mib(peaks.allocated), mib(peaks.reserved),
                   100 * peaks.unused());
}

std::string remarks_on(const ReplayOutcome& outcome) {
  std::string text;
  if (outcome.failed_at)
    text += "  " + outcome.policy + ": out of memory at entry " +
            std::to_string(*outcome.failed_at) + ": " + outcome.failure + "\n";
  if (outcome.compared)
    text += "  " + outcome.policy +
            (outcome.differences == 0
                 ? ": every block and segment is where the trace has it\n"
                 : ": differs from the trace " + std::to_string(outcome.differences) + " times; " +
                       outcome.first_difference + "\n");
  return text;
}

/// How it went: columns are policies, by their numbers.
std::string course_of(const std::vector<ReplayOutcome>& outcomes, std::size_t rows) {
  if (rows == 0) return {};
  std::string text =
      "over time, when most was in use: MiB reserved, and the part that was not in use\n" +
      padded("  of the trace", 15);
  for (std::size_t i = 0; i < outcomes.size(); ++i) text += formatted(" %17zu", i + 1);
  text += '\n';
  for (std::size_t row = 0; row < rows; ++row) {
    text += formatted("  to %5.1f %%   ",
                      100.0 * static_cast<double>(row + 1) / static_cast<double>(rows));
    for (const ReplayOutcome& outcome : outcomes)
      text += row < outcome.course.size()
                  ? formatted(" %10.2f %5.1f%%", mib(outcome.course[row].bytes.reserved),
                              100 * outcome.course[row].bytes.unused())
                  : formatted(" %17s", "-");
    text += '\n';
  }
  return text;
}

}  // namespace

std::string Replayed::str() const {
  std::string text = program.empty() ? "" : as_line(program) + ": ";
  text += std::to_string(entries) + " entries, " + std::to_string(streams) +
          (streams == 1 ? " stream\n" : " streams\n");
  if (dropped != 0)
    text +=
        std::to_string(dropped) + " entries about memory from before the history are left out\n";
  std::size_t width = std::string("  the same, expandable").size();
  for (const ReplayOutcome& outcome : outcomes) width = std::max(width, outcome.policy.size() + 4);
  text += padded("MiB", width) + " most in use  most reserved   unused    calls  later\n";
  if (native) text += padded("  counted by PyTorch", width) + peaks_of(*native) + "\n";
  if (expandable) text += padded("  the same, expandable", width) + peaks_of(*expandable) + "\n";
  text += padded("  as asked for", width) + peaks_of(recorded) + "\n";
  std::size_t number = 0;
  for (const ReplayOutcome& outcome : outcomes)
    text +=
        padded(std::to_string(++number) + " " + outcome.policy, width) + peaks_of(outcome.peaks) +
        formatted(" %8zu %6zu", outcome.calls_first + outcome.calls_after, outcome.calls_after) +
        (outcome.failed_at ? "  out of memory\n" : "\n");
  for (const ReplayOutcome& outcome : outcomes) text += remarks_on(outcome);
  return text + course_of(outcomes, points);
}

Replayed replay_memory(std::string_view text, const ReplayOptions& options) {
  if (options.points > kMostPoints)
    throw ValueError("points: got " + std::to_string(options.points) + ", expected 0 to " +
                     std::to_string(kMostPoints));
  std::vector<std::string> names = options.policies;
  if (names.empty()) names = {"torch", "torch-expandable", "ember", "expandable_segments:True"};
  std::vector<Policy> policies;
  policies.reserve(names.size());
  for (const std::string& name : names) policies.push_back(policy_of(name, options));

  const Trace trace = replay::trace_of(text, options.device);
  Replayed replayed;
  replayed.program = trace.program;
  replayed.entries = trace.entries.size();
  replayed.streams = trace.streams();
  replayed.dropped = trace.dropped;
  replayed.points = std::min(options.points, trace.entries.size());
  replayed.native = trace.native;
  replayed.expandable = trace.expandable;
  replayed.recorded = replay::recorded(trace).peaks;
  const Limits limits{std::min(options.memory, kMostMemory), options.points};
  for (std::size_t i = 0; i < names.size(); ++i) {
    replayed.outcomes.push_back(policies[i](trace, limits));
    replayed.outcomes.back().policy = std::move(names[i]);
  }
  return replayed;
}

}  // namespace ember::inline v0::cuda
