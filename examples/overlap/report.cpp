#include "report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

namespace overlap {

namespace cuda = ember::cuda;
using ember::format_bytes;

namespace {

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string speed(std::uint64_t bytes, double seconds) {
  if (bytes == 0 || seconds <= 0) return "-";
  return format_bytes(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds)) + "/s";
}

std::string device_text(int device) { return "cuda:" + std::to_string(device); }

const char* plural(std::uint64_t count) { return count == 1 ? "" : "s"; }

}  // namespace

void print_input(const Input& input, std::uint32_t chunk_bytes) {
  const std::uint64_t total = input.total_bytes();
  const std::uint64_t chunks = (total + chunk_bytes - 1) / chunk_bytes;
  std::printf("  file     %s, %s\n", input.name().c_str(),
              format_bytes(input.file_bytes()).c_str());
  std::printf("  load     %s: the file %llu time%s, in %llu chunk%s", format_bytes(total).c_str(),
              static_cast<unsigned long long>(input.repeat()), plural(input.repeat()),
              static_cast<unsigned long long>(chunks), plural(chunks));
  if (chunks > 1) std::printf(" of %s", format_bytes(chunk_bytes).c_str());
  std::printf("\n");
}

void print_devices(int used) {
  for (int device = 0; device < used; ++device) {
    const cuda::DeviceProperties& properties = cuda::get_device_properties(device);
    std::printf("  %s   %s, %s\n", device_text(device).c_str(), properties.name.c_str(),
                format_bytes(properties.total_memory).c_str());
  }
  if (cuda::device_count() == 1)
    std::printf("           (the only device here; a second one would share the work)\n");
}

void print_speed(const Pipelines& pipelines, std::uint64_t bytes, Seconds time) {
  std::printf("\n           %10s  %11s  %11s  %11s  copies hidden\n", "bytes", "copying",
              "computing", "at once");
  double copying = 0;
  double hidden = 0;
  double could_be_hidden = 0;
  for (const auto& pipeline : pipelines) {
    const Timeline copies = pipeline->copying();
    const Timeline computations = pipeline->computing();
    const double both = length(intersect(copies, computations));
    std::printf("  %s   %10s  %8.1f ms  %8.1f ms  %8.1f ms  %11.1f %%\n",
                device_text(pipeline->device()).c_str(), format_bytes(pipeline->bytes()).c_str(),
                length(copies), length(computations), both, percent(both, length(copies)));
    copying += length(copies);
    hidden += both;
    could_be_hidden += std::min(length(copies), length(computations));
  }
  std::printf("\n  speed    %s in %.3f s: %s\n", format_bytes(bytes).c_str(), time.count(),
              speed(bytes, time.count()).c_str());
  std::printf("  overlap  %.1f %% of the copies hidden behind compute", percent(hidden, copying));
  if (could_be_hidden < copying)
    std::printf(", of at most %.1f %%: computing is shorter", percent(could_be_hidden, copying));
  std::printf("\n");
}

void print_memory(const Pipelines& pipelines) {
  std::printf("\n  memory   %10s %11s %11s\n", "allocated", "peak", "reserved");
  for (const auto& pipeline : pipelines) {
    const int device = pipeline->device();
    std::printf("  %s   %10s %11s %11s\n", device_text(device).c_str(),
                format_bytes(cuda::memory_allocated(device)).c_str(),
                format_bytes(cuda::max_memory_allocated(device)).c_str(),
                format_bytes(cuda::memory_reserved(device)).c_str());
  }
}

bool print_digest(const Digest& computed, const HostCheck& check, const Input& input) {
  std::array<int, 256> values{};
  std::iota(values.begin(), values.end(), 0);
  std::stable_sort(values.begin(), values.end(), [&](int a, int b) {
    return computed.histogram[static_cast<std::size_t>(a)] >
           computed.histogram[static_cast<std::size_t>(b)];
  });
  std::printf("\n  bytes    ");
  const char* separator = "";
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const int value = values[rank];
    const std::uint64_t times = computed.histogram[static_cast<std::size_t>(value)];
    if (times == 0) break;
    std::printf("%s0x%02x %.2f %%", separator, static_cast<unsigned>(value),
                percent(static_cast<double>(times), static_cast<double>(input.total_bytes())));
    separator = ", ";
  }
  const auto occurring = 256 - std::count(computed.histogram.begin(), computed.histogram.end(), 0u);
  std::printf("%s%d of 256 values occur\n",
              occurring > 3   ? ", ...; "
              : occurring > 0 ? "; "
                              : "",
              static_cast<int>(occurring));
  std::printf("  crc-32   0x%08x", static_cast<unsigned>(computed.crc));
  if (input.repeat() > 1)
    std::printf(" (of the file once: 0x%08x)", static_cast<unsigned>(check.file_crc));
  std::printf("\n\n");

  if (computed == check.total) {
    std::printf("checked against %s: equal\n", kChecker);
    return true;
  }
  std::printf("checked against %s: DIFFERENT\n", kChecker);
  if (computed.crc != check.total.crc)
    std::printf("  crc-32 on the host: 0x%08x\n", static_cast<unsigned>(check.total.crc));
  if (computed.histogram != check.total.histogram)
    std::printf("  the histogram on the host differs\n");
  return false;
}

ProgressBar::ProgressBar(std::uint64_t total)
    : total_(total), visible_(total > 0 && isatty(STDOUT_FILENO) != 0) {}

void ProgressBar::draw(std::uint64_t done) {
  if (!visible_) return;
  constexpr int kWidth = 40;
  const double part = static_cast<double>(done) / static_cast<double>(total_);
  const int filled = static_cast<int>(part * kWidth);
  const Seconds so_far = Clock::now() - start_;
  std::printf("\r  [%s%s] %3d %%  %s\033[K",
              std::string(static_cast<std::size_t>(filled), '#').c_str(),
              std::string(static_cast<std::size_t>(kWidth - filled), '.').c_str(),
              static_cast<int>(100 * part), speed(done, so_far.count()).c_str());
  std::fflush(stdout);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace overlap
