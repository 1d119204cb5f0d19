// The CUDA implementation of softmax: of rows, short (softmax_rows.cuh) and long
// (softmax_long.cuh), and of columns, which are read twice as long rows are.
#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/softmax_long.cuh"
#include "ember/ops/cuda/softmax_rows.cuh"

namespace ember::inline v0::ops::cuda::softmax {
namespace {

template <class T>
__device__ __forceinline__ T result(T x, const Soft<T>& all, T log_sum, bool logarithm) {
  return logarithm ? (x - all.largest) - log_sum : m::exp(x - all.largest) / all.sum;
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
    out[k] = convert<T>(result(convert<Value>(in[k]), all, log_sum, logarithm));
  }
}

template <class T>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  const auto& args = params.as<SoftmaxArgs>();
  const Parts parts = parts_of<T>(args);
  if (parts.number > 1)
    out.scratch = static_cast<std::size_t>(parts.number * args.outer) * sizeof(Soft<Compute<T>>);
  return {};
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
  bool started = false;
  EMBER_TRY(start_rows<T>(args, on, started));
  return started ? Status() : start_long<T>(args, on);
}

template <class T>
constexpr driver::CudaImplementation with_needs{&implementation<T>, &needs<T>};

constexpr driver::cuda::NamedImplementation implementations[] = {
    {"softmax.float16", with_needs<Half>},
    {"softmax.bfloat16", with_needs<BFloat16>},
    {"softmax.float32", with_needs<float>},
    {"softmax.float64", with_needs<double>},
};
const driver::cuda::Implementations table(implementations, driver::arguments<SoftmaxArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda::softmax
