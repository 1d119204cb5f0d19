// Fused functions beside their operations one by one, and beside a copy: how many bytes per second
// of those that have to be read and written at least. And what the first call costs, with a
// compiler and without.
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/first_call.h"
#include "bench/program.h"
#include "bench/raw.h"
#include "ember/ember.h"

namespace ember::bench {
namespace {

constexpr double kRootOfHalf = 0.70710678118654752;

Tensor gelu(const Tensor& x) { return 0.5 * x * (1.0 + (x * kRootOfHalf).erf()); }

Tensor adam(const Tensor& weights, const Tensor& gradient, const Tensor& mean,
            const Tensor& square) {
  constexpr int kStep = 10;
  mean.mul_(0.9).add_(gradient, 0.1);
  square.mul_(0.999).add_(gradient * gradient, 0.001);
  const Tensor size = (square / (1 - std::pow(0.999, kStep))).sqrt() + 1e-8;
  weights.sub_(mean / (1 - std::pow(0.9, kStep)) / size * 1e-3);
  return weights;
}

Tensor black_scholes(const Tensor& spot, const Tensor& strike, const Tensor& years) {
  constexpr double kRate = 0.02;
  constexpr double kVolatility = 0.3;
  const auto cdf = [](const Tensor& x) { return 0.5 * (1.0 + (x * kRootOfHalf).erf()); };
  const Tensor spread = kVolatility * years.sqrt();
  const Tensor up =
      ((spot / strike).log() + (kRate + kVolatility * kVolatility / 2) * years) / spread;
  return spot * cdf(up) - strike * (-kRate * years).exp() * cdf(up - spread);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor apart = x - x.mean(-1, true);
  const Tensor variance = (apart * apart).mean(-1, true);
  return apart / (variance + 1e-5).sqrt() * weight + bias;
}

Tensor masked_softmax(const Tensor& scores, const Tensor& mask) {
  constexpr double kTemperature = 0.7;
  const Tensor scaled = (scores / kTemperature).masked_fill(mask, -HUGE_VAL);
  const Tensor powers = (scaled - scaled.amax(-1, true)).exp();
  return powers / powers.sum(-1, true);
}

/// One function: how many rows of floats it has to read and write, and how it is called.
struct Example {
  const char* name;
  int rows;
  std::function<Tensor(const std::vector<Tensor>&)> call;
};
const Example kExamples[] = {
    {"gelu", 2, [](const std::vector<Tensor>& x) { return gelu(x[0]); }},
    {"a step of Adam", 7,
     [](const std::vector<Tensor>& x) { return adam(x[0], x[1], x[2], x[3]); }},
    {"Black-Scholes", 4,
     [](const std::vector<Tensor>& x) { return black_scholes(x[0], x[1], x[2]); }},
};

/// Functions with reductions, of rows so long.
struct RowExample {
  const char* name;
  double bytes;  ///< that have to be read and written, for each element
  std::function<Tensor(const std::vector<Tensor>&)> call;
};
const RowExample kRowExamples[] = {
    {"layer normalisation", 8,
     [](const std::vector<Tensor>& x) { return layer_norm(x[0], x[1], x[1]); }},
    {"softmax with temperature and mask", 9,
     [](const std::vector<Tensor>& x) { return masked_softmax(x[0], x[2]); }},
    {"mean squared difference", 8,
     [](const std::vector<Tensor>& x) { return (x[0] - x[3]).square().mean(); }},
};
constexpr std::int64_t kLengths[] = {1024, 16384};

/// Rows, a row, a mask, and other rows.
std::vector<Tensor> row_inputs(std::int64_t count, std::int64_t length, const std::string& device) {
  const Tensor row = (arange(length, {Dtype::float32, device}) * 0.37).sin();
  const Tensor x = row.expand({count / length, length}) + 0.0;
  return {x, row + 1.0, x > 0.9, x * 0.9};
}

std::vector<Tensor> inputs(std::int64_t count, const std::string& device) {
  std::vector<Tensor> made;
  for (int i = 0; i < 4; ++i) made.push_back(full({count}, 0.5 + i, {Dtype::float32, device}));
  return made;
}

void drain(const Tensor& x) {
  if (x.is_cuda()) cuda::synchronize(x.get_device());
}

/// In a process of its own: the time of the first call, in milliseconds. Of rows so long, or, if
/// that is zero, of elements.
int once(int which, std::int64_t length, const char* device) {
  constexpr std::int64_t kRows = 1024;
  const std::vector<Tensor> x =
      length == 0 ? inputs(kRows, device) : row_inputs(kRows * length, length, device);
  drain(x[0] + x[1]);  // what the device's first use costs is not the question, nor is memory
  const auto fused = fuse(length == 0 ? kExamples[which].call : kRowExamples[which].call);
  const auto start = Clock::now();
  const Tensor made = fused(x);
  drain(made);
  std::printf("%.6f\n", microseconds(Clock::now() - start) / 1000);
  return 0;
}

void first_call(Program& program, const KernelCache& cache, const std::string& name,
                const std::string& arguments, bool real) {
  std::vector<double> compiled, found;
  for (int i = 0; i < (program.quick() ? 1 : 5); ++i) {
    cache.clear();
    compiled.push_back(in_a_process(arguments));
    found.push_back(in_a_process(arguments));
  }
  const auto add = [&](const char* how, double ours, const char* goal) {
    program.table().add({.group = "Fused functions, the first call of a process",
                         .name = name + how,
                         .unit = "ms",
                         .ours = ours,
                         .goal = real ? goal : ""});
  };
  add(", compiled", median(compiled), "<= 150");
  add(", found on disk", median(found), "<= 1");
}

void first_calls(Program& program, const KernelCache& cache, const std::string& device,
                 const std::string& where) {
  const bool real = device != "cpu" && !program.simulated();
  for (std::size_t which = 0; which < std::size(kExamples); ++which)
    first_call(program, cache, kExamples[which].name + where,
               std::to_string(which) + " 0 " + device, real);
  for (const std::int64_t length : kLengths)
    for (std::size_t which = 0; which < std::size(kRowExamples); ++which) {
      const std::string rows = std::to_string(length);
      first_call(program, cache, kRowExamples[which].name + (", rows of " + rows) + where,
                 std::to_string(which) + " " + rows + " " + device, real);
    }
}

/// Black-Scholes written by hand, each operation rounded as ember rounds it, where that can be
/// asked of CUDA directly.
double by_hand(Program& program, const std::vector<Tensor>& x) {
  const std::unique_ptr<Raw> raw = make_raw(0);
  if (raw == nullptr) return kNothing;
  const Tensor price = empty_like(x[0]);
  const auto row = [](const Tensor& tensor) { return static_cast<float*>(tensor.data_ptr()); };
  const auto call = [&] {
    raw->black_scholes(row(price), row(x[0]), row(x[1]), row(x[2]),
                       static_cast<std::size_t>(price.numel()));
  };
  call();
  drain(price);
  const Tensor beside = (price - black_scholes(x[0], x[1], x[2])).abs();
  if (!(amax(beside, {}).item().to<double>() < 1e-4))
    throw std::runtime_error("the kernel that was written by hand gives something else");
  return completion_medians(
      program.bursts(kSlowCalls), [&] { drain(price); }, call)[0];
}

void rates(Program& program, std::int64_t count, const std::string& device,
           const std::string& where) {
  const std::vector<Tensor> x = inputs(count, device);
  const auto gigabytes = [&](int rows, double time) {
    return static_cast<double>(rows) * static_cast<double>(count) * sizeof(float) / time / 1e3;
  };
  const bool real = x[0].is_cuda() && !program.simulated();
  const auto add = [&](const std::string& name, double ours, double raw = kNothing,
                       const char* goal = "") {
    program.table().add(
        {.group = "Fused functions, " + std::to_string(count) + " elements of float32",
         .name = name + where,
         .unit = "GB/s",
         .ours = ours,
         .raw = raw,
         .goal = real ? goal : ""});
  };
  const auto wait = [&] { drain(x[0]); };
  for (const Example& each : kExamples) {
    const auto fused = fuse(each.call);
    const auto times = completion_medians(
        program.bursts(kSlowCalls), wait, [&] { (void)fused(x); }, [&] { (void)each.call(x); },
        [&] { (void)x[3].copy_(x[1]); });
    // What is raw is a copy, measured between the others; and a kernel written by hand where that
    // is slower, since then arithmetic is the limit and not memory.
    const double rate = gigabytes(each.rows, times[0]);
    const double copy = gigabytes(2, times[2]);
    const double hand =
        &each == &kExamples[2] && real ? gigabytes(each.rows, by_hand(program, x)) : kNothing;
    const bool by_memory = std::isnan(hand) || hand > 0.97 * copy;
    add(std::string(each.name) + ", fused", rate, copy, by_memory ? ">= 0.93 x raw" : "");
    add(std::string(each.name) + ", one by one", gigabytes(each.rows, times[1]));
    if (!std::isnan(hand))
      add(std::string(each.name) + ", fused, beside by hand", rate, hand,
          by_memory ? "" : ">= 0.97 x raw");
  }
}

/// Functions with reductions of rows of `length`, and of everything.
void row_rates(Program& program, std::int64_t count, std::int64_t length, const std::string& device,
               const std::string& where) {
  const std::vector<Tensor> all = row_inputs(count, length, device);
  const Tensor& x = all[0];
  const bool real = x.is_cuda() && !program.simulated();
  const auto elements = static_cast<double>(x.numel());
  const Tensor copied = empty_like(x);
  for (const RowExample& each : kRowExamples) {
    const auto fused = fuse(each.call);
    const auto times = completion_medians(
        program.bursts(kSlowCalls), [&] { drain(x); }, [&] { (void)fused(all); },
        [&] { (void)each.call(all); }, [&] { (void)Tensor(copied).copy_(x); });
    const auto add = [&](const char* how, double ours, double raw, const char* goal) {
      program.table().add({.group = "Fused functions with reductions, rows of " +
                                    std::to_string(length) + " float32",
                           .name = std::string(each.name) + how + where,
                           .unit = "GB/s",
                           .ours = ours,
                           .raw = raw,
                           .goal = real ? goal : ""});
    };
    add(", fused", each.bytes * elements / times[0] / 1e3, 8 * elements / times[2] / 1e3,
        ">= 0.93 x raw");
    add(", one by one", each.bytes * elements / times[1] / 1e3, kNothing, "");
  }
}

int run(int count, char** arguments) {
  if (count == 5 && std::string(arguments[1]) == kOnce)
    return once(std::atoi(arguments[2]), std::atoi(arguments[3]), arguments[4]);
  Program program(count, arguments);
  const KernelCache cache;
  if (program.simulated()) setenv("EMBER_DEVICES", "sim:1", 0);  // for the processes it starts
  for (const std::string device : {"cuda:0", "cpu"}) {
    const bool real = device != "cpu" && !program.simulated();
    const std::string where = device == "cpu" ? ", CPU" : real ? ", device" : ", simulated device";
    const std::int64_t elements = program.quick() ? 100'000 : real ? 100'000'000 : 10'000'000;
    program.measure("first calls", [&] { first_calls(program, cache, device, where); });
    program.measure("rates", [&] { rates(program, elements, device, where); });
    for (const std::int64_t length : kLengths)
      program.measure("rates of rows",
                      [&] { row_rates(program, elements, length, device, where); });
  }
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
