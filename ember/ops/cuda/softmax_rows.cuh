// Softmax of rows that fit into the registers of a block or less. They are read once:
//
//   registers  straight from memory, 16 bytes at a time where all rows are aligned. A thread has
//              parts of several short rows, so that it has as many loads in flight as with a long
//              one
//   staged     short rows that are not aligned: many adjacent ones come through shared memory,
//              where their alignment does not matter
#pragma once

#include "ember/ops/cuda/softmax.cuh"

namespace ember::inline v0::ops::cuda::softmax {

constexpr int kRowThreads = 256;  ///< of a block, unless a row takes more

/// Packs per thread: 16 bytes each, or one element.
template <class T, int V>
constexpr int kPacks = V == 1           ? 16
                       : sizeof(T) == 2 ? 4
                                        : 8;

/// The longest row that is kept in registers if it is aligned.
template <class T>
constexpr std::int64_t kLongest = std::int64_t{kMaxLanes} * kPacks<T, kWidth<T>>* kWidth<T>;

/// Of R rows each of `lanes` threads has N elements; what is missing at their ends is -inf, which
/// changes nothing. More than 32 lanes, which need `shared`, are `kBlock`.
template <bool kBlock, int R, int N, class Value>
__device__ __forceinline__ void softmax_values(Value (&x)[R][N], int lanes, bool logarithm,
                                               Value (*shared)[kMaxLanes / 32]) {
  const auto larger = [](Value a, Value b) { return maximum(a, b); };
  const auto add = [](Value a, Value b) { return a + b; };
  Value largest[R];
  Value sum[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    largest[r] = x[r][0];
#pragma unroll
    for (int i = 1; i < N; ++i) largest[r] = maximum(x[r][i], largest[r]);
  }
  if constexpr (kBlock)
    largest[0] = combine_lanes(largest[0], shared[0], lanes, larger);
  else
    combine_warp(largest, lanes, larger);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    sum[r] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Value distance = x[r][i] - largest[r];
      const Value power = m::exp(distance);
      sum[r] += power;
      x[r][i] = logarithm ? distance : power;
    }
  }
  if constexpr (kBlock)
    sum[0] = combine_lanes(sum[0], shared[1], lanes, add);
  else
    combine_warp(sum, lanes, add);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (logarithm) {
      const Finish<true, Value> finish(sum[r]);
#pragma unroll
      for (int i = 0; i < N; ++i) x[r][i] = finish(x[r][i]);
    } else {
      const Finish<false, Value> finish(sum[r]);
#pragma unroll
      for (int i = 0; i < N; ++i) x[r][i] = finish.of_power(x[r][i]);
    }
  }
}

/// blockDim.x lanes for each row, R * blockDim.y rows. Of each row a lane has P packs of V
/// elements.
template <class T, int V, int P, int R>
__global__ void __launch_bounds__(R == 1 ? kMaxLanes : kRowThreads,
                                  (sizeof(T) == 8 ? 1 : 2) * (R == 1 ? 1 : 2))
    softmax_rows_kernel(const T* in, T* out, std::int64_t rows, int packs, bool logarithm) {
  using Value = Compute<T>;
  using Packed = Pack<T, V>;
  __shared__ Value shared[2][kMaxLanes / 32];
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  // Neighbours have neighbouring rows, so that a warp reads adjacent ones.
  const std::int64_t first = std::int64_t{blockIdx.x} * (R * blockDim.y) + threadIdx.y;
  const std::int64_t step = std::int64_t{blockDim.y} * packs;
  const auto* from = reinterpret_cast<const Packed*>(in) + first * packs + lane;
  auto* to = reinterpret_cast<Packed*>(out) + first * packs + lane;
  Packed none;
#pragma unroll
  for (int v = 0; v < V; ++v) none.value[v] = convert<T>(lowest<Value>());
  Packed loaded[R][P];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int p = 0; p < P; ++p) {
      loaded[r][p] = none;
      if (first + r * blockDim.y < rows && lane + p * lanes < packs)
        loaded[r][p] = from[r * step + p * lanes];
    }
  Value x[R][P * V];
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int i = 0; i < P * V; ++i) x[r][i] = convert<Value>(loaded[r][i / V].value[i % V]);
  softmax_values<R == 1>(x, lanes, logarithm, shared);
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + r * blockDim.y >= rows || lane + p * lanes >= packs) continue;
      Packed made;
#pragma unroll
      for (int v = 0; v < V; ++v) made.value[v] = convert<T>(x[r][p * V + v]);
      to[r * step + p * lanes] = made;
    }
}

/// Rows that a group of lanes works on, one after the other, in the staged kernel.
template <class T, int P>
constexpr int kRounds = 64 / (P * static_cast<int>(sizeof(T)));

