#include "ember/memory/top_record.h"

#include <algorithm>
#include <charconv>

#include "ember/driver/driver.h"

namespace ember::inline v0::cuda::top {
namespace {

constexpr std::string_view kFirst = "ember-top\t1";
constexpr std::string_view kLast = "end";
constexpr std::size_t kMostDevices = 64;
constexpr std::size_t kLongest = 256;  // of a text

std::string printable(std::string_view text) {
  std::string made(text.substr(0, kLongest));
  std::replace_if(
      made.begin(), made.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return made;
}

/// Takes the fields of a line one by one.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  bool good() const { return good_ && rest_.empty(); }
  std::string_view next() {
    const std::size_t end = std::min(rest_.find('\t'), rest_.size());
    const std::string_view field = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return field;
  }
  template <class Number>
  Fields& number(Number& out, Number least = 0) {
    const std::string_view field = next();
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), out);
    good_ &= error == std::errc() && end == field.data() + field.size() && out >= least;
    return *this;
  }
  Fields& text(std::string& out) {
    out = printable(next());
    return *this;
  }

 private:
  std::string_view rest_;
  bool good_ = true;
};

/// In the order in which records have them.
constexpr int DeviceUse::*kSensors[] = {&DeviceUse::utilization, &DeviceUse::memory_usage,
                                        &DeviceUse::temperature, &DeviceUse::power_draw,
                                        &DeviceUse::clock_rate};

bool read_device(Fields fields, DeviceUse& out) {
  int simulated = 0;
  fields.number(out.device).number(simulated);
  fields.number(out.allocated).number(out.reserved).number(out.total);
  for (const auto sensor : kSensors) fields.number(out.*sensor, DeviceUse::kUnknown);
  fields.text(out.uuid).text(out.name);
  out.simulated = simulated == 1;
  return fields.good() && simulated <= 1 && out.allocated <= out.reserved;
}

}  // namespace

void read_sensors(driver::Driver& driver, int device, DeviceUse& use) {
  using driver::Sensor;
  const auto read = [&](Sensor sensor, int& to) {
    std::int64_t value = 0;
    if (driver.device_sensor(device, sensor, value).ok()) to = static_cast<int>(value);
  };
  read(Sensor::utilization, use.utilization);
  read(Sensor::memory_usage, use.memory_usage);
  read(Sensor::temperature, use.temperature);
  read(Sensor::power_draw, use.power_draw);
  read(Sensor::clock_rate, use.clock_rate);
}

void copy_sensors(const DeviceUse& from, DeviceUse& to) {
  for (const auto sensor : kSensors) to.*sensor = from.*sensor;
}

std::string to_text(const ProcessUse& process) {
  std::string text(kFirst);
  const auto field = [&](const std::string& value) { text += '\t' + value; };
  text += "\nprocess";
  field(std::to_string(process.pid));
  field(printable(process.command));
  for (const DeviceUse& use : process.devices) {
    text += "\ndevice";
    field(std::to_string(use.device));
    field(use.simulated ? "1" : "0");
    for (const std::uint64_t bytes : {use.allocated, use.reserved, use.total})
      field(std::to_string(bytes));
    for (const auto sensor : kSensors) field(std::to_string(use.*sensor));
    field(printable(use.uuid));
    field(printable(use.name));
  }
  text += '\n';
  text += kLast;
  return text + '\n';
}

std::optional<ProcessUse> parse(std::string_view text) {
  ProcessUse process;
  for (int line = 0;; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    Fields fields(text.substr(0, end));
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == 0) {
      if (whole != kFirst) return {};
    } else if (line == 1) {
      if (fields.next() != "process" || !fields.number(process.pid).text(process.command).good())
        return {};
    } else if (whole == kLast) {
      if (!text.empty()) return {};
      return process;
    } else {
      if (fields.next() != "device" || process.devices.size() == kMostDevices) return {};
      if (!read_device(fields, process.devices.emplace_back())) return {};
    }
  }
}

}  // namespace ember::inline v0::cuda::top
