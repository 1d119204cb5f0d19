// Softmax of rows that do not fit into registers. They are read twice: first for the largest
// element and the sum of exponentials together, then for the result. A block has a row, or, where
// rows are few, a part of one: then a launch leaves what it found of each part in scratch memory,
// and each block of a second one brings together what there is of its row. All of this is in an
// order that depends on the sizes only.
#pragma once

#include <algorithm>

#include "ember/ops/cuda/softmax_rows.cuh"

namespace ember::inline v0::ops::cuda::softmax {

/// The largest number so far, and the sum of exp(x - largest).
template <class T>
struct Soft {
  T largest;
  T sum;

  __device__ __forceinline__ void merge(const Soft& other) {
    const T top = maximum(largest, other.largest);
    // Nothing but -inf adds nothing, and must not become NaN before it is certain that there is
    // nothing else.
    if (top == lowest<T>()) return;
    const T a = largest == top ? sum : sum * m::exp(largest - top);
    const T b = other.largest == top ? other.sum : other.sum * m::exp(other.largest - top);
    largest = top;
    sum = a + b;
  }
  template <int N>
  __device__ __forceinline__ void add(const T (&x)[N]) {
    T top = x[0];
#pragma unroll
    for (int i = 1; i < N; ++i) top = maximum(x[i], top);
    top = maximum(top, largest);
    if (top == lowest<T>()) return;
    T more = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) more += m::exp(x[i] - top);
    sum = (largest == top ? sum : sum * m::exp(largest - top)) + more;
    largest = top;
  }
  /// N packs.
  template <class In, int N, int V>
  __device__ __forceinline__ void add(const Pack<In, V> (&packs)[N]) {
    T x[N * V];
#pragma unroll
    for (int i = 0; i < N * V; ++i) x[i] = convert<T>(packs[i / V].value[i % V]);
    add(x);
  }
};

/// What a block of kMaxLanes threads finds of adjacent elements: each thread its own.
template <class T>
__device__ __forceinline__ Soft<Compute<T>> soft_of(const T* in, std::int64_t count) {
  using Value = Compute<T>;
  constexpr int V = kWidth<T>;
  using Packed = Pack<T, V>;
  Soft<Value> own{lowest<Value>(), Value(0)};
  const auto add_one = [&](const T* at) {
    const Value x[1] = {convert<Value>(*at)};
    own.add(x);
  };
  const int thread = static_cast<int>(threadIdx.x);
  const int to_aligned = before_aligned(in);
  const int head = to_aligned < count ? to_aligned : static_cast<int>(count);
  if (thread < head) add_one(in + thread);
  const auto* from = reinterpret_cast<const Packed*>(in + head);
  const std::int64_t packs = (count - head) / V;
  std::int64_t i = thread;
  for (; i + (kAtOnce - 1) * kMaxLanes < packs; i += kAtOnce * kMaxLanes) {
    Packed loaded[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) loaded[p] = from[i + p * kMaxLanes];
    own.add(loaded);
  }
#pragma unroll 1
  for (; i < packs; i += kMaxLanes) {
    const Packed loaded[1] = {from[i]};
    own.add(loaded);
  }
  const std::int64_t rest = head + packs * V + thread;
  if (rest < count) add_one(in + rest);
  return own;
}

/// What the threads of a block found, together: all of them get the same bits.
template <class Value>
__device__ __forceinline__ Soft<Value> combine_block(const Soft<Value>& own,
                                                     Value (&shared)[2][kMaxLanes / 32]) {
  const Value largest = combine_lanes(own.largest, shared[0], kMaxLanes,
                                      [](Value a, Value b) { return maximum(a, b); });
  // A thread that met nothing but -inf has the sum zero, and must keep it.
  const Value part = own.sum == 0 ? Value(0) : own.sum * m::exp(own.largest - largest);
  const Value sum =
      combine_lanes(part, shared[1], kMaxLanes, [](Value a, Value b) { return a + b; });
  return {largest, sum};
}

template <int V, class T, class F>
__device__ __forceinline__ void write_packs(const T* in, T* out, std::int64_t packs, const F& f) {
  using Packed = Pack<T, V>;
  const auto* from = reinterpret_cast<const Packed*>(in);
  auto* to = reinterpret_cast<Packed*>(out);
  const auto write = [&](std::int64_t at, const Packed& loaded) {
    Packed made;
#pragma unroll
    for (int v = 0; v < V; ++v) made.value[v] = f(loaded.value[v]);
    to[at] = made;
  };
  std::int64_t i = threadIdx.x;
  for (; i + (kAtOnce - 1) * kMaxLanes < packs; i += kAtOnce * kMaxLanes) {
    Packed loaded[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) loaded[p] = from[i + p * kMaxLanes];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) write(i + p * kMaxLanes, loaded[p]);
  }
#pragma unroll 1
  for (; i < packs; i += kMaxLanes) write(i, from[i]);
}

