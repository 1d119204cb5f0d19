// The CUDA implementations of Fourier transforms: cuFFT's, and the second halves of Hermitian
// signals.
#include "ember/driver/cuda/fft.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/fft.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::fft::cuda {
namespace {

using driver::FftArgs;
using driver::FftMirrorArgs;
using driver::FftPlanArgs;
using driver::FftPlanState;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kThreads = 256;

/// One thread for each element that is written, as far as there are blocks, and then for more.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mirror_kernel(FftMirrorArgs args, std::int64_t each, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const std::int64_t k = i % each + 1;
    std::int64_t rest = i / each;
    T* first = static_cast<T*>(args.data);
    for (int d = args.batch_dims - 1; d >= 0; --d) {
      first += rest % args.batch_sizes[d] * args.batch_strides[d];
      rest /= args.batch_sizes[d];
    }
    const T value = first[k * args.stride];
    first[(args.size - k) * args.stride] = convert<T>(m::conj(convert<Compute<T>>(value)));
  }
}

template <class T>
Status mirror(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<FftMirrorArgs>();
  const std::int64_t each = (args.size - 1) / 2;
  std::int64_t count = each;
  for (int d = 0; d < args.batch_dims; ++d) count *= args.batch_sizes[d];
  if (count == 0) return {};
  constexpr std::int64_t kMostBlocks = 1 << 16;
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
                                kThreads};
  return driver::cuda::start<&mirror_kernel<T>>(on, grid, args, each, count);
}

Status transform(const driver::Params& params, const driver::CudaLaunch& on) {
  return driver::cuda::transform(params.as<FftArgs>(), on);
}

Status plan(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<FftPlanArgs>();
  auto& state = *static_cast<FftPlanState*>(args.state);
  if (args.destroy) return driver::cuda::destroy_fft_plan(state);
  return driver::cuda::make_fft_plan(args.geometry, on, state);
}

constexpr NamedImplementation transforms[] = {
    {"fft_c2c.float16", &transform}, {"fft_r2c.float16", &transform},
    {"fft_c2r.float16", &transform}, {"fft_c2c.float32", &transform},
    {"fft_r2c.float32", &transform}, {"fft_c2r.float32", &transform},
    {"fft_c2c.float64", &transform}, {"fft_r2c.float64", &transform},
    {"fft_c2r.float64", &transform},
};
const Implementations transform_table(transforms, driver::arguments<FftArgs, FftPlanState>());

constexpr NamedImplementation mirrors[] = {
    {"fft_mirror.complex32", &mirror<Complex<Half>>},
    {"fft_mirror.complex64", &mirror<Complex<float>>},
    {"fft_mirror.complex128", &mirror<Complex<double>>},
};
const Implementations mirror_table(mirrors, driver::arguments<FftMirrorArgs>());

constexpr NamedImplementation plans[] = {{"fft_plan", &plan}};
const Implementations plan_table(plans, driver::arguments<FftPlanArgs, FftPlanState>());

}  // namespace
}  // namespace ember::inline v0::fft::cuda
