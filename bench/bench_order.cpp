// What runs cost in which a seed decides the order: on simulated devices, whatever else is there.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/program.h"
#include "ember/explore/explore.h"
#include "ember/memory/memory.h"
#include "ember/runtime/device.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/stream.h"
#include "ember/runtime/work.h"
#include "ember/sanitizer/sanitizer.h"
#include "tests/explore/programs.h"

namespace ember::bench {
namespace {

constexpr int kStreams = 4;
constexpr int kKernels = 32;
constexpr std::size_t kElements = 256;

struct Work {
  std::vector<cuda::Stream> streams;
  cuda::DeviceBuffer buffer;

  /// One run: 8 kernels of 256 elements on each of 4 streams, and the wait for all. Each stream has
  /// elements of its own.
  void run() const {
    auto* all = static_cast<std::uint32_t*>(buffer.data());
    for (int i = 0; i < kKernels; ++i) {
      const std::size_t stream = static_cast<std::size_t>(i) % kStreams;
      std::uint32_t* const data = all + stream * kElements;
      cuda::launch(
          streams[stream], "affine", {cuda::reads(data, kElements), cuda::writes(data, kElements)},
          [data, i](const driver::HostLaunch& on) {
            std::uint32_t* p = on.at(data, kElements);
            if (p == nullptr) return on.fault();
            for (std::size_t k = 0; k < kElements; ++k)
              p[k] = p[k] * 3 + static_cast<std::uint32_t>(i);
            return Status();
          },
          [](const driver::CudaLaunch&) {});
    }
    cuda::synchronize(0);
  }
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Families of programs whose classes are known: as many as executions, none twice.
void explore(Program& program) {
  const std::string group = "Exploration: an execution for each class, none twice";
  const auto add = [&](const std::string& name, const char* unit, double ours, double known) {
    Row row{.group = group, .name = name, .unit = unit, .ours = ours, .goal = ""};
    if (known != 0) row.goal = ">= " + std::to_string(static_cast<std::int64_t>(known));
    program.table().add(row);
  };
  const auto family = [&](const std::string& name, double known, const auto& run) {
    sim::Exploration made;
    const double seconds = seconds_of([&] { made = sim::explore(run); });
    // The run that shows that the program repeats itself is none of a class.
    if (made.verdict != sim::Verdict::same || static_cast<double>(made.classes) != known ||
        made.runs != made.classes + 1)
      throw std::runtime_error(name + ": " + made.str());
    add(name + ", classes", "", static_cast<double>(made.classes), known);
    add(name + ", a run", "us", seconds * 1e6 / static_cast<double>(made.runs), 0);
  };
  const int pairs = program.quick() ? 6 : 12;
  family(std::to_string(pairs) + " independent pairs", 1 << pairs,
         [pairs] { test::independent_pairs(pairs); });
  const int readers = program.quick() ? 12 : 200;
  family("one writer and " + std::to_string(readers) + " readers", readers + 1,
         [readers] { test::writer_and_readers(readers); });
  const double seconds = program.quick() ? 0.2 : 60;
  const sim::Exploration far =
      sim::explore([] { test::independent_pairs(30); },
                   {.max_runs = std::size_t{1} << 30, .max_seconds = seconds});
  add("classes of 30 independent pairs in one minute", "", static_cast<double>(far.classes), 0);
}

/// A schedule of a thousand decisions, of which two matter.
void shrink(Program& program) {
  constexpr int kRounds = 252;
  const std::string steps = test::all_steps_of_many_tasks(kRounds);
  std::string fewest;
  const double seconds = seconds_of(
      [&] { fewest = sim::shrink(steps, [] { return test::many_tasks(kRounds) != 42; }); });
  if (std::count(fewest.begin(), fewest.end(), ',') > 1)
    throw std::runtime_error("shrunk to " + fewest + ", expected two steps at most");
  program.table().add({.group = "Shrinking",
                       .name = "1,002 decisions to two",
                       .unit = "s",
                       .ours = seconds,
                       .goal = "<= 10"});
}

int run(int count, char** arguments) {
  setenv("EMBER_DEVICES", "sim:1", 1);
  setenv("EMBER_SIM_SCHEDULE", "random:0", 1);
  Program program(count, arguments);
  program.measure("runs", [&] {
    Work work;
    for (int i = 0; i < kStreams; ++i) work.streams.emplace_back(0);
    constexpr std::size_t kBytes = kStreams * kElements * sizeof(std::uint32_t);
    work.buffer = cuda::allocate(kBytes, work.streams[0]);
    cuda::fill_async(work.buffer.data(), 1, kBytes, work.streams[0]);
    cuda::synchronize(0);
    std::uint64_t seed = 0;
    std::size_t bytes = 0;
    std::uint64_t races = 0, unchecked = 0;
    const auto times = burst_medians(
        program.bursts(kDeviceCalls), [] {},
        [&] {
          sim::begin_run("random:" + std::to_string(++seed));
          work.run();
        },
        [&] {
          sim::begin_run("random:" + std::to_string(++seed));
          work.run();
          bytes += sim::log().size();
        },
        [&] {
          sim::begin_run("pct:" + std::to_string(++seed) + ":3");
          work.run();
        },
        [&] {
          sim::begin_run("random:" + std::to_string(++seed));
          cuda::Sanitizer sanitizer({.print = false});
          work.run();
          races += sanitizer.summary().races;
          unchecked += sanitizer.summary().unchecked;
        },
        [&] { sim::begin_run(++seed); });
    if (races != 0 || unchecked != 0)
      throw std::runtime_error("the race check is of work that is not clean");
    const std::string group = "Runs that a seed decides: 32 kernels of 256 elements, 4 streams";
    const auto add = [&](const char* name, double ours, const char* goal) {
      program.table().add({.group = group, .name = name, .unit = "us", .ours = ours, .goal = goal});
    };
    add("a run, random", times[0], "<= 50");
    add("a run, random, and its log as text", times[1], "");
    add("a run, pct of depth 3", times[2], "<= 50");
    add("a run, random, with the race check", times[3], "<= 200");
    add("begin a run", times[4], "");
  });
  program.measure("exploration", [&] { explore(program); });
  program.measure("shrinking", [&] { shrink(program); });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
