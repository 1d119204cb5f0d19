// The CUDA implementation of softmax. Rows that fit into the registers of a block are read once;
// longer ones and columns are read twice: first for the largest element and the sum of exponentials
// together, then for the result.
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/softmax_args.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::cuda::Grid;
using driver::cuda::start;

/// Per thread, of a row in registers.
template <class T>
constexpr int kPacks = sizeof(T) == 2 ? 4 : 8;
constexpr int kMaxLanes = 512;  ///< threads that share a row
constexpr int kAtOnce = 4;      ///< loads in flight where rows do not fit

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

template <class T>
__device__ __forceinline__ T lowest() {
  return -static_cast<T>(HUGE_VAL);
}

/// The largest number so far, and the sum of exp(x - largest).
template <class T>
struct Soft {
  T largest;
  T sum;

  __device__ __forceinline__ void merge(const Soft& other) {
    const T top = m::maximum(largest, other.largest);
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
    for (int i = 1; i < N; ++i) top = m::maximum(x[i], top);
    if (top == lowest<T>()) return;
    Soft other{top, T(0)};
#pragma unroll
    for (int i = 0; i < N; ++i) other.sum += m::exp(x[i] - top);
    merge(other);
  }
};

template <class T>
__device__ __forceinline__ T result(T x, T largest, T sum, T log_sum, bool logarithm) {
  return logarithm ? (x - largest) - log_sum : m::exp(x - largest) / sum;
}

/// What `lanes` neighbouring threads have, combined: all of them get the same bits. Combining must
/// not depend on the order of its two arguments.
template <class T, class Combine>
__device__ __forceinline__ T combine_lanes(T value, T* shared, int lanes, const Combine& combine) {
  for (int offset = (lanes < 32 ? lanes : 32) / 2; offset > 0; offset /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, offset));
  if (lanes <= 32) return value;
  const int warps = lanes / 32;
  T* own = shared + static_cast<int>(threadIdx.y) * warps;
  if (threadIdx.x % 32 == 0) own[threadIdx.x / 32] = value;
  __syncthreads();
  value = own[0];
  for (int w = 1; w < warps; ++w) value = combine(value, own[w]);
  return value;
}

/// blockDim.x lanes for each row, blockDim.y rows.
template <class T, int V>
__global__ void __launch_bounds__(kMaxLanes, sizeof(T) == 8 ? 1 : 2)
    softmax_rows_kernel(const T* in, T* out, std::int64_t rows, int packs, bool logarithm) {
  using Value = Compute<T>;
  using Packed = Pack<T, V>;
  constexpr bool kKeep = std::is_same_v<T, Value>;
  __shared__ Value shared[2][kMaxLanes / 32];
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const auto* from = reinterpret_cast<const Packed*>(in) + row * packs;
  auto* to = reinterpret_cast<Packed*>(out) + row * packs;
  const int mine = row < rows ? packs : 0;
  Packed x[kPacks<T>];
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p)
    if (lane + p * lanes < mine) x[p] = from[lane + p * lanes];
  Value largest = lowest<Value>();
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p)
    if (lane + p * lanes < mine)
#pragma unroll
      for (int v = 0; v < V; ++v) largest = m::maximum(convert<Value>(x[p].value[v]), largest);
  largest =
      combine_lanes(largest, shared[0], lanes, [](Value a, Value b) { return m::maximum(a, b); });
  Value sum = 0;
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p)
    if (lane + p * lanes < mine)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Value power = m::exp(convert<Value>(x[p].value[v]) - largest);
        sum += power;
        if constexpr (kKeep)
          if (!logarithm) x[p].value[v] = power;
      }
  sum = combine_lanes(sum, shared[1], lanes, [](Value a, Value b) { return a + b; });
  const Value log_sum = logarithm ? m::log(sum) : Value(0);
#pragma unroll
  for (int p = 0; p < kPacks<T>; ++p)
    if (lane + p * lanes < mine) {
      Packed made;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const auto value = convert<Value>(x[p].value[v]);
        if (kKeep && !logarithm)
          made.value[v] = convert<T>(value / sum);
        else
          made.value[v] = convert<T>(result(value, largest, sum, log_sum, logarithm));
      }
      to[lane + p * lanes] = made;
    }
}

