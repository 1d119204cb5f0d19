// Kernels from a text: what the first call costs, in a process that has to compile and in one that
// finds on disk what another has compiled, and what later calls cost beside an operation.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/first_call.h"
#include "bench/program.h"
#include "ember/ember.h"

namespace ember::bench {
namespace {

std::string text_of(int number) {
  return "template <typename T> T f(T x, T y, T alpha) { return -x + alpha * y; }  // " +
         std::to_string(number);
}

/// In a process of its own: the time of the first call of a text, in milliseconds.
int once(const char* number, const char* device) {
  const Tensor x = ones({1024}, device);
  const Tensor y = x + x;  // what the device's first use costs is not the question
  if (x.is_cuda()) cuda::synchronize(0);
  const auto f = cuda::jiterator::create_jit_fn(text_of(std::atoi(number)), {{"alpha", 2.0}});
  const auto start = std::chrono::steady_clock::now();
  const Tensor z = f({x, y})[0];
  if (x.is_cuda()) cuda::synchronize(0);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  if (z.sum().item().to<double>() != 3 * 1024) return 1;
  std::printf("%.6f\n", time.count());
  return 0;
}

void first_calls(Program& program, const std::string& device, const std::string& where) {
  const int times = program.quick() ? 1 : 7;
  std::vector<double> compiled, found;
  static int number = 0;  // simulated devices and the CPU share what is compiled
  for (int i = 0; i < times; ++i) {
    compiled.push_back(in_a_process(std::to_string(++number) + " " + device));
    found.push_back(in_a_process(std::to_string(number) + " " + device));
  }
  const auto add = [&](const std::string& name, std::vector<double>& all, const char* goal) {
    std::sort(all.begin(), all.end());
    program.table().add({.group = "Kernels from a text, the first call of a process",
                         .name = name + where,
                         .unit = "ms",
                         .ours = all[all.size() / 2],
                         .goal = goal});
  };
  const bool real = device != "cpu" && !program.simulated();
  add("compiled", compiled, real ? "<= 60" : "<= 1500");
  add("found on disk", found, real ? "<= 0.5" : "<= 2");
}

void later_calls(Program& program, const std::string& device, const std::string& where) {
  const Tensor x = ones({1024}, device);
  const Tensor y = ones({1024}, device);
  const auto f = cuda::jiterator::create_jit_fn(text_of(0), {{"alpha", 2.0}});
  const auto times = burst_medians(
      program.bursts(kDeviceCalls),
      [&] {
        if (x.is_cuda()) cuda::synchronize(0);
      },
      [&] {
        const Tensor z = f({x, y})[0];
      },
      [&] { const Tensor z = sub(y, x, 2.0); });
  const auto add = [&](const std::string& name, double ours) {
    program.table().add({.group = "Kernels from a text, later calls with 1024 elements, host",
                         .name = name + where,
                         .unit = "us",
                         .ours = ours,
                         .goal = ""});
  };
  add("-x + alpha * y as a text", times[0]);
  add("y - alpha * x as an operation", times[1]);
}

int run(int count, char** arguments) {
  if (count == 4 && std::string(arguments[1]) == kOnce) return once(arguments[2], arguments[3]);
  Program program(count, arguments);
  const KernelCache cache;
  if (program.simulated()) setenv("EMBER_DEVICES", "sim:1", 0);  // for the processes it starts
  for (const std::string device : {"cuda:0", "cpu"}) {
    const std::string where = device == "cpu"       ? ", CPU"
                              : program.simulated() ? ", simulated device"
                                                    : ", device";
    program.measure("first calls", [&] { first_calls(program, device, where); });
    program.measure("later calls", [&] { later_calls(program, device, where); });
  }
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
