// The kernels of the programs, and what they have seen; the list of all programs.
#include <algorithm>
#include <cctype>

#include "tests/races/races.h"

namespace ember::races {
namespace {

using Number = std::uint32_t;

double mean(const Number* numbers, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += numbers[i];
  return sum / static_cast<double>(count);
}

}  // namespace

void produce(const Stream& on, void* data, std::size_t bytes, std::uint32_t value) {
  auto* const to = static_cast<Number*>(data);
  const std::size_t count = bytes / sizeof(Number);
  launch(on, "produce", {writes(to, count)}, [=](const HostLaunch& at) {
    Number* const numbers = at.at(to, count);
    if (numbers == nullptr) return at.fault();
    std::fill_n(numbers, count, value);
    return Status();
  });
}

void consume(const Stream& on, const void* data, std::size_t bytes) {
  const auto* const from = static_cast<const Number*>(data);
  const std::size_t count = bytes / sizeof(Number);
  launch(on, "consume", {reads(from, count)}, [=](const HostLaunch& at) {
    return at.at(from, count) == nullptr ? at.fault() : Status();
  });
}

void transform(const Stream& on, void* to, const void* from, std::size_t bytes) {
  auto* const target = static_cast<Number*>(to);
  const auto* const source = static_cast<const Number*>(from);
  const std::size_t count = bytes / sizeof(Number);
  launch(on, "transform", {writes(target, count), reads(source, count)}, [=](const HostLaunch& at) {
    Number* const results = at.at(target, count);
    const Number* const numbers = at.at(source, count);
    if (results == nullptr || numbers == nullptr) return at.fault();
    for (std::size_t i = 0; i < count; ++i) results[i] = numbers[i] + 1;
    return Status();
  });
}

Seen::Seen(const Stream& on) : word_(allocate(sizeof(double), on)) {
  fill_async(word_.data(), 0, sizeof(double), on);
}

void Seen::note(const Stream& on, const void* data, std::size_t bytes) const {
  auto* const word = static_cast<double*>(word_.data());
  const auto* const from = static_cast<const Number*>(data);
  const std::size_t count = bytes / sizeof(Number);
  launch(on, "consume", {reads(from, count), reads(word, 1), writes(word, 1)},
         [=](const HostLaunch& at) {
           const Number* const numbers = at.at(from, count);
           double* const seen = at.at(word, 1);
           if (numbers == nullptr || seen == nullptr) return at.fault();
           *seen = *seen * 10 + mean(numbers, count);
           return Status();
         });
}

double Seen::on_host(const Stream& from) const {
  double seen = 0;
  copy(&seen, word_.data(), sizeof seen, from);
  return seen;
}

double mean_of(const void* host, std::size_t bytes) {
  return mean(static_cast<const Number*>(host), bytes / sizeof(Number));
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const std::span<const Case> some : {stream_cases(), memory_cases(), host_cases(),
                                           device_cases(), training_cases(), library_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name;
  bool upper = true;
  for (const char c : std::string(info.param.name)) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      upper = true;
      continue;
    }
    name += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return name;
}

}  // namespace ember::races