/// A block for each row of any length.
template <class T, int V>
__global__ void __launch_bounds__(kMaxLanes)
    softmax_long_kernel(const T* in, T* out, std::int64_t packs, bool logarithm) {
  using Value = Compute<T>;
  using Packed = Pack<T, V>;
  __shared__ Value shared[2][kMaxLanes / 32];
  const auto* from = reinterpret_cast<const Packed*>(in) + blockIdx.x * packs;
  auto* to = reinterpret_cast<Packed*>(out) + blockIdx.x * packs;
  Soft<Value> own{lowest<Value>(), Value(0)};
  std::int64_t i = threadIdx.x;
  const auto add = [&](const Packed& loaded) {
    Value values[V];
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] = convert<Value>(loaded.value[v]);
    own.add(values);
  };
  for (; i + (kAtOnce - 1) * kMaxLanes < packs; i += kAtOnce * kMaxLanes) {
    Packed loaded[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) loaded[p] = from[i + p * kMaxLanes];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) add(loaded[p]);
  }
  for (; i < packs; i += kMaxLanes) add(from[i]);
  const Value largest = combine_lanes(own.largest, shared[0], kMaxLanes,
                                      [](Value a, Value b) { return m::maximum(a, b); });
  // A thread that met nothing but -inf has the sum zero, and must keep it.
  const Value part = own.sum == 0 ? Value(0) : own.sum * m::exp(own.largest - largest);
  const Value sum =
      combine_lanes(part, shared[1], kMaxLanes, [](Value a, Value b) { return a + b; });
  const Value log_sum = m::log(sum);
  for (i = threadIdx.x; i < packs; i += kMaxLanes) {
    const Packed loaded = from[i];
    Packed made;
#pragma unroll
    for (int v = 0; v < V; ++v)
      made.value[v] =
          convert<T>(result(convert<Value>(loaded.value[v]), largest, sum, log_sum, logarithm));
    to[i] = made;
  }
}

/// threadIdx.x goes along the inner elements, threadIdx.y (a power of two) along the dimension.
template <class T>
__global__ void __launch_bounds__(256)
    softmax_columns_kernel(const T* in, T* out, std::int64_t columns, std::int64_t count,
                           std::int64_t inner, bool logarithm) {
  using Value = Compute<T>;
  __shared__ Soft<Value> shared[256];
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const bool valid = column < columns;
  const std::int64_t start_at = valid ? column / inner * inner * count + column % inner : 0;
  const std::int64_t last = valid ? count : 0;
  const std::int64_t step = blockDim.y;
  Soft<Value> own{lowest<Value>(), Value(0)};
  std::int64_t i = threadIdx.y;
  for (; i + (kAtOnce - 1) * step < last; i += kAtOnce * step) {
    Value x[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) x[p] = convert<Value>(in[start_at + (i + p * step) * inner]);
    own.add(x);
  }
  for (; i < last; i += step) {
    const Value x[1] = {convert<Value>(in[start_at + i * inner])};
    own.add(x);
  }
  const int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  shared[at] = own;
  __syncthreads();
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) shared[at].merge(shared[at + half * blockDim.x]);
    __syncthreads();
  }
  const Soft<Value> all = shared[threadIdx.x];
  const Value log_sum = m::log(all.sum);
  for (i = threadIdx.y; i < last; i += step) {
    const std::int64_t k = start_at + i * inner;
    out[k] = convert<T>(result(convert<Value>(in[k]), all.largest, all.sum, log_sum, logarithm));
  }
}

unsigned power_of_two(std::int64_t number, unsigned most) {
  unsigned power = 1;
  while (power < number && power < most) power *= 2;
  return power;
}

template <class T, int V>
Status start_rows(const SoftmaxArgs& args, const driver::CudaLaunch& on) {
  const auto* in = static_cast<const T*>(args.in);
  auto* out = static_cast<T*>(args.out);
  const std::int64_t packs = args.count / V;
  if (packs > kMaxLanes * kPacks<T>)
    return start<&softmax_long_kernel<T, V>>(on, Grid{static_cast<unsigned>(args.outer), kMaxLanes},
                                             in, out, packs, args.logarithm);
  unsigned lanes = power_of_two(packs, 32);
  while (packs > std::int64_t{lanes} * kPacks<T>) lanes *= 2;
  const unsigned rows = lanes < 256 ? 256 / lanes : 1;
  const Grid grid{static_cast<unsigned>((args.outer + rows - 1) / rows), dim3(lanes, rows)};
  return start<&softmax_rows_kernel<T, V>>(on, grid, in, out, args.outer, static_cast<int>(packs),
                                           args.logarithm);
}

template <class T>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<SoftmaxArgs>();
  if (args.inner > 1) {
    const std::int64_t columns = args.outer * args.inner;
    const unsigned y = power_of_two((args.count + 15) / 16, 8);
    const unsigned x = 256 / y;
    const Grid grid{static_cast<unsigned>((columns + x - 1) / x), dim3(x, y)};
    return start<&softmax_columns_kernel<T>>(on, grid, static_cast<const T*>(args.in),
                                             static_cast<T*>(args.out), columns, args.count,
                                             args.inner, args.logarithm);
  }
  constexpr int V = 16 / sizeof(T);
  const auto aligned = [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  };
  if (args.count % V == 0 && aligned(args.in) && aligned(args.out))
    return start_rows<T, V>(args, on);
  return start_rows<T, 1>(args, on);
}

constexpr driver::cuda::NamedImplementation implementations[] = {
    {"softmax.float16", &implementation<Half>},
    {"softmax.bfloat16", &implementation<BFloat16>},
    {"softmax.float32", &implementation<float>},
    {"softmax.float64", &implementation<double>},
};
const driver::cuda::Implementations table(implementations, driver::arguments<SoftmaxArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
