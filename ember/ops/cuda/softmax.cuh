// What the kernels of softmax share.
#pragma once

#include <cstdint>

#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/softmax_args.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda::softmax {

using driver::cuda::Grid;
using driver::cuda::Pack;
using driver::cuda::start;

constexpr int kMaxLanes = 512;  ///< threads that share a row
constexpr int kAtOnce = 4;      ///< loads in flight where rows do not fit into registers

/// Elements in 16 bytes.
template <class T>
constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

template <class T>
__device__ __forceinline__ T lowest() {
  return -static_cast<T>(HUGE_VAL);
}

/// NaN wins. For floats there is an instruction, up to the sign of a zero.
template <class T>
__device__ __forceinline__ T maximum(T x, T y) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
    return larger;
  }
#endif
  return m::maximum(x, y);
}

__device__ __forceinline__ float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ __forceinline__ double fused(double x, double y, double z) { return __fma_rn(x, y, z); }

/// From the distance to the row's largest element to the result.
template <bool kLogarithm, class T>
struct Finish {
  T sum;
  T of_sum;

  __device__ __forceinline__ explicit Finish(T all)
      : sum(all), of_sum(kLogarithm ? m::log(all) : 1 / all) {}

  __device__ __forceinline__ T of_power(T power) const {
    // A quotient, without what a division does for divisors below one or beyond all bounds: the
    // product with the reciprocal, and what it leaves over.
    const T near = power * of_sum;
    return fused(fused(-near, sum, power), of_sum, near);
  }
  __device__ __forceinline__ T operator()(T distance) const {
    if constexpr (kLogarithm)
      return distance - of_sum;
    else
      return of_power(m::exp(distance));
  }
};

/// What `lanes` neighbours in a warp (a power of two) have, combined, for each of R rows: all of
/// them get the same bits. Combining must not depend on the order of its two arguments.
template <int R, class T, class Combine>
__device__ __forceinline__ void combine_warp(T (&value)[R], int lanes, const Combine& combine) {
  for (int offset = lanes / 2; offset > 0; offset /= 2)
#pragma unroll
    for (int r = 0; r < R; ++r)
      value[r] = combine(value[r], __shfl_xor_sync(0xffffffffU, value[r], offset));
}

/// The same for more lanes, a multiple of 32: they are threadIdx.x. All threads of the block must
/// come here.
template <class T, class Combine>
__device__ __forceinline__ T combine_lanes(T value, T* shared, int lanes, const Combine& combine) {
  T own[1] = {value};
  combine_warp(own, lanes < 32 ? lanes : 32, combine);
  if (lanes <= 32) return own[0];
  const int warps = lanes / 32;
  T* all = shared + static_cast<int>(threadIdx.y) * warps;
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = own[0];
  __syncthreads();
  value = all[0];
  for (int w = 1; w < warps; ++w) value = combine(value, all[w]);
  return value;
}

inline unsigned power_of_two(std::int64_t number, unsigned most) {
  unsigned power = 1;
  while (power < number && power < most) power *= 2;
  return power;
}

inline std::int64_t quotient_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

/// Whether both may be read and written 16 bytes at a time.
inline bool both_aligned(const void* in, const void* out) {
  return driver::cuda::is_aligned(in) && driver::cuda::is_aligned(out);
}
/// Whether both are equally far from where that is so.
__device__ __forceinline__ bool aligned_alike(const void* in, const void* out) {
  return ((reinterpret_cast<std::uintptr_t>(in) ^ reinterpret_cast<std::uintptr_t>(out)) & 15) == 0;
}
/// Elements before the first aligned one.
template <class T>
__device__ __forceinline__ int before_aligned(const T* data) {
  return static_cast<int>((0 - reinterpret_cast<std::uintptr_t>(data)) & 15) /
         static_cast<int>(sizeof(T));
}

}  // namespace ember::inline v0::ops::cuda::softmax
