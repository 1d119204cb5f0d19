#include "report.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

#include "examples/support/report.h"

namespace overlap {

using ember::format_bytes;
using example::percent;

namespace {

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

void print_speed(const Pipelines& pipelines, std::uint64_t bytes, example::Seconds time) {
  std::vector<example::DeviceWork> work;
  for (const auto& pipeline : pipelines)
    work.push_back(
        {pipeline->device(), pipeline->bytes(), pipeline->copying(), pipeline->computing()});
  example::print_work(work);
  std::printf("\n  speed    %s in %.3f s: %s\n", format_bytes(bytes).c_str(), time.count(),
              example::byte_rate(bytes, time).c_str());
  example::print_overlap(work);
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

}  // namespace overlap
