#include "examples/support/report.h"

#include <algorithm>
#include <cstdio>

#include "ember/cuda.h"
#include "examples/support/devices.h"
#include "examples/support/progress.h"

namespace example {

namespace cuda = ember::cuda;
using ember::format_bytes;

void print_work(const std::vector<DeviceWork>& work) {
  std::printf("\n           %10s  %11s  %11s  %11s  copies hidden\n", "bytes", "copying",
              "computing", "at once");
  for (const DeviceWork& one : work) {
    const double both = length(intersect(one.copying, one.computing));
    std::printf("  %s   %10s  %8.1f ms  %8.1f ms  %8.1f ms  %11.1f %%\n",
                device_text(one.device).c_str(), format_bytes(one.bytes).c_str(),
                length(one.copying), length(one.computing), both,
                percent(both, length(one.copying)));
  }
}

void print_overlap(const std::vector<DeviceWork>& work) {
  double copying = 0;
  double hidden = 0;
  double could_be_hidden = 0;
  for (const DeviceWork& one : work) {
    copying += length(one.copying);
    hidden += length(intersect(one.copying, one.computing));
    could_be_hidden += std::min(length(one.copying), length(one.computing));
  }
  std::printf("  overlap  %.1f %% of the copies hidden behind compute", percent(hidden, copying));
  if (could_be_hidden < copying)
    std::printf(", of at most %.1f %%: computing is shorter", percent(could_be_hidden, copying));
  std::printf("\n");
}

void print_memory(int used) {
  std::printf("\n  memory   %10s %11s %11s\n", "allocated", "peak", "reserved");
  for (int device = 0; device < used; ++device)
    std::printf("  %s   %10s %11s %11s\n", device_text(device).c_str(),
                format_bytes(cuda::memory_allocated(device)).c_str(),
                format_bytes(cuda::max_memory_allocated(device)).c_str(),
                format_bytes(cuda::memory_reserved(device)).c_str());
}

}  // namespace example
