// How elements are joined in cumsum and cumprod, and how a block does it with a tile.
#pragma once

#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/block.cuh"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {

struct Sum {
  template <class A>
  static __device__ __forceinline__ A first() {
    return A(0);
  }
  template <class A>
  static __device__ __forceinline__ A join(A x, A y) {
    return m::add(x, y);
  }
};
struct Product {
  template <class A>
  static __device__ __forceinline__ A first() {
    return A(1);
  }
  template <class A>
  static __device__ __forceinline__ A join(A x, A y) {
    return m::mul(x, y);
  }
};

/// Shuffles, also of complex numbers. `shuffle` is given one word or double word at a time.
template <class A, class Shuffle>
__device__ __forceinline__ A each_part(A value, Shuffle shuffle) {
  if constexpr (is_complex<A>)
    return A(shuffle(value.re), shuffle(value.im));
  else if constexpr (std::is_same_v<A, std::int64_t>)
    return static_cast<A>(shuffle(static_cast<long long>(value)));
  else
    return shuffle(value);
}
template <class A>
__device__ __forceinline__ A from_lane_before(A value, unsigned distance) {
  return each_part(value, [=](auto part) { return __shfl_up_sync(kAllLanes, part, distance); });
}
template <class A>
__device__ __forceinline__ A from_other_lane(A value, unsigned mask) {
  return each_part(value, [=](auto part) { return __shfl_xor_sync(kAllLanes, part, mask); });
}
template <class A>
__device__ __forceinline__ A from_lane(A value, unsigned lane) {
  return each_part(value, [=](auto part) { return __shfl_sync(kAllLanes, part, lane); });
}

/// The join of this lane and those before it.
template <class Op, class A>
__device__ __forceinline__ A join_to_lane(A value) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const A other = from_lane_before(value, step);
    if (lane >= step) value = Op::join(other, value);
  }
  return value;
}

/// The elements of a tile that one thread has. Packs of 16 bytes; the first packs of all threads
/// lie in a row, then their second ones, and so on.
/// `streams`: nothing is read or written again soon, caches should make place for what is.
template <class T, int threads, bool streams>
struct ScanTile {
  using A = Compute<T>;
  static constexpr int kThreads = threads;
  static constexpr int kWarps = threads / 32;
  static constexpr int kWidth = static_cast<int>(16 / sizeof(T));
  static constexpr int kPacks = sizeof(T) == 2 ? 4 : 8;
  static constexpr int kElements = kThreads * kPacks * kWidth;
  static constexpr int kTotals = kPacks * kWarps;  ///< one for each pack of each warp

  using Pack = driver::cuda::Pack<T, kWidth>;
  static __device__ __forceinline__ Pack load_pack(const T* from) {
    if constexpr (!streams) return *reinterpret_cast<const Pack*>(from);
    const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(from));
    Pack pack;
    memcpy(&pack, &bits, sizeof pack);
    return pack;
  }
  static __device__ __forceinline__ void store_pack(T* to, const Pack& pack) {
    if constexpr (!streams) {
      *reinterpret_cast<Pack*>(to) = pack;
    } else {
      uint4 bits;
      memcpy(&bits, &pack, sizeof bits);
      __stcs(reinterpret_cast<uint4*>(to), bits);
    }
  }

  A values[kPacks][kWidth];
  A before[kPacks];  ///< the join of the lanes before this one

  static __device__ __forceinline__ unsigned index(int pack) {
    return (pack * kThreads + threadIdx.x) * kWidth;
  }

  /// `whole`: it is not the last tile of a row, and aligned to packs.
  template <class Op>
  __device__ __forceinline__ void load(const T* in, std::int64_t left, bool whole) {
    if (whole) {
      Pack packs[kPacks];
#pragma unroll
      for (int p = 0; p < kPacks; ++p) packs[p] = load_pack(in + index(p));
#pragma unroll
      for (int p = 0; p < kPacks; ++p)
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[p][i] = convert<A>(packs[p].value[i]);
      return;
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        values[p][i] = index(p) + i < left ? convert<A>(in[index(p) + i]) : Op::template first<A>();
  }

  /// Joins within packs and within warps; what each warp has of each pack goes into `totals`.
  template <class Op>
  __device__ __forceinline__ void join(A* totals) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int i = 1; i < kWidth; ++i) values[p][i] = Op::join(values[p][i - 1], values[p][i]);
      const A to_lane = join_to_lane<Op>(values[p][kWidth - 1]);
      before[p] = from_lane_before(to_lane, 1);
      if (threadIdx.x % 32 == 0) before[p] = Op::template first<A>();
      if (threadIdx.x % 32 == 31) totals[p * kWarps + threadIdx.x / 32] = to_lane;
    }
  }

  /// For one warp: makes of each total the join of those before it, and returns that of all.
  template <class Op>
  static __device__ __forceinline__ A join_totals(A* totals) {
    constexpr int kEach = kTotals / 32;
    A mine[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) mine[i] = totals[threadIdx.x * kEach + i];
    A sum = mine[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) sum = Op::join(sum, mine[i]);
    const A to_lane = join_to_lane<Op>(sum);
    A running = from_lane_before(to_lane, 1);
    if (threadIdx.x == 0) running = Op::template first<A>();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      totals[threadIdx.x * kEach + i] = running;
      running = Op::join(running, mine[i]);
    }
    return from_lane(to_lane, 31);
  }

  /// `carry` is the join of everything before the tile.
  template <class Op>
  __device__ __forceinline__ void store(T* out, std::int64_t left, bool whole, A carry,
                                        const A* totals) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const A base = Op::join(Op::join(carry, totals[p * kWarps + threadIdx.x / 32]), before[p]);
      Pack pack;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) pack.value[i] = convert<T>(Op::join(base, values[p][i]));
      if (whole) {
        store_pack(out + index(p), pack);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        if (index(p) + i < left) out[index(p) + i] = pack.value[i];
    }
  }
};

}  // namespace ember::inline v0::ops::cuda
