#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/random/philox_args.h"

namespace ember::inline v0::random::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

__global__ void write_kernel(PhiloxWriteArgs args) { *args.to = args.state; }

Status write_state(const driver::Params& params, const driver::CudaLaunch& on) {
  const driver::cuda::Grid grid{1, 1};
  return driver::cuda::start<&write_kernel>(on, grid, params.as<PhiloxWriteArgs>());
}

constexpr NamedImplementation implementations[] = {{"philox_write", &write_state}};
const Implementations table(implementations, driver::arguments<PhiloxWriteArgs>());

}  // namespace
}  // namespace ember::inline v0::random::cuda
