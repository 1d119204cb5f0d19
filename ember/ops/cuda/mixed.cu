// The CUDA implementation of kernels of mixed dtypes (mixed_kernel): element by element, each input
// read as what it is and converted.
#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/elementwise.cuh"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

/// An input: elements of a dtype, or one value for all.
struct MixedSource {
  const void* data;
  float value;
  Dtype stored;
};
EMBER_ARGUMENTS(MixedSource, EMBER_FIELD(data), EMBER_FIELD(value), EMBER_FIELD(stored))

MixedSource mixed_source(const Loop& loop, int operand) {
  if (loop.number[operand] >= 0) return {nullptr, loop.number_as<float>(operand), Dtype::float32};
  return {loop.data[operand], 0, loop.stored[operand]};
}

std::size_t bytes_of(Dtype dtype) {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return sizeof(type);
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  return 0;
}

constexpr int kEach = 4;

template <class T>
__device__ __forceinline__ void read_as(float (&values)[kEach], const void* data,
                                        const std::int32_t (&offsets)[kEach]) {
  T loaded[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) loaded[e] = static_cast<const T*>(data)[offsets[e]];
#pragma unroll
  for (int e = 0; e < kEach; ++e) values[e] = convert<float>(loaded[e]);
}

/// What a thread reads of an input. The dtype is the same in all threads, and is asked for once.
struct MixedReader {
  __device__ __forceinline__ MixedReader(const MixedSource& in,
                                         const std::int32_t (&offsets)[kEach]) {
    if (in.data == nullptr) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) values[e] = in.value;
      return;
    }
    switch (in.stored) {
#define EMBER_DTYPE(enumerator, type, name, legacy)                           \
  case Dtype::enumerator:                                                     \
    if constexpr (!is_complex<type>) read_as<type>(values, in.data, offsets); \
    break;
      EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
    }
  }

  float values[kEach];
};

template <class F, class... Sources>
__global__ void __launch_bounds__(kThreads)
    mixed_kernel(typename F::Output* out, std::uint32_t count, Offsets<F::kInputs + 1> where,
                 Sources... in) {
  const std::uint32_t first = blockIdx.x * (kThreads * kEach) + threadIdx.x;
  std::int32_t offsets[F::kInputs + 1][kEach];
  where.find(first, kThreads, count, offsets);
  [&]<int... k>(std::integer_sequence<int, k...>) {
    [&](const auto&... readers) {
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if (first + e * kThreads < count) out[offsets[0][e]] = F::call(readers.values[e]...);
    }(MixedReader(in, offsets[k + 1])...);
  }
  (std::make_integer_sequence<int, F::kInputs>());
}

template <class F, int... k>
Status launch_mixed(const Loop& loop, const CudaLaunch& on,
                    std::integer_sequence<int, k...> inputs) {
  // A flat loop may be longer than 32 bits count.
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (loop.flat() && loop.count > kMost) {
    Loop part = loop;
    for (std::int64_t done = 0; done < loop.count; done += part.count) {
      part.count = std::min(kMost, loop.count - done);
      const auto advance = [&](int operand, std::size_t item) {
        if (loop.number[operand] < 0 && loop.stride[operand][0] != 0)
          part.data[operand] = static_cast<std::byte*>(loop.data[operand]) + done * item;
      };
      advance(0, sizeof(typename F::Output));
      (advance(k + 1, bytes_of(loop.stored[k + 1])), ...);
      EMBER_TRY(launch_mixed<F>(part, on, inputs));
    }
    return {};
  }
  const auto count = static_cast<std::uint32_t>(loop.count);
  const Grid grid{blocks_for(loop.count, kThreads * kEach), kThreads};
  return start<&mixed_kernel<F, decltype(mixed_source(loop, k))...>>(
      on, grid, static_cast<typename F::Output*>(loop.data[0]), count,
      Offsets<F::kInputs + 1>(loop), mixed_source(loop, k + 1)...);
}

template <class F>
Status mixed_implementation(const driver::Params& params, const CudaLaunch& on) {
  return launch_mixed<F>(params.as<Loop>(), on, std::make_integer_sequence<int, F::kInputs>());
}

template <class Op>
constexpr driver::CudaImplementation mixed_implementation_of() {
  if constexpr (contains(Op::info.dtypes, Dtype::float32))
    return &mixed_implementation<Apply<Op, float>>;
  else
    return nullptr;
}

#define EMBER_UNARY(name, ...) {#name ".mixed", mixed_implementation_of<elementwise::name>()},
#define EMBER_BINARY EMBER_UNARY
#define EMBER_TERNARY EMBER_UNARY
constexpr NamedImplementation implementations[] = {
#include "ember/scalar/elementwise.inc"
    EMBER_UNARY(scaled_addcmul) EMBER_UNARY(scaled_addcdiv)};
#undef EMBER_UNARY
#undef EMBER_BINARY
#undef EMBER_TERNARY
const Implementations table(implementations, driver::arguments<Loop>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
