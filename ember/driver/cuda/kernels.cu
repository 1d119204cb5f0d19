#include "ember/driver/cuda/columns.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/kernels.h"

namespace ember::driver::cuda {
namespace {

__global__ void sleep_kernel(std::uint64_t cycles) {
  const auto start = clock64();
  while (static_cast<std::uint64_t>(clock64() - start) < cycles) {
  }
}

Status sleep_column(const Params& params, const CudaLaunch& on) {
  return start<&sleep_kernel>(on, Grid{}, params.as<kernels::SleepArgs>().cycles);
}

constexpr NamedColumn kColumns[] = {
    {"sleep", &sleep_column},
};
const Columns table(kColumns);

}  // namespace
}  // namespace ember::driver::cuda