template <bool kLogarithm, class T>
__device__ __forceinline__ void write_results(const T* in, T* out, std::int64_t count,
                                              const Soft<Compute<T>>& all) {
  using Value = Compute<T>;
  constexpr int V = kWidth<T>;
  const Finish<kLogarithm, Value> finish(all.sum);
  const auto f = [&](T x) { return convert<T>(finish(convert<Value>(x) - all.largest)); };
  if (!aligned_alike(in, out)) return write_packs<1>(in, out, count, f);
  const int thread = static_cast<int>(threadIdx.x);
  const int to_aligned = before_aligned(in);
  const int head = to_aligned < count ? to_aligned : static_cast<int>(count);
  const std::int64_t packs = (count - head) / V;
  if (thread < head) out[thread] = f(in[thread]);
  write_packs<V>(in + head, out + head, packs, f);
  const std::int64_t rest = head + packs * V + thread;
  if (rest < count) out[rest] = f(in[rest]);
}

/// A block for each row of any length.
template <class T>
__global__ void __launch_bounds__(kMaxLanes, sizeof(T) == 8 ? 1 : 2)
    softmax_long_kernel(const T* in, T* out, std::int64_t count, bool logarithm) {
  using Value = Compute<T>;
  __shared__ Value shared[2][kMaxLanes / 32];
  in += blockIdx.x * count;
  out += blockIdx.x * count;
  const Soft<Value> all = combine_block(soft_of(in, count), shared);
  if (logarithm)
    write_results<true>(in, out, count, all);
  else
    write_results<false>(in, out, count, all);
}

/// How rows are cut. One part: they are not.
struct Parts {
  std::int64_t number = 1;
  std::int64_t each = 0;  ///< elements of all but the last one
};

/// Depends on the sizes only, and so do the results.
template <class T>
Parts parts_of(const SoftmaxArgs& args) {
  // Blocks that are several rounds on an H200, and evenly so; the bytes of a row that are worth
  // another block.
  constexpr std::int64_t kBlocks = 1056;
  constexpr std::int64_t kLeast = 32768;
  Parts parts;
  if (args.inner != 1 || args.count <= kLongest<T> || args.outer > kBlocks / 2) return parts;
  const std::int64_t most = args.count * static_cast<std::int64_t>(sizeof(T)) / kLeast;
  const std::int64_t wanted = std::clamp<std::int64_t>(most, 1, kBlocks / args.outer);
  // Whole packs, so that all parts of a row are aligned alike.
  parts.each = quotient_up(quotient_up(args.count, wanted), 64) * 64;
  parts.number = quotient_up(args.count, parts.each);
  return parts;
}

/// Blocks: by part, then by row.
template <class T>
__global__ void __launch_bounds__(kMaxLanes, sizeof(T) == 8 ? 1 : 2)
    softmax_part_kernel(const T* in, Soft<Compute<T>>* found, std::int64_t count,
                        std::int64_t each) {
  using Value = Compute<T>;
  __shared__ Value shared[2][kMaxLanes / 32];
  const std::int64_t begin = blockIdx.x * each;
  const std::int64_t length = count - begin < each ? count - begin : each;
  const Soft<Value> all = combine_block(soft_of(in + blockIdx.y * count + begin, length), shared);
  if (threadIdx.x == 0) found[blockIdx.y * gridDim.x + blockIdx.x] = all;
}

/// From the last block to the first: what was read last may still be in the cache.
template <class T>
__global__ void __launch_bounds__(kMaxLanes, sizeof(T) == 8 ? 1 : 2)
    softmax_finish_kernel(const T* in, T* out, const Soft<Compute<T>>* found, std::int64_t count,
                          std::int64_t each, bool logarithm) {
  using Value = Compute<T>;
  __shared__ Value shared[2][kMaxLanes / 32];
  const unsigned part = gridDim.x - 1 - blockIdx.x;
  const unsigned row = gridDim.y - 1 - blockIdx.y;
  Soft<Value> own{lowest<Value>(), Value(0)};
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kMaxLanes)
    own.merge(found[row * gridDim.x + i]);
  const Soft<Value> all = combine_block(own, shared);
  const std::int64_t begin = part * each;
  const std::int64_t length = count - begin < each ? count - begin : each;
  in += row * count + begin;
  out += row * count + begin;
  if (logarithm)
    write_results<true>(in, out, length, all);
  else
    write_results<false>(in, out, length, all);
}

template <class T>
Status start_long(const SoftmaxArgs& args, const driver::CudaLaunch& on) {
  const auto* in = static_cast<const T*>(args.in);
  auto* out = static_cast<T*>(args.out);
  const Parts parts = parts_of<T>(args);
  if (parts.number == 1)
    return start<&softmax_long_kernel<T>>(on, Grid{static_cast<unsigned>(args.outer), kMaxLanes},
                                          in, out, args.count, args.logarithm);
  auto* found = static_cast<Soft<Compute<T>>*>(args.scratch);
  const Grid grid{dim3(static_cast<unsigned>(parts.number), static_cast<unsigned>(args.outer)),
                  kMaxLanes};
  EMBER_TRY(start<&softmax_part_kernel<T>>(on, grid, in, found, args.count, parts.each));
  return start<&softmax_finish_kernel<T>>(on, grid, in, out,
                                          static_cast<const Soft<Compute<T>>*>(found), args.count,
                                          parts.each, args.logarithm);
}

}  // namespace ember::inline v0::ops::cuda::softmax
