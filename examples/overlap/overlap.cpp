// overlap: a file's byte histogram and CRC-32 on one or two GPUs, with the copies hidden behind the
// computing.
//
// Read pipeline.h next: it has the streams, events and buffers. kernels.h has the work itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ember/cuda.h"
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

/// How many devices to use. Simulated ones are used only when asked for by name: by EMBER_DEVICES,
/// or here.
int choose_devices(const Options& options) {
  const char* chosen = std::getenv("EMBER_DEVICES");
  if ((chosen == nullptr || *chosen == '\0') && !cuda::is_available()) {
    const int count = options.devices.value_or(2);
    std::printf("No GPU that this build can use: running on %d simulated.\n", count);
    cuda::simulate(count);
  }
  cuda::init();  // says what is wrong, if anything is
  const int there_are = cuda::device_count();
  if (options.devices.value_or(1) > there_are)
    throw UsageError("--devices", std::to_string(*options.devices),
                     "expected at most " + std::to_string(there_are) + ", as many as there are");
  return options.devices.value_or(std::min(there_are, 2));
}

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
  ProgressBar progress(work.input().total_bytes());
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
      progress.draw(work.bytes_done());
    run.get();
  }
}

int main(const Options& options) {
  Input input(options.file);
  const int devices = choose_devices(options);
  if (options.repeat)
    input.set_repeat(*options.repeat);
  else
    input.repeat_up_to(cuda::is_simulated() ? kSimulatedLoad : kRealLoad);
  const int readers = choose_readers(devices);
  Work work(input, fitting_chunk(options.chunk.value_or(kChunkBytes), input));

  std::printf("overlap: copies hidden behind compute\n\n");
  print_input(input, work.chunk_bytes());
  print_devices(devices);
  std::fflush(stdout);

  Pipelines pipelines;
  for (int device = 0; device < devices; ++device)
    pipelines.push_back(std::make_unique<Pipeline>(device, readers, work));
  const auto start = std::chrono::steady_clock::now();
  run_all(pipelines, readers, work);
  const Seconds time = std::chrono::steady_clock::now() - start;

  Digest digest;
  for (const auto& pipeline : pipelines) digest.merge(pipeline->digest());
  print_speed(pipelines, input.total_bytes(), time);
  print_memory(pipelines);
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
