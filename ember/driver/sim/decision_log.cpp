#include "ember/driver/sim/decision_log.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr std::string_view kFirstLine = "ember schedule log 1";
constexpr std::string_view kAts[] = {"submit", "query", "wait", "turn", "note"};
/// A file that is larger is no log that anybody could work with.
constexpr std::size_t kMaxFile = std::size_t{1} << 30;

/// A name as one word of one line: what would end the line or hide is shown as '?'.
std::string printable(const char* name) {
  std::string text(name);
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return text;
}

/// Takes what stands before the next space, and that.
std::string_view next_word(std::string_view& rest) {
  const std::size_t space = rest.find(' ');
  const std::string_view word = rest.substr(0, space);
  rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  return word;
}

template <class Number>
bool read(std::string_view text, Number& out, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// "s2.14".
bool read_task(std::string_view text, std::uint32_t& stream, std::uint64_t& task) {
  const std::size_t dot = text.find('.');
  return !text.empty() && text[0] == 's' && dot != std::string_view::npos &&
         read(text.substr(1, dot - 1), stream) && stream != 0 && read(text.substr(dot + 1), task) &&
         task != 0;
}

/// What is wrong with the line, or null.
const char* parse_decision(std::string_view line, Decision& out, std::string_view& name) {
  const std::string_view at = next_word(line);
  std::size_t kind = 0;
  while (kind < std::size(kAts) && kAts[kind] != at) ++kind;
  if (kind == std::size(kAts)) return "'submit', 'query', 'wait', 'turn', 'note' or 'end'";
  out.at = static_cast<At>(kind);
  if (!read(next_word(line), out.ready)) return "how many tasks were ready";
  if (const std::string_view sum = next_word(line); sum.size() != 8 || !read(sum, out.sum, 16))
    return "a sum of 8 hexadecimal digits";
  std::string_view chosen = next_word(line);
  if (chosen == "host") return line.empty() ? nullptr : "nothing behind 'host'";
  constexpr const char* kExpected = "'host' or a task such as 's2.14', 's2.14+s1.3' or 's2.14/2'";
  constexpr std::string_view kHalf = "/2";
  if (chosen.size() > kHalf.size() && chosen.substr(chosen.size() - kHalf.size()) == kHalf) {
    out.half = true;
    chosen.remove_suffix(kHalf.size());
  } else if (const std::size_t plus = chosen.find('+'); plus != std::string_view::npos) {
    if (!read_task(chosen.substr(plus + 1), out.with_stream, out.with_task)) return kExpected;
    chosen = chosen.substr(0, plus);
  }
  if (!read_task(chosen, out.stream, out.task)) return kExpected;
  name = line;
  return nullptr;
}

}  // namespace

bool Decision::same_as(const Decision& other) const noexcept {
  if (at != other.at || ready != other.ready || sum != other.sum || stream != other.stream ||
      task != other.task || with_stream != other.with_stream || with_task != other.with_task ||
      half != other.half)
    return false;
  return name == other.name || printable(name) == printable(other.name);
}

std::string decision_text(const Decision& decision) {
  char text[160];
  const char* at = kAts[static_cast<std::size_t>(decision.at)].data();
  if (decision.stream == 0) {
    std::snprintf(text, sizeof text, "%s %u %08x host", at, decision.ready, decision.sum);
    return text;
  }
  std::snprintf(text, sizeof text, "%s %u %08x s%u.%llu%s", at, decision.ready, decision.sum,
                decision.stream, static_cast<unsigned long long>(decision.task),
                decision.half ? "/2" : "");
  std::string made = text;
  if (decision.with_stream != 0)
    made += "+s" + std::to_string(decision.with_stream) + "." + std::to_string(decision.with_task);
  return made + " " + printable(decision.name);
}

std::string log_text(const LogFrame& frame, const std::vector<Decision>& decisions) {
  std::string text(kFirstLine);
  text += "\nschedule " + frame.schedule + '\n';
  if (!frame.remark.empty()) text += "# " + frame.remark + '\n';
  for (const Decision& decision : decisions) text += decision_text(decision) + '\n';
  return text + "end " + std::to_string(decisions.size()) + '\n';
}

