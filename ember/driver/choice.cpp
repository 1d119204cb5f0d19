#include "ember/driver/choice.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "ember/base/bytes.h"

namespace ember::inline v0::driver {
namespace {

Status malformed(const std::string& text, const std::string& why) {
  return Status(Code::invalid_value, "EMBER_DEVICES='" + text + "': " + why +
                                         "; expected 'cuda', 'sim:N', 'sim:N@SIZE' (such as "
                                         "sim:4@2GiB) or 'none'");
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The number an element starts with; -1 when it starts with none or does not fit.
long leading_number(const std::string& element) {
  const char* start = element.c_str();
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(start, &end, 10);
  return end == start || errno != 0 ? -1 : value;
}

/// The only device whose UUID starts with `prefix`; -1 when none or several do.
int unique_match(const std::string& prefix, const std::vector<std::string>& uuids) {
  int found = -1;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (uuids[i].compare(0, prefix.size(), prefix) != 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

template <class T>
bool has_repetition(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) != list.end();
}

std::vector<std::int64_t> numbers_of(const std::vector<std::string>& elements) {
  std::vector<std::int64_t> numbers;
  for (const std::string& element : elements) {
    const long number = leading_number(element);
    if (number < 0) break;
    numbers.push_back(number);
  }
  return has_repetition(numbers) ? std::vector<std::int64_t>() : numbers;
}

std::vector<std::string> prefixes_of(const std::vector<std::string>& elements,
                                     const std::string& kind) {
  std::vector<std::string> prefixes;
  for (const std::string& element : elements) {
    if (!element.starts_with(kind)) break;
    prefixes.push_back(element);
  }
  return has_repetition(prefixes) ? std::vector<std::string>() : prefixes;
}

}  // namespace

Status name_machine(const std::optional<std::string>& text, Choice& choice) {
  if (!text || text->empty() || !choice.simulated.machine.empty()) return {};
  constexpr std::size_t kLongest = 64;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool valid = text->size() <= kLongest && is_plain(text->front()) &&
                     std::all_of(text->begin(), text->end(), [&](char c) {
                       return is_plain(c) || c == '-' || c == '_' || c == '.';
                     });
  if (!valid)
    return Status(Code::invalid_value,
                  "EMBER_SIM_MACHINE='" + *text +
                      "': expected a name of at most 64 letters, digits, '-', '_' and '.', which "
                      "begins with a letter or digit");
  switch (choice.kind) {
    case Choice::Kind::cuda:
    case Choice::Kind::none:
      return Status(Code::invalid_value,
                    "EMBER_SIM_MACHINE='" + *text +
                        "' names a simulated machine, but EMBER_DEVICES='" +
                        (choice.kind == Choice::Kind::cuda ? "cuda" : "none") +
                        "'; expected 'sim:N' or 'sim:N@SIZE', or one of the two unset");
    case Choice::Kind::automatic:
      choice.kind = Choice::Kind::simulated;
      choice.simulated.count = 0;
      break;
    case Choice::Kind::simulated: break;
  }
  choice.simulated.machine = *text;
  return {};
}

Status check_simulated(const SimulatedSpec& spec) {
  if (spec.count < 1 || spec.count > SimulatedSpec::kMaxDevices)
    return Status(Code::invalid_value, "number of simulated devices is " +
                                           std::to_string(spec.count) + ", expected 1 to " +
                                           std::to_string(SimulatedSpec::kMaxDevices));
  if (spec.memory_bytes < SimulatedSpec::kMinMemory ||
      spec.memory_bytes > SimulatedSpec::kMaxMemory)
    return Status(Code::invalid_value, "memory per simulated device is " +
                                           std::to_string(spec.memory_bytes) +
                                           " bytes, expected 2 MiB to 1 TiB");
  if (spec.memory_bytes > SimulatedSpec::kMaxTotalMemory / static_cast<unsigned>(spec.count))
    return Status(Code::invalid_value, std::to_string(spec.count) + " simulated devices of " +
                                           format_bytes(spec.memory_bytes) +
                                           ", expected 16 TiB in all at most");
  return {};
}

Status parse_choice(const std::optional<std::string>& text, Choice& out) {
  if (!text || text->empty()) {
    out = Choice{};
    return {};
  }
  Choice choice;
  if (*text == "cuda") {
    choice.kind = Choice::Kind::cuda;
  } else if (*text == "none") {
    choice.kind = Choice::Kind::none;
  } else if (text->rfind("sim:", 0) == 0) {
    choice.kind = Choice::Kind::simulated;
    const std::size_t at = text->find('@');
    const std::string count = text->substr(4, at == std::string::npos ? at : at - 4);
    const char* end = count.data() + count.size();
    const auto [rest, error] = std::from_chars(count.data(), end, choice.simulated.count);
    if (error != std::errc() || rest != end || count.empty())
      return malformed(*text, "'" + count + "' is not a number of devices");
    if (at != std::string::npos) {
      const std::string size = text->substr(at + 1);
      const std::optional<std::uint64_t> bytes = parse_bytes(size);
      if (!bytes) return malformed(*text, "'" + size + "' is not a size");
      choice.simulated.memory_bytes = *bytes;
    }
    if (const Status status = check_simulated(choice.simulated); !status.ok())
      return malformed(*text, status.detail());
  } else {
    return malformed(*text, "unknown kind of device");
  }
  out = choice;
  return {};
}

VisibleList parse_visible(const std::optional<std::string>& text) {
  VisibleList list;
  if (!text) {
    list.numbers.resize(SimulatedSpec::kMaxDevices);
    std::iota(list.numbers.begin(), list.numbers.end(), 0);
    return list;
  }
  std::vector<std::string> elements;
  for (const std::string& part : split(*text)) elements.push_back(trimmed(part));
  const std::string kind = elements.front().substr(0, 4);
  if (kind == "GPU-" || kind == "MIG-")
    list.prefixes = prefixes_of(elements, kind);
  else
    list.numbers = numbers_of(elements);
  return list;
}

std::vector<int> match_uuids(const std::vector<std::string>& prefixes,
                             const std::vector<std::string>& uuids) {
  std::vector<int> devices;
  for (const std::string& prefix : prefixes) {
    const int device = unique_match(prefix, uuids);
    if (device < 0) break;
    devices.push_back(device);
  }
  return has_repetition(devices) ? std::vector<int>() : devices;
}

std::vector<int> visible_devices(const std::optional<std::string>& text,
                                 const std::vector<std::string>& uuids) {
  if (!text) {
    std::vector<int> all(uuids.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const VisibleList list = parse_visible(text);
  if (!list.prefixes.empty()) return match_uuids(list.prefixes, uuids);
  // Also a number that does not exist must not stand there twice, so the list was checked as it is.
  std::vector<int> devices;
  for (const std::int64_t number : list.numbers) {
    if (static_cast<std::size_t>(number) >= uuids.size()) break;
    devices.push_back(static_cast<int>(number));
  }
  return devices;
}

}  // namespace ember::inline v0::driver
