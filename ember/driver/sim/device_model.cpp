#include "ember/driver/sim/device_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include "ember/driver/sim/decision_log.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr std::string_view kModelFirstLine = "ember device model 1";
/// As a time it is a day: times of as many tasks as fit a queue can be added up.
constexpr std::int64_t kMost = 86'400'000'000'000;
constexpr std::int64_t kMostEngines = 16;

struct Field {
  std::string_view name;
  std::int64_t DeviceModel::*member;
  std::int64_t least;
  std::int64_t most;
};

#define EMBER_TIME(name) \
  { #name, &DeviceModel::name, 0, kMost }
#define EMBER_RATE(name) \
  { #name, &DeviceModel::name, 1, kMost }
#define EMBER_ENGINES(name) \
  { #name, &DeviceModel::name, 1, kMostEngines }
constexpr Field kFields[] = {
    EMBER_TIME(launch_call),
    EMBER_TIME(copy_call),
    EMBER_TIME(fill_call),
    EMBER_TIME(host_function_call),
    EMBER_TIME(record_call),
    EMBER_TIME(wait_call),
    // A loop of queries has to end.
    {"query_call", &DeviceModel::query_call, 1, kMost},
    EMBER_TIME(synchronize_call),
    EMBER_TIME(launch_latency),
    EMBER_TIME(host_function_time),
    EMBER_TIME(kernel_floor),
    EMBER_TIME(device_copy_floor),
    EMBER_RATE(memory_rate),
    EMBER_RATE(float64_rate),
    EMBER_RATE(float32_rate),
    EMBER_RATE(half_rate),
    EMBER_ENGINES(to_device_engines),
    EMBER_TIME(to_device_latency),
    EMBER_RATE(to_device_rate),
    EMBER_ENGINES(to_host_engines),
    EMBER_TIME(to_host_latency),
    EMBER_RATE(to_host_rate),
    EMBER_ENGINES(peer_engines),
    EMBER_TIME(peer_latency),
    EMBER_RATE(peer_rate),
    EMBER_TIME(pageable_to_device_latency),
    EMBER_RATE(pageable_to_device_rate),
    EMBER_TIME(pageable_to_host_latency),
    EMBER_RATE(pageable_to_host_rate),
};
#undef EMBER_TIME
#undef EMBER_RATE
#undef EMBER_ENGINES

// Each number says where it is from, in bench/results. A time for each of many copies or launches
// in a row is taken as what one takes. Latencies and rates of copies are the line through the
// figures of 4 KiB to 1 GiB.
constexpr std::string_view kH200 = R"(ember device model 1
name h200

# 2026-11-23-h200-1gpu.md, C++, "ours": "launch an empty kernel" 3.29 us, "copy 4 KiB on the device"
# 3.70 us, "fill 4 KiB" 0.792 us, "event record" 0.166 us, "stream waits for an event" 0.126 us,
# "event query" 0.162 us. A host function was not measured: as a launch.
launch_call 3290
copy_call 3700
fill_call 792
host_function_call 3290
record_call 166
wait_call 126
query_call 162
# There: "launch an empty kernel and wait for it" 8.57 us. What is left of it after the call, 5.28 us,
# is the way there, the least kernel and the way back; only their sum was measured.
launch_latency 1640
kernel_floor 2000
synchronize_call 1640
# Not measured: what other seeded runs take.
host_function_time 10000
# There: "device to device, 64 KiB" 36.6 GB/s, read and written: 3.58 us each.
device_copy_floor 3580
# There: operations on 2^28 elements, "copy" 4256 GB/s.
memory_rate 4256000
# 2026-11-23-h200-1gpu-python.md: matmul 8192^3 in f64 17.35 ms, f32 21.56 ms, bf16 1.398 ms.
float64_rate 63370000
float32_rate 51000000
half_rate 786000000
# 2026-11-23-h200-1gpu.md, pinned: 4 KiB 1.55 GB/s, 1 GiB 55.5 GB/s; 2.20 and 55.4 to the host.
to_device_engines 1
to_device_latency 2600
to_device_rate 55500
to_host_engines 1
to_host_latency 1750
to_host_rate 55400
# 2026-11-23-h200-2gpu.md, "device to its peer": 4 KiB 2.14 GB/s, 1 GiB 397 GB/s.
peer_engines 1
peer_latency 1900
peer_rate 397000
# 2026-11-23-h200-1gpu.md, pageable: no line fits. 4 KiB take 1.97 and 7.2 us; the rates are those of
# 16 MiB, between 19.3 at 1 MiB and 52.9 at 1 GiB, and 10.7 and 48.0.
pageable_to_device_latency 1970
pageable_to_device_rate 30800
pageable_to_host_latency 7200
pageable_to_host_rate 41700
)";

constexpr std::string_view kH100 = R"(ember device model 1
name h100
# An H100 80GB HBM3 is the same chip and the same bus with another memory; so where bench/results has
# nothing of an H100, the numbers are the H200's.
like h200

# 2026-11-24-h100-fft.md: "c2c, 16384 x 4096" reads and writes 2^29 bytes each in 0.364 ms.
memory_rate 2950000
)";

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text.substr(0, 100)) + "'";
}

