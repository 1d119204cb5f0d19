// Products of two vectors: sums over many blocks, which libraries make of one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/driver/gemm.h"
#include "ember/linalg/cuda/number.cuh"

namespace ember::inline v0::linalg::cuda {

constexpr int kDotThreads = 256;

/// Whether a product is a number: op(A) is a row, op(B) a column.
inline bool is_dot(const driver::GemmArgs& args) {
  return args.batch == 1 && args.m == 1 && args.n == 1;
}
/// Into how many blocks it is divided: by the length only. (The order of additions depends on the
/// alignment as well.)
inline std::int64_t dot_blocks(const driver::GemmArgs& args) {
  return std::clamp<std::int64_t>(args.k / 8192, 1, 1024);
}
template <class T>
std::size_t dot_scratch(const driver::GemmArgs& args) {
  const std::int64_t blocks = dot_blocks(args);
  return blocks == 1 ? 0 : static_cast<std::size_t>(blocks) * sizeof(typename SumOf<T>::type);
}

/// The sum of what all threads have, in the first one.
template <class Number>
__device__ Number sum_of_block(Number mine) {
  __shared__ Number all[kDotThreads];
  const int at = static_cast<int>(threadIdx.x);
  all[at] = mine;
  for (int half = kDotThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (at < half) all[at] = all[at] + all[at + half];
  }
  return all[0];
}

/// Each block's part of the sum into `partial`, or the result if there is one block. `kPacked`: the
/// elements of both are adjacent, and aligned to packs.
template <class T, bool kPacked>
__global__ void __launch_bounds__(kDotThreads)
    dot_kernel(const __grid_constant__ driver::GemmArgs args, std::int64_t step_a,
               std::int64_t step_b, typename SumOf<T>::type* partial) {
  using Number = typename SumOf<T>::type;
  constexpr int V = kPacked ? 16 / sizeof(T) : 1;
  using Pack = driver::cuda::Pack<T, V>;
  constexpr int kInFlight = 4;
  const auto* a = static_cast<const T*>(args.a);
  const auto* b = static_cast<const T*>(args.b);
  const std::int64_t step = std::int64_t{gridDim.x} * kDotThreads;
  const std::int64_t packs = args.k / V;
  std::int64_t at = std::int64_t{blockIdx.x} * kDotThreads + threadIdx.x;
  Number sums[kInFlight];
#pragma unroll
  for (int p = 0; p < kInFlight; ++p) sums[p] = Number(0);
  const auto add = [](Number& sum, const T& x, const T& y) {
    sum = sum + convert<Number>(x) * convert<Number>(y);
  };
  const auto add_from = [&](auto count) {
    constexpr int kCount = decltype(count)::value;
    if constexpr (kPacked) {
      Pack x[kCount];
      Pack y[kCount];
#pragma unroll
      for (int p = 0; p < kCount; ++p) {
        x[p] = reinterpret_cast<const Pack*>(a)[at + p * step];
        y[p] = reinterpret_cast<const Pack*>(b)[at + p * step];
      }
#pragma unroll
      for (int p = 0; p < kCount; ++p)
#pragma unroll
        for (int v = 0; v < V; ++v) add(sums[p], x[p].value[v], y[p].value[v]);
    } else {
      T x[kCount];
      T y[kCount];
#pragma unroll
      for (int p = 0; p < kCount; ++p) {
        x[p] = a[(at + p * step) * step_a];
        y[p] = b[(at + p * step) * step_b];
      }
#pragma unroll
      for (int p = 0; p < kCount; ++p) add(sums[p], x[p], y[p]);
    }
  };
  for (; at + (kInFlight - 1) * step < packs; at += kInFlight * step)
    add_from(std::integral_constant<int, kInFlight>());
  for (; at < packs; at += step) add_from(std::integral_constant<int, 1>());
  // What is left is less than a pack.
  const std::int64_t last = packs * V + threadIdx.x;
  if (blockIdx.x == 0 && last < args.k) add(sums[0], a[last * step_a], b[last * step_b]);
  const Number sum = sum_of_block((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x != 0) return;
  if (gridDim.x > 1)
    partial[blockIdx.x] = sum;
  else
    write_product(args, *static_cast<T*>(args.c), sum);
}

template <class T>
__global__ void __launch_bounds__(kDotThreads)
    dot_finish_kernel(const __grid_constant__ driver::GemmArgs args,
                      const typename SumOf<T>::type* partial, int parts) {
  using Number = typename SumOf<T>::type;
  Number sum(0);
  for (int part = static_cast<int>(threadIdx.x); part < parts; part += kDotThreads)
    sum = sum + partial[part];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) write_product(args, *static_cast<T*>(args.c), sum);
}

/// A product for which is_dot() holds, with the scratch memory that dot_scratch() says or, slowly,
/// with less.
template <class T>
Status dot(const driver::GemmArgs& args, const driver::CudaLaunch& on) {
  using Number = typename SumOf<T>::type;
  auto* const partial = static_cast<Number*>(args.workspace);
  const std::size_t wanted = dot_scratch<T>(args);
  const bool divided = wanted > 0 && partial != nullptr && args.workspace_bytes >= wanted;
  const std::int64_t blocks = divided ? dot_blocks(args) : 1;
  const std::int64_t step_a = args.transpose_a ? 1 : args.lda;
  const std::int64_t step_b = args.transpose_b ? args.ldb : 1;
  using driver::cuda::is_aligned;
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks), kDotThreads};
  if (step_a == 1 && step_b == 1 && is_aligned(args.a) && is_aligned(args.b)) {
    EMBER_TRY((driver::cuda::start<&dot_kernel<T, true>>(on, grid, args, step_a, step_b, partial)));
  } else {
    EMBER_TRY(
        (driver::cuda::start<&dot_kernel<T, false>>(on, grid, args, step_a, step_b, partial)));
  }
  if (!divided) return {};
  return driver::cuda::start<&dot_finish_kernel<T>>(on, driver::cuda::Grid{1, kDotThreads}, args,
                                                    static_cast<const Number*>(partial),
                                                    static_cast<int>(blocks));
}

}  // namespace ember::inline v0::linalg::cuda
