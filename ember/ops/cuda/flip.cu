#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/divider.cuh"
#include "ember/ops/cuda/units.cuh"
#include "ember/ops/flip_kernels.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;
using driver::cuda::Pack;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kEach = 4;  ///< positions of one thread

/// Where the positions lie.
struct Places {
  int dims;
  Divider size[kFlipDims];
  std::int64_t out[kFlipDims];
  std::int64_t in[kFlipDims];

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;

  explicit Places(const FlipArgs& args) : dims(args.dims) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider(static_cast<std::uint32_t>(args.size[d]));
      out[d] = args.out_stride[d];
      in[d] = args.in_stride[d];
    }
  }
};

/// N adjacent elements at once, whose order is turned round where N is more than one.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    flip_kernel(Places places, T* out, const T* in, std::uint32_t count) {
  const std::uint32_t step = gridDim.x * kThreads;
  for (std::uint32_t n = blockIdx.x * kThreads + threadIdx.x; n < count; n += step) {
    std::uint32_t i = n;
    std::int64_t to = 0;
    std::int64_t from = 0;
#pragma unroll
    for (int d = 0; d < kFlipDims; ++d) {
      if (d >= places.dims) break;
      // The slowest dimension has no further one to be divided among.
      const std::uint32_t rest = d + 1 == places.dims ? 0 : places.size[d].quotient(i);
      const std::int64_t here = i - rest * places.size[d].divisor;
      to += here * places.out[d];
      from += here * places.in[d];
      i = rest;
    }
    const auto given = *reinterpret_cast<const Pack<T, N>*>(in + from);
    Pack<T, N> turned;
#pragma unroll
    for (int e = 0; e < N; ++e) turned.value[e] = given.value[N - 1 - e];
    *reinterpret_cast<Pack<T, N>*>(out + to) = turned;
  }
}

template <class T, int N>
Status launch(const FlipArgs& args, const driver::CudaLaunch& on) {
  std::int64_t count = 1;
  for (int d = 0; d < args.dims; ++d) count *= args.size[d];
  constexpr std::int64_t kOfBlock = kEach * kThreads;
  const driver::cuda::Grid grid{static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock), kThreads};
  return driver::cuda::start<&flip_kernel<T, N>>(on, grid, Places(args), static_cast<T*>(args.out),
                                                 static_cast<const T*>(args.in),
                                                 static_cast<std::uint32_t>(count));
}

/// Whether rows that are turned round are whole numbers of packs of N elements, which are aligned.
template <class T, int N>
bool packs_fit(const FlipArgs& args) {
  static_assert(sizeof(Pack<T, N>) == 16);
  if (args.out_stride[0] != 1 || args.in_stride[0] != -1 || args.size[0] % N != 0) return false;
  using driver::cuda::is_aligned;
  bool fit = is_aligned(args.out) && is_aligned(static_cast<const T*>(args.in) - (N - 1));
  for (int d = 1; d < args.dims; ++d)
    fit = fit && args.out_stride[d] % N == 0 && args.in_stride[d] % N == 0;
  return fit;
}

template <int bytes>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  using T = Unit<bytes>;
  const auto& args = params.as<FlipArgs>();
  constexpr int N = 16 / bytes;
  if (N == 1 || !packs_fit<T, N>(args)) return launch<T, 1>(args, on);
  FlipArgs packs = args;
  packs.in = static_cast<const T*>(args.in) - (N - 1);
  packs.size[0] /= N;
  packs.out_stride[0] = N;
  packs.in_stride[0] = -N;
  return launch<T, N>(packs, on);
}

constexpr NamedImplementation implementations[] = {
    {"flip.1", &implementation<1>},   {"flip.2", &implementation<2>},
    {"flip.4", &implementation<4>},   {"flip.8", &implementation<8>},
    {"flip.16", &implementation<16>},
};
const Implementations table(implementations, driver::arguments<FlipArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
