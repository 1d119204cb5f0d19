// What runs cost in which a seed decides the order: on simulated devices, whatever else is there.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/program.h"
#include "ember/memory/memory.h"
#include "ember/runtime/device.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/stream.h"
#include "ember/runtime/work.h"

namespace ember::bench {
namespace {

constexpr int kStreams = 4;
constexpr int kKernels = 32;
constexpr std::size_t kElements = 256;

struct Work {
  std::vector<cuda::Stream> streams;
  cuda::DeviceBuffer buffer;

  /// One run: 8 kernels of 256 elements on each of 4 streams, and the wait for all.
  void run() const {
    auto* data = static_cast<std::uint32_t*>(buffer.data());
    for (int i = 0; i < kKernels; ++i) {
      cuda::launch(
          streams[static_cast<std::size_t>(i) % kStreams], "affine",
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

int run(int count, char** arguments) {
  setenv("EMBER_DEVICES", "sim:1", 1);
  setenv("EMBER_SIM_SCHEDULE", "random:0", 1);
  Program program(count, arguments);
  program.measure("runs", [&] {
    Work work;
    for (int i = 0; i < kStreams; ++i) work.streams.emplace_back(0);
    work.buffer = cuda::allocate(kElements * sizeof(std::uint32_t), work.streams[0]);
    cuda::fill_async(work.buffer.data(), 1, kElements * sizeof(std::uint32_t), work.streams[0]);
    std::uint64_t seed = 0;
    std::size_t bytes = 0;
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
        [&] { sim::begin_run(++seed); });
    const std::string group = "Runs that a seed decides: 32 kernels of 256 elements, 4 streams";
    const auto add = [&](const char* name, double ours, const char* goal) {
      program.table().add({.group = group, .name = name, .unit = "us", .ours = ours, .goal = goal});
    };
    add("a run, random", times[0], "<= 50");
    add("a run, random, and its log as text", times[1], "");
    add("a run, pct of depth 3", times[2], "<= 50");
    add("begin a run", times[3], "");
  });
  return program.finish();
}

}  // namespace
}  // namespace ember::bench

int main(int count, char** arguments) { return ember::bench::run(count, arguments); }
