#include "ember/driver/schedule.h"

#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace ember::inline v0::driver {
namespace {

Status malformed_schedule(const std::string& text, const std::string& why) {
  return Status(Code::invalid_value, "EMBER_SIM_SCHEDULE='" + text + "': " + why +
                                         "; expected 'threads', 'random:SEED', 'pct:SEED:DEPTH' "
                                         "(such as pct:7:3), 'replay:FILE', 'steps:LIST' (such as "
                                         "steps:3:s2.1), 'model', 'model:FILE' or 'swarm:SEED'");
}

template <class Number>
bool read(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

constexpr const char* kNoSeed = " is not a seed from 0 to 2^64 - 1";

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

}  // namespace

Status parse_schedule(const std::optional<std::string>& text, Schedule& out) {
  Schedule schedule;
  if (!text || text->empty() || *text == "threads") {
    out = schedule;
    return {};
  }
  const std::size_t colon = text->find(':');
  const std::string_view kind = std::string_view(*text).substr(0, colon);
  std::string_view rest =
      colon == std::string::npos ? std::string_view() : std::string_view(*text).substr(colon + 1);
  if (kind == "steps" && colon != std::string::npos) {
    schedule.kind = Schedule::Kind::steps;
    if (rest.substr(0, 1) == "@") {
      schedule.file = rest.substr(1);
      if (schedule.file.empty() || schedule.file.find('\0') != std::string::npos)
        return malformed_schedule(*text, "no file is named");
    } else if (rest.find_first_of(" #\n") != std::string_view::npos) {
      return malformed_schedule(*text, "steps are separated by commas alone");
    } else if (const Status status = parse_steps(std::string(rest), schedule.steps); !status.ok()) {
      return malformed_schedule(*text, status.detail());
    }
  } else if (kind == "replay" || kind == "model") {
    if (rest.empty() && *text != "model") return malformed_schedule(*text, "no file is named");
    if (rest.find('\0') != std::string_view::npos)
      return malformed_schedule(*text, "the file's name has a zero in it");
    schedule.kind = kind == "model" ? Schedule::Kind::model : Schedule::Kind::replay;
    constexpr std::string_view kSeed = ",seed=";
    if (const std::size_t at = rest.rfind(kSeed); kind == "model" && at != std::string_view::npos) {
      const std::string_view seed = rest.substr(at + kSeed.size());
      if (!read(seed, schedule.seed)) return malformed_schedule(*text, quoted(seed) + kNoSeed);
      rest = rest.substr(0, at);
      if (rest.empty()) return malformed_schedule(*text, "no file is named");
    }
    schedule.file = rest;
  } else if (kind == "random" || kind == "pct" || kind == "swarm") {
    schedule.kind = kind == "random" ? Schedule::Kind::random
                    : kind == "pct"  ? Schedule::Kind::pct
                                     : Schedule::Kind::swarm;
    if (kind == "pct") {
      const std::size_t second = rest.find(':');
      const std::string_view depth =
          second == std::string_view::npos ? std::string_view() : rest.substr(second + 1);
      rest = rest.substr(0, second);
      if (!read(depth, schedule.depth) || schedule.depth < 1 ||
          schedule.depth > Schedule::kMaxDepth)
        return malformed_schedule(*text, quoted(depth) + " is not a depth from 1 to " +
                                             std::to_string(Schedule::kMaxDepth));
    }
    if (!read(rest, schedule.seed)) return malformed_schedule(*text, quoted(rest) + kNoSeed);
  } else {
    return malformed_schedule(*text, quoted(kind) + " is no kind of schedule");
  }
  out = schedule;
  return {};
}

namespace {

/// "s2.1".
bool read_task(std::string_view text, std::uint32_t& stream, std::uint64_t& task) {
  const std::size_t dot = text.find('.');
  return text.substr(0, 1) == "s" && dot != std::string_view::npos &&
         read(text.substr(1, dot - 1), stream) && read(text.substr(dot + 1), task) && stream != 0 &&
         task != 0;
}

/// "3:s2.1", "3:s2.1+s1.4" or "3:s2.1/2".
bool read_step(std::string_view word, Step& step) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos || !read(word.substr(0, colon), step.point) ||
      step.point == 0)
    return false;
  std::string_view task = word.substr(colon + 1);
  constexpr std::string_view kHalf = "/2";
  if (task.size() > kHalf.size() && task.substr(task.size() - kHalf.size()) == kHalf) {
    step.half = true;
    task.remove_suffix(kHalf.size());
  } else if (const std::size_t plus = task.find('+'); plus != std::string_view::npos) {
    if (!read_task(task.substr(plus + 1), step.with_stream, step.with_task)) return false;
    task = task.substr(0, plus);
  }
  return read_task(task, step.stream, step.task) && step.stream != step.with_stream;
}

