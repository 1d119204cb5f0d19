// The kernels of the programs, and what they have seen; the list of all programs.
#include "tests/races/kernels.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "tests/races/races.h"

namespace ember::races {

using driver::Kernel;
using driver::Params;

#if EMBER_TEST_CUDA
#define EMBER_IMPLEMENTATION(name) &name
#else
#define EMBER_IMPLEMENTATION(name) nullptr
#endif

namespace {

double mean(const Number* numbers, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += numbers[i];
  return sum / static_cast<double>(count);
}

Status produce_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<ProduceArgs>();
  Number* const numbers = on.at(args.to, args.count);
  if (numbers == nullptr) return on.fault();
  std::fill_n(numbers, args.count, args.value);
  return {};
}

Status consume_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<ConsumeArgs>();
  return on.at(args.from, args.count) == nullptr ? on.fault() : Status();
}

Status transform_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<TransformArgs>();
  Number* const results = on.at(args.to, args.count);
  const Number* const numbers = on.at(args.from, args.count);
  if (results == nullptr || numbers == nullptr) return on.fault();
  for (std::size_t i = 0; i < args.count; ++i) results[i] = numbers[i] + 1;
  return {};
}

Status note_host(const Params& params, const HostLaunch& on) {
  const auto& args = params.as<NoteArgs>();
  const Number* const numbers = on.at(args.from, args.count);
  double* const seen = on.at(args.seen, 1);
  if (numbers == nullptr || seen == nullptr) return on.fault();
  *seen = *seen * 10 + mean(numbers, args.count);
  return {};
}

const Kernel produce_kernel{"produce", &produce_host, EMBER_IMPLEMENTATION(produce_cuda)};
const Kernel consume_kernel{"consume", &consume_host, EMBER_IMPLEMENTATION(consume_cuda)};
const Kernel transform_kernel{"transform", &transform_host, EMBER_IMPLEMENTATION(transform_cuda)};
const Kernel note_kernel{"consume", &note_host, EMBER_IMPLEMENTATION(note_cuda)};

}  // namespace

void produce(const Stream& on, void* data, std::size_t bytes, Number value) {
  const ProduceArgs args{static_cast<Number*>(data), bytes / sizeof(Number), value};
  const std::array accesses{writes(args.to, args.count)};
  launch(on, produce_kernel, Params(args), accesses);
}

void consume(const Stream& on, const void* data, std::size_t bytes) {
  const ConsumeArgs args{static_cast<const Number*>(data), bytes / sizeof(Number)};
  const std::array accesses{reads(args.from, args.count)};
  launch(on, consume_kernel, Params(args), accesses);
}

void transform(const Stream& on, void* to, const void* from, std::size_t bytes) {
  const TransformArgs args{static_cast<Number*>(to), static_cast<const Number*>(from),
                           bytes / sizeof(Number)};
  const std::array accesses{writes(args.to, args.count), reads(args.from, args.count)};
  launch(on, transform_kernel, Params(args), accesses);
}

Seen::Seen(const Stream& on) : word_(allocate(sizeof(double), on)) {
  fill_async(word_.data(), 0, sizeof(double), on);
}

void Seen::note(const Stream& on, const void* data, std::size_t bytes) const {
  const NoteArgs args{static_cast<double*>(word_.data()), static_cast<const Number*>(data),
                      bytes / sizeof(Number)};
  const std::array accesses{reads(args.from, args.count), reads(args.seen, 1),
                            writes(args.seen, 1)};
  launch(on, note_kernel, Params(args), accesses);
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
