// overlap: a file's byte histogram and CRC-32 on one or two GPUs, with the copies hidden behind the
// computing.
//
// Read pipeline.h next: it has the streams, events and buffers. kernels.h has the work itself.
#include <algorithm>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ember/cuda.h"
#include "examples/support/devices.h"
#include "examples/support/progress.h"
#include "examples/support/report.h"
#include "host_check.h"
#include "input.h"
#include "options.h"
#include "pipeline.h"
#include "report.h"

namespace overlap {
namespace {

namespace cuda = ember::cuda;

constexpr std::uint32_t kChunkBytes = 4 * ember::kMiB;
// A second or two of work.
constexpr std::uint64_t kSimulatedLoad = 3 * ember::kGiB;
constexpr std::uint64_t kRealLoad = 64 * ember::kGiB;

/// How many threads read for each device. One thread reads less than a real GPU can take; the work
/// of simulated ones needs the processors itself.
int choose_readers(int devices) {
  if (cuda::is_simulated()) return 1;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / devices - 1, 1, 8);
}

/// No larger than the input.
std::uint32_t fitting_chunk(std::uint32_t chunk_bytes, const Input& input) {
  const auto fitting = std::min<std::uint64_t>(chunk_bytes, input.total_bytes());
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(fitting, 1));
}

/// Runs all pipelines to their end. The first error of any of them stops the others.
void run_all(const Pipelines& pipelines, int readers, Work& work) {
  example::ProgressBar progress(work.input().total_bytes());
  std::vector<std::future<void>> running;
  for (const auto& pipeline : pipelines)
    for (int reader = 0; reader < readers; ++reader)
      running.push_back(std::async(std::launch::async, [&work, &pipeline, reader] {
        try {
          pipeline->run(reader);
        } catch (...) {
          work.cancel();
          throw;
        }
      }));
  for (auto& run : running) {
    while (run.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready)
      progress.draw(work.bytes_done(), example::byte_rate(work.bytes_done(), progress.time()));
    run.get();
  }
}

int main(const Options& options) {
  Input input(options.file);
  const int devices = example::choose_devices(options.devices, 2);
  if (options.repeat)
    input.set_repeat(*options.repeat);
  else
    input.repeat_up_to(cuda::is_simulated() ? kSimulatedLoad : kRealLoad);
  const int readers = choose_readers(devices);
  Work work(input, fitting_chunk(options.chunk.value_or(kChunkBytes), input));

  std::printf("overlap: copies hidden behind compute\n\n");
  print_input(input, work.chunk_bytes());
  example::print_devices(devices);
  std::fflush(stdout);

  Pipelines pipelines;
  for (int device = 0; device < devices; ++device)
    pipelines.push_back(std::make_unique<Pipeline>(device, readers, work));
  const auto start = std::chrono::steady_clock::now();
  run_all(pipelines, readers, work);
  const example::Seconds time = std::chrono::steady_clock::now() - start;

  Digest digest;
  for (const auto& pipeline : pipelines) digest.merge(pipeline->digest());
  print_speed(pipelines, input.total_bytes(), time);
  example::print_memory(devices);
  return print_digest(digest, check_on_host(input), input) ? 0 : 1;
}

}  // namespace
}  // namespace overlap

int main(int count, char** arguments) {
  try {
    const overlap::Options options = overlap::parse_options(count, arguments);
    if (options.help) {
      std::fputs(overlap::kHelp, stdout);
      return 0;
    }
    return overlap::main(options);
  } catch (const overlap::UsageError& error) {
    std::fprintf(stderr, "overlap: %s\n(--help shows the arguments)\n", error.what());
    return 2;
  } catch (const ember::Error& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  }
}