/// blockDim.x lanes (a power of two, at most 32) for each row of at most P * lanes elements; as
/// many adjacent rows for a block as fit into 16 KiB in any case.
template <class T, int P>
__global__ void __launch_bounds__(kRowThreads)
    softmax_staged_kernel(const T* in, T* out, std::int64_t rows, int count, bool logarithm) {
  using Value = Compute<T>;
  constexpr int V = kWidth<T>;
  constexpr int kTile = kRowThreads * P * kRounds<T, P>;
  constexpr int kLoads = kTile / V / kRowThreads;
  using Packed = Pack<T, V>;
  alignas(16) __shared__ T tile[kTile + V];
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  const int groups = static_cast<int>(blockDim.y);
  const int thread = static_cast<int>(threadIdx.y) * lanes + lane;
  const std::int64_t first = std::int64_t{blockIdx.x} * (kRounds<T, P> * groups);
  const std::int64_t left = rows - first;
  const int here = left < kRounds<T, P> * groups ? static_cast<int>(left) : kRounds<T, P> * groups;
  const int elements = here * count;
  const T* from = in + first * count;
  T* to = out + first * count;
  // The tile lies as far from an aligned address as the input.
  const int to_aligned = before_aligned(from);
  T* const own = tile + (V - to_aligned) % V;
  const int head = to_aligned < elements ? to_aligned : elements;
  const int packs = (elements - head) / V;
  const int rest = head + packs * V + thread;  // where this thread's element of the end is
  if (thread < head) own[thread] = from[thread];
  if (rest < elements) own[rest] = from[rest];
  const auto* pack_from = reinterpret_cast<const Packed*>(from + head) + thread;
  auto* pack_own = reinterpret_cast<Packed*>(own + head) + thread;
  Packed loaded[kLoads];
#pragma unroll
  for (int p = 0; p < kLoads; ++p)
    if (thread + p * kRowThreads < packs) loaded[p] = pack_from[p * kRowThreads];
#pragma unroll
  for (int p = 0; p < kLoads; ++p)
    if (thread + p * kRowThreads < packs) pack_own[p * kRowThreads] = loaded[p];
  __syncthreads();
#pragma unroll 1
  for (int begin = 0; begin < here; begin += groups) {
    const int row = begin + static_cast<int>(threadIdx.y);
    const int length = row < here ? count : 0;
    T* const data = own + row * count;
    Value x[1][P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      x[0][p] = lowest<Value>();
      if (lane + p * lanes < length) x[0][p] = convert<Value>(data[lane + p * lanes]);
    }
    softmax_values<false, 1, P, Value>(x, lanes, logarithm, nullptr);
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (lane + p * lanes < length) data[lane + p * lanes] = convert<T>(x[0][p]);
  }
  __syncthreads();
  if (!aligned_alike(from, to)) {
#pragma unroll 4
    for (int i = thread; i < elements; i += kRowThreads) to[i] = own[i];
    return;
  }
  if (thread < head) to[thread] = own[thread];
  if (rest < elements) to[rest] = own[rest];
  auto* pack_to = reinterpret_cast<Packed*>(to + head) + thread;
#pragma unroll
  for (int p = 0; p < kLoads; ++p)
    if (thread + p * kRowThreads < packs) pack_to[p * kRowThreads] = pack_own[p * kRowThreads];
}

template <class T, int V, int P, int R>
Status start_rows_of(const SoftmaxArgs& args, int lanes, const driver::CudaLaunch& on) {
  const int groups = lanes < kRowThreads ? kRowThreads / lanes : 1;
  const Grid grid{static_cast<unsigned>(quotient_up(args.outer, std::int64_t{R} * groups)),
                  dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(groups))};
  return start<&softmax_rows_kernel<T, V, P, R>>(on, grid, static_cast<const T*>(args.in),
                                                 static_cast<T*>(args.out), args.outer,
                                                 static_cast<int>(args.count / V), args.logarithm);
}

template <class T, int P>
Status start_staged(const SoftmaxArgs& args, const driver::CudaLaunch& on) {
  const unsigned lanes = power_of_two(quotient_up(args.count, P), 32);
  const unsigned groups = kRowThreads / lanes;
  const Grid grid{
      static_cast<unsigned>(quotient_up(args.outer, std::int64_t{kRounds<T, P>} * groups)),
      dim3(lanes, groups)};
  return start<&softmax_staged_kernel<T, P>>(on, grid, static_cast<const T*>(args.in),
                                             static_cast<T*>(args.out), args.outer,
                                             static_cast<int>(args.count), args.logarithm);
}

/// Lanes that a row of so many packs takes, each lane `each` of them.
inline int lanes_for(std::int64_t packs, int each, unsigned least) {
  const std::int64_t needed = quotient_up(packs, each);
  if (needed > 32) return static_cast<int>(quotient_up(needed, 32) * 32);
  const unsigned lanes = power_of_two(needed, 32);
  return static_cast<int>(lanes < least ? least : lanes);
}

/// `started` says whether the rows were short enough.
template <class T>
Status start_rows(const SoftmaxArgs& args, const driver::CudaLaunch& on, bool& started) {
  constexpr int V = kWidth<T>;
  constexpr int kMost = kPacks<T, V>;
  started = true;
  if (args.count % V == 0 && both_aligned(args.in, args.out)) {
    // Eight lanes read 128 adjacent bytes at once; more of them only have more to exchange.
    const std::int64_t packs = args.count / V;
    if (packs <= 8) return start_rows_of<T, V, 1, kMost>(args, lanes_for(packs, 1, 1), on);
    if (packs <= 16) return start_rows_of<T, V, 2, kMost / 2>(args, 8, on);
    if constexpr (kMost > 4)
      if (packs <= 32) return start_rows_of<T, V, 4, kMost / 4>(args, 8, on);
    if (packs <= std::int64_t{kMost} * kMaxLanes)
      return start_rows_of<T, V, kMost, 1>(args, lanes_for(packs, kMost, 8), on);
  } else {
    if (args.count <= 4) return start_staged<T, 4>(args, on);
    if (args.count <= 256) return start_staged<T, 8>(args, on);
    constexpr int kElements = kPacks<T, 1>;
    if (args.count <= std::int64_t{kElements} * kMaxLanes)
      return start_rows_of<T, 1, kElements, 1>(args, lanes_for(args.count, kElements, 32), on);
  }
  started = false;
  return {};
}

}  // namespace ember::inline v0::ops::cuda::softmax
