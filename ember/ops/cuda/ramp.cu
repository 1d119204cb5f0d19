#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/ramp_args.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

template <class T>
__global__ void ramp_kernel(RampArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.count;
       i += step) {
    if constexpr (std::is_integral_v<T>)
      static_cast<T*>(args.out)[i] = convert<T>(m::add(args.first, m::mul(i, args.step)));
    else if (i < args.turn)  // rounded after the product, as on the host
      static_cast<T*>(args.out)[i] =
          convert<T>(args.real_first + __dmul_rn(static_cast<double>(i), args.real_step));
    else
      static_cast<T*>(args.out)[i] = convert<T>(
          args.real_last - __dmul_rn(static_cast<double>(args.count - 1 - i), args.real_step));
  }
}

template <class T>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<RampArgs>();
  const std::int64_t blocks = (args.count + 1023) / 1024;
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256};
  return driver::cuda::start<&ramp_kernel<T>>(on, grid, args);
}

constexpr NamedImplementation implementations[] = {
#define EMBER_DTYPE(enumerator, type, name, legacy) {"arange." name, &implementation<type>},
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
};
const Implementations table(implementations, driver::arguments<RampArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
