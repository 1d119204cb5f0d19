#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/random/permutation_args.h"

namespace ember::inline v0::random::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kThreads = 256;

/// A thread counts the keys before its own. Every block makes all keys.
template <class T>
__global__ void __launch_bounds__(kThreads) rank_kernel(PermutationArgs args) {
  __shared__ std::uint64_t keys[kRankedPermutation];  // the upper half of each
  const int count = static_cast<int>(args.count);
  const PhiloxState state = args.source.state();
  const std::uint64_t step = state.step();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    keys[i] = shuffle_key(state.seed, step, static_cast<std::uint64_t>(i)).high;
  __syncthreads();
  const int own = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (own >= count) return;
  const std::uint64_t key = keys[own];
  int rank = 0;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const std::uint64_t other = keys[i];
    rank += other < key ? 1 : 0;
    if (other == key && i != own) {  // hardly ever
      const auto j = static_cast<std::uint64_t>(i);
      const auto k = static_cast<std::uint64_t>(own);
      rank += comes_before(shuffle_key(state.seed, step, j), j, shuffle_key(state.seed, step, k), k)
                  ? 1
                  : 0;
    }
  }
  static_cast<T*>(args.out)[rank] = convert<T>(static_cast<std::int64_t>(own));
}

/// Number is what the numbers below twice the count fit into.
template <class T, class Number>
__global__ void __launch_bounds__(kThreads) feistel_kernel(PermutationArgs args) {
  __shared__ FeistelKeys keys;
  if (threadIdx.x < FeistelKeys::kCalls) {
    const PhiloxState state = args.source.state();
    keys.draw(state.seed, state.step(), static_cast<int>(threadIdx.x));
  }
  __syncthreads();
  const auto count = static_cast<std::uint64_t>(args.count);
  const Feistel feistel(count);
  const std::uint64_t step = std::uint64_t{gridDim.x} * kThreads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    auto number = static_cast<Number>(Feistel::exchanged(keys, i));
    do number = feistel.pass(keys, number);
    while (number >= count);
    static_cast<T*>(args.out)[i] = convert<T>(static_cast<std::int64_t>(number));
  }
}

template <class T>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<PermutationArgs>();
  const std::int64_t blocks = (args.count + kThreads - 1) / kThreads;
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks < 16384 ? blocks : 16384), kThreads};
  if (args.count <= kRankedPermutation) return driver::cuda::start<&rank_kernel<T>>(on, grid, args);
  if (args.count <= std::int64_t{1} << 32)
    return driver::cuda::start<&feistel_kernel<T, std::uint32_t>>(on, grid, args);
  return driver::cuda::start<&feistel_kernel<T, std::uint64_t>>(on, grid, args);
}

constexpr NamedImplementation implementations[] = {
#define EMBER_KERNEL(dtype, type) {"randperm." #dtype, &implementation<type>},
    EMBER_FOR_EACH_PERMUTED(EMBER_KERNEL)
#undef EMBER_KERNEL
};
const Implementations table(implementations, driver::arguments<PermutationArgs>());

}  // namespace
}  // namespace ember::inline v0::random::cuda