bool read_whole(std::string_view text, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// A line without its remark and the blanks around it.
std::string_view stripped(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// Reads a text line by line into a model, and knows which values it has.
class Reader {
 public:
  Status all(std::string_view text) {
    if (text.find('\0') != std::string_view::npos)
      return Status(Code::invalid_value, "there is a zero in it, expected lines of text");
    bool first = true;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      const std::string_view whole = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++number_;
      const std::string_view line = stripped(whole);
      if (first) {
        if (line != kModelFirstLine) return wrong(line, in_quotes(kModelFirstLine));
        first = false;
      } else if (!line.empty()) {
        EMBER_TRY(one(line));
      }
    }
    if (first)
      return Status(Code::invalid_value, "it is empty, expected " + in_quotes(kModelFirstLine));
    if (made_.name.empty()) return missing("name");
    for (std::size_t i = 0; i < std::size(kFields); ++i)
      if (!has_[i] && !like_) return missing(kFields[i].name);
    return {};
  }
  DeviceModel& made() noexcept { return made_; }

  /// One value of the model.
  static Status read_value(std::string_view key, std::string_view value, DeviceModel& model,
                           std::size_t& field, std::string& expected) {
    const auto* const found = std::find_if(std::begin(kFields), std::end(kFields),
                                           [&](const Field& each) { return each.name == key; });
    std::int64_t number = 0;
    if (found == std::end(kFields)) {
      expected = "a value that a model has";
    } else if (!read_whole(value, number) || number < found->least || number > found->most) {
      expected = "a whole number from " + std::to_string(found->least) + " to " +
                 std::to_string(found->most) + " behind " + in_quotes(key);
    } else {
      model.*found->member = number;
      field = static_cast<std::size_t>(found - std::begin(kFields));
      return {};
    }
    return Code::invalid_value;
  }

 private:
  Status wrong(std::string_view line, const std::string& expected) const {
    return Status(Code::invalid_value, "line " + std::to_string(number_) + " is " +
                                           in_quotes(line) + ", expected " + expected);
  }
  Status missing(std::string_view name) const {
    return Status(Code::invalid_value, "it ends after line " + std::to_string(number_) +
                                           " without " + in_quotes(name) +
                                           ", expected a value of it");
  }

  Status one(std::string_view line) {
    const std::size_t blank = line.find_first_of(" \t");
    const std::string_view key = line.substr(0, blank);
    const std::string_view value =
        blank == std::string_view::npos ? std::string_view() : stripped(line.substr(blank));
    if (key == "name") {
      if (value.empty() || value.find_first_of(" \t") != std::string_view::npos)
        return wrong(line, "a name of one word");
      if (!made_.name.empty()) return wrong(line, "one name");
      made_.name = value;
      return {};
    }
    if (key == "like") {
      const std::string_view base = built_in_model(value);
      if (base.empty()) return wrong(line, "'like h200' or 'like h100'");
      if (like_ || std::find(has_.begin(), has_.end(), true) != has_.end())
        return wrong(line, "'like' once, before all values");
      DeviceModel model;
      EMBER_TRY(parse_device_model(base, model));
      model.name = std::move(made_.name);
      made_ = std::move(model);
      like_ = true;
      return {};
    }
    std::size_t field = 0;
    std::string expected;
    if (!read_value(key, value, made_, field, expected).ok()) return wrong(line, expected);
    if (has_[field]) return wrong(line, in_quotes(key) + " once");
    has_[field] = true;
    return {};
  }

  DeviceModel made_;
  std::array<bool, std::size(kFields)> has_{};
  bool like_ = false;
  std::size_t number_ = 0;
};

}  // namespace

std::int64_t DeviceModel::at_rate(std::uint64_t amount, std::int64_t rate) noexcept {
  const auto by = static_cast<std::uint64_t>(rate);
  const std::uint64_t whole = amount / by;  // microseconds
  if (whole >= kMost / 1000) return kMost;
  return static_cast<std::int64_t>(whole * 1000 + (amount % by * 1000 + by - 1) / by);
}

Status parse_device_model(std::string_view text, DeviceModel& out) {
  Reader reader;
  EMBER_TRY(reader.all(text));
  out = std::move(reader.made());
  return {};
}

Status change_device_model(std::string_view values, DeviceModel& model) {
  DeviceModel changed = model;
  while (!values.empty()) {
    const std::size_t end = values.find(',');
    const std::string_view item = values.substr(0, end);
    values.remove_prefix(end == std::string_view::npos ? values.size() : end + 1);
    const std::size_t equals = item.find('=');
    std::size_t field = 0;
    std::string expected = "a value such as memory_rate=4256000";
    if (equals == std::string_view::npos ||
        !Reader::read_value(item.substr(0, equals), item.substr(equals + 1), changed, field,
                            expected)
             .ok())
      return Status(Code::invalid_value,
                    "what differs is " + in_quotes(item) + ", expected " + expected);
  }
  model = std::move(changed);
  return {};
}

std::string device_model_text(const DeviceModel& model) {
  std::string text(kModelFirstLine);
  text += "\nname " + model.name + '\n';
  for (const Field& field : kFields)
    text += std::string(field.name) + ' ' + std::to_string(model.*field.member) + '\n';
  return text;
}

std::string_view built_in_model(std::string_view name) noexcept {
  if (name == "h200") return kH200;
  if (name == "h100") return kH100;
  return {};
}

Status open_model(const Schedule& schedule, std::optional<DeviceModel>& out) {
  if (schedule.kind != Schedule::Kind::model) {
    out.reset();
    return {};
  }
  const std::size_t comma = schedule.file.find(',');
  const std::string name = schedule.file.empty() ? "h200" : schedule.file.substr(0, comma);
  std::string text(built_in_model(name));
  Status status = text.empty() ? read_text(name, text) : Status();
  DeviceModel model;
  if (status.ok()) status = parse_device_model(text, model);
  if (status.ok() && comma != std::string::npos)
    status = change_device_model(std::string_view(schedule.file).substr(comma + 1), model);
  if (!status.ok())
    return Status(Code::invalid_value,
                  "EMBER_SIM_SCHEDULE='" + schedule_text(schedule) +
                      "': is no device model (h200, h100 or a file): " + status.detail());
  out = std::move(model);
  return {};
}

}  // namespace ember::inline v0::driver::sim