Status parse_log(std::string_view text, Recording& out) {
  std::size_t number = 0;
  std::string_view line;
  const auto next_line = [&] {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    return true;
  };
  const auto malformed = [&](const std::string& expected) {
    return Status(Code::invalid_value, "line " + std::to_string(number) + " is '" +
                                           std::string(line.substr(0, 100)) + "', expected " +
                                           expected);
  };
  const auto truncated = [&] {
    return Status(Code::invalid_value, "it ends after line " + std::to_string(number) +
                                           ", expected a last line such as 'end 120'");
  };
  Recording made;
  std::vector<std::string_view> names;
  if (!next_line()) return truncated();
  if (line != kFirstLine) return malformed("'" + std::string(kFirstLine) + "'");
  if (!next_line()) return truncated();
  constexpr std::string_view kSchedule = "schedule ";
  if (line.substr(0, kSchedule.size()) != kSchedule) return malformed("'schedule ...'");
  made.frame.schedule = line.substr(kSchedule.size());
  while (true) {
    if (!next_line()) return truncated();
    if (!line.empty() && line[0] == '#') continue;
    std::string_view rest = line;
    if (next_word(rest) == "end") {
      std::size_t count = 0;
      if (!read(rest, count) || count != made.decisions.size())
        return malformed("'end " + std::to_string(made.decisions.size()) +
                         "', for as many decisions");
      break;
    }
    Decision decision;
    std::string_view name;
    if (const char* expected = parse_decision(line, decision, name); expected != nullptr)
      return malformed(expected);
    made.decisions.push_back(decision);
    names.push_back(name);
  }
  if (!text.empty()) {
    line = text.substr(0, text.find('\n'));
    ++number;
    return malformed("nothing behind the end");
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    made.decisions[i].name = Name::intern(names[i]).c_str();
  out = std::move(made);
  return {};
}

Status read_text(const std::string& file, std::string& out) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file.c_str(), "rbe"),
                                                               &std::fclose);
  if (!opened)
    return Status(Code::invalid_value, std::string("cannot be opened: ") + std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, opened.get())) != 0) {
    text.append(buffer, got);
    if (text.size() > kMaxFile) return Status(Code::invalid_value, "is larger than 1 GiB");
  }
  if (std::ferror(opened.get()) != 0)
    return Status(Code::invalid_value, std::string("cannot be read: ") + std::strerror(errno));
  out = std::move(text);
  return {};
}

Status read_log(const std::string& file, Recording& out) {
  const auto failed = [&](const std::string& why) {
    return Status(Code::invalid_value, "EMBER_SIM_SCHEDULE='replay:" + file + "': " + why);
  };
  std::string text;
  if (const Status status = read_text(file, text); !status.ok()) return failed(status.detail());
  if (const Status status = parse_log(text, out); !status.ok())
    return failed("is no schedule log: " + status.detail());
  return {};
}

Status open_steps(Schedule& schedule) {
  if (schedule.kind != Schedule::Kind::steps || schedule.file.empty()) return {};
  std::string text;
  Status status = read_text(schedule.file, text);
  if (status.ok()) status = parse_steps(text, schedule.steps);
  if (status.ok()) return {};
  return Status(Code::invalid_value,
                "EMBER_SIM_SCHEDULE='steps:@" + schedule.file + "': " + status.detail());
}

Status open_recording(Schedule& schedule, std::optional<Recording>& out, Schedule& recorded) {
  recorded = schedule;
  if (schedule.kind != Schedule::Kind::replay) {
    out.reset();
    return {};
  }
  Recording recording;
  EMBER_TRY(read_log(schedule.file, recording));
  if (const Status status = parse_schedule(recording.frame.schedule, recorded); !status.ok())
    return Status(Code::invalid_value, "EMBER_SIM_SCHEDULE='replay:" + schedule.file +
                                           "': is no schedule log: line 2: " + status.detail());
  schedule.seed = recorded.seed;
  out = std::move(recording);
  return {};
}

Status write_log(const std::string& file, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file.c_str(), "wbe"),
                                                               &std::fclose);
  if (opened && std::fwrite(text.data(), 1, text.size(), opened.get()) == text.size() &&
      std::fflush(opened.get()) == 0)
    return {};
  return Status(Code::invalid_value,
                "EMBER_SIM_LOG='" + file + "' cannot be written: " + std::strerror(errno));
}

}  // namespace ember::inline v0::driver::sim
