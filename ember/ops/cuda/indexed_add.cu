#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/indexed.cuh"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

/// *target += value, whoever else does the same. What the hardware cannot add is exchanged for the
/// sum until nobody came between: types of one and two bytes.
template <class T>
__device__ __forceinline__ void atomic_add(T* target, T value) {
  if constexpr (is_complex<T>) {
    atomic_add(&target->re, value.re);
    atomic_add(&target->im, value.im);
  } else if constexpr (std::is_floating_point_v<T>) {
    atomicAdd(target, value);
  } else if constexpr (sizeof(T) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(target),
              static_cast<unsigned long long>(value));
  } else if constexpr (sizeof(T) == 4) {
    atomicAdd(target, value);
  } else {
    // Within the aligned word, which lies in the same allocation: those are multiples of 512 bytes.
    const auto address = reinterpret_cast<std::uintptr_t>(target);
    auto* word = reinterpret_cast<std::uint32_t*>(address & ~std::uintptr_t{3});
    const unsigned shift = static_cast<unsigned>(address & 3) * 8;
    constexpr std::uint32_t kMask = sizeof(T) == 1 ? 0xffU : 0xffffU;
    using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
    std::uint32_t seen = *word;
    std::uint32_t expected = 0;
    do {
      expected = seen;
      const T sum = m::add(static_cast<T>((expected >> shift) & kMask), value);
      const std::uint32_t made =
          (expected & ~(kMask << shift)) | (std::uint32_t{static_cast<Bits>(sum)} << shift);
      seen = atomicCAS(word, expected, made);
    } while (seen != expected);
  }
}

constexpr int kEach = 4;

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_kernel(T* target, const T* source, const std::int64_t* index, std::uint32_t count,
               const __grid_constant__ Places places, const __grid_constant__ Positions positions) {
  const std::uint32_t begin = blockIdx.x * (kThreads * kEach) + threadIdx.x;
  Position at[kEach];
  T value[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const std::uint32_t i = begin + e * kThreads;
    if (i >= count) break;
    at[e] = positions.at(i);
    at[e].index = index[at[e].index];
    value[e] = source[at[e].source];
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    if (begin + e * kThreads >= count) break;
    atomic_add(target + at[e].target + places.offset(at[e].index), value[e]);
  }
}

template <class T>
Status add_implementation(const driver::Params& params, const CudaLaunch& on) {
  return each_part(params.as<IndexedArgs>(), sizeof(T),
                   [&](const IndexedArgs& args, std::uint32_t count) {
                     const Grid grid{blocks_for(count, kThreads * kEach), kThreads};
                     return start<&add_kernel<T>>(on, grid, static_cast<T*>(args.target),
                                                  static_cast<const T*>(args.source), args.index,
                                                  count, Places(args), Positions(args));
                   });
}

// The 16-bit floating-point types have no kernels: their sums are made in float.
constexpr NamedImplementation implementations[] = {
#define EMBER_KERNEL(name)                                                                         \
  {#name ".bool", &add_implementation<bool>}, {#name ".uint8", &add_implementation<std::uint8_t>}, \
      {#name ".int8", &add_implementation<std::int8_t>},                                           \
      {#name ".int16", &add_implementation<std::int16_t>},                                         \
      {#name ".int32", &add_implementation<std::int32_t>},                                         \
      {#name ".int64", &add_implementation<std::int64_t>},                                         \
      {#name ".float32", &add_implementation<float>},                                              \
      {#name ".float64", &add_implementation<double>},                                             \
      {#name ".complex64", &add_implementation<Complex<float>>},                                   \
      {#name ".complex128", &add_implementation<Complex<double>>},
    EMBER_FOR_EACH_ADD(EMBER_KERNEL)
#undef EMBER_KERNEL
};
const Implementations table(implementations, driver::arguments<IndexedArgs, OffsetArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
