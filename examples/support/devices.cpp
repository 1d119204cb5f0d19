#include "examples/support/devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "ember/cuda.h"
#include "examples/support/arguments.h"

namespace example {

namespace cuda = ember::cuda;

int choose_devices(const std::optional<int>& wanted, int usual) {
  const char* chosen = std::getenv("EMBER_DEVICES");
  if ((chosen == nullptr || *chosen == '\0') && !cuda::is_available()) {
    const int count = wanted.value_or(2);
    std::printf("No GPU that this build can use: running on %d simulated.\n", count);
    cuda::simulate(count);
  }
  cuda::init();  // says what is wrong, if anything is
  const int there_are = cuda::device_count();
  if (wanted.value_or(1) > there_are)
    throw UsageError("--devices", std::to_string(*wanted),
                     "expected at most " + std::to_string(there_are) + ", as many as there are");
  return wanted.value_or(std::min(there_are, usual));
}

std::string device_text(int device) { return "cuda:" + std::to_string(device); }

void print_devices(int used) {
  for (int device = 0; device < used; ++device) {
    const cuda::DeviceProperties& properties = cuda::get_device_properties(device);
    std::printf("  %s   %s, %s\n", device_text(device).c_str(), properties.name.c_str(),
                ember::format_bytes(properties.total_memory).c_str());
  }
  if (cuda::device_count() == 1)
    std::printf("           (the only device here; a second one would share the work)\n");
}

}  // namespace example
