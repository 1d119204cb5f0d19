// What the threads of a warp or of a block do together.
#pragma once

#include <cstdint>

namespace ember::inline v0::ops::cuda {

constexpr unsigned kAllLanes = 0xffffffffU;

/// The sum over this lane and those before it.
template <class T>
__device__ __forceinline__ T sum_to_lane(T value) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(kAllLanes, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

/// The sum over the threads before this one, and over all of them. `scratch` has a place for each
/// warp and may be used again at once. A barrier for the block.
template <int kThreads>
__device__ __forceinline__ unsigned sum_before(unsigned value, unsigned* scratch, unsigned& total) {
  const unsigned warp = threadIdx.x / 32;
  const unsigned inclusive = sum_to_lane(value);
  if (threadIdx.x % 32 == 31) scratch[warp] = inclusive;
  __syncthreads();
  unsigned before = inclusive - value;
  total = 0;
#pragma unroll
  for (unsigned w = 0; w < kThreads / 32; ++w) {
    const unsigned sum = scratch[w];
    if (w < warp) before += sum;
    total += sum;
  }
  __syncthreads();
  return before;
}

/// The threads that do something together: a block of so many, or one of its warps.
template <int kBlockThreads>
struct Block {
  static constexpr unsigned kThreads = kBlockThreads;
  static __device__ __forceinline__ unsigned rank() { return threadIdx.x; }
  static __device__ __forceinline__ void wait() { __syncthreads(); }
};
struct Warp {
  static constexpr unsigned kThreads = 32;
  static __device__ __forceinline__ unsigned rank() { return threadIdx.x % 32; }
  static __device__ __forceinline__ void wait() { __syncwarp(); }
};

/// Puts runs of `size` entries (a power of two; `entries` is a multiple of it) in order: by key,
/// then by position. A barrier for the threads before and after.
template <class Threads, class Key>
__device__ __forceinline__ void sort_runs(Key* keys, std::uint32_t* positions, unsigned entries,
                                          unsigned size) {
  Threads::wait();
  for (unsigned run = 2; run <= size; run *= 2) {
    for (unsigned step = run / 2; step > 0; step /= 2) {
      for (unsigned t = Threads::rank(); t < entries / 2; t += Threads::kThreads) {
        const unsigned a = 2 * t - (t & (step - 1));
        const unsigned b = a + step;
        const bool up = (a & (size - 1) & run) == 0;  // the last merge goes up everywhere
        const Key key_a = keys[a];
        const Key key_b = keys[b];
        const std::uint32_t position_a = positions[a];
        const std::uint32_t position_b = positions[b];
        const bool after = key_a > key_b || (key_a == key_b && position_a > position_b);
        if (after == up) {
          keys[a] = key_b;
          keys[b] = key_a;
          positions[a] = position_b;
          positions[b] = position_a;
        }
      }
      Threads::wait();
    }
  }
}

}  // namespace ember::inline v0::ops::cuda