std::string task_text(std::uint32_t stream, std::uint64_t task) {
  return "s" + std::to_string(stream) + "." + std::to_string(task);
}

}  // namespace

Status parse_steps(const std::string& text, std::vector<Step>& out) {
  std::vector<Step> steps;
  std::string_view left = text;
  while (!left.empty()) {
    std::size_t end = left[0] == '#' ? 0 : left.find_first_of(", \n");
    const std::string_view word = left.substr(0, end);
    if (end < left.size() && left[end] != ',') end = left.find('\n', end);
    left.remove_prefix(end == std::string_view::npos ? left.size() : end + 1);
    if (word.empty()) continue;
    Step step;
    if (!read_step(word, step))
      return Status(Code::invalid_value,
                    quoted(word) + " is no step such as '3:s2.1', '3:s2.1+s1.4' or '3:s2.1/2'");
    if (!steps.empty() && step.point < steps.back().point)
      return Status(Code::invalid_value, quoted(word) + " comes after a step at a later point, " +
                                             std::to_string(steps.back().point) +
                                             "; points must not decrease");
    steps.push_back(step);
  }
  out = std::move(steps);
  return {};
}

std::string steps_text(const std::vector<Step>& steps) {
  std::string text;
  for (const Step& step : steps) {
    text += (text.empty() ? "" : ",") + std::to_string(step.point) + ":" +
            task_text(step.stream, step.task);
    if (step.half) text += "/2";
    if (step.with_stream != 0) text += "+" + task_text(step.with_stream, step.with_task);
  }
  return text;
}

Status parse_patience(const std::optional<std::string>& text, int& out) {
  constexpr int kUsual = 20;
  constexpr int kMost = 86400;
  int seconds = kUsual;
  if (text && !text->empty() &&
      (!read(std::string_view(*text), seconds) || seconds < 0 || seconds > kMost))
    return Status(Code::invalid_value,
                  "EMBER_SIM_PATIENCE='" + *text + "': expected a number of seconds, 0 to 86400");
  out = seconds;
  return {};
}

std::string schedule_text(const Schedule& schedule) {
  switch (schedule.kind) {
    case Schedule::Kind::threads: break;
    case Schedule::Kind::random: return "random:" + std::to_string(schedule.seed);
    case Schedule::Kind::pct:
      return "pct:" + std::to_string(schedule.seed) + ":" + std::to_string(schedule.depth);
    case Schedule::Kind::replay: return "replay:" + schedule.file;
    case Schedule::Kind::steps:
      return "steps:" + (schedule.file.empty() ? steps_text(schedule.steps) : "@" + schedule.file);
    case Schedule::Kind::model:
      if (schedule.seed == 0) return schedule.file.empty() ? "model" : "model:" + schedule.file;
      return "model:" + (schedule.file.empty() ? "h200" : schedule.file) +
             ",seed=" + std::to_string(schedule.seed);
    case Schedule::Kind::swarm: return "swarm:" + std::to_string(schedule.seed);
  }
  return "threads";
}

}  // namespace ember::inline v0::driver
