#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/kernels.h"

namespace ember::inline v0::driver::cuda {
namespace {

__global__ void sleep_kernel(std::uint64_t cycles) {
  const auto start = clock64();
  while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
  }
}

Status sleep_implementation(const Params& params, const CudaLaunch& on) {
  return start<&sleep_kernel>(on, Grid{}, params.as<kernels::SleepArgs>().cycles);
}

constexpr NamedImplementation kImplementations[] = {
    {"sleep", &sleep_implementation},
};
const Implementations table(kImplementations, arguments<kernels::SleepArgs>());

}  // namespace
}  // namespace ember::inline v0::driver::cuda
