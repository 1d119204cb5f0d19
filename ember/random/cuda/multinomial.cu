#undef NDEBUG  // what is asserted here is how a kernel refuses its data
#include <cassert>

#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/random/multinomial_args.h"

namespace ember::inline v0::random::cuda {
namespace {

using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kThreads = 256;

/// Blocks along a row, and rows.
driver::cuda::Grid grid_for(std::int64_t length, std::int64_t rows) {
  const std::int64_t blocks = (length + kThreads - 1) / kThreads;
  return {{static_cast<unsigned>(blocks < 16384 ? blocks : 16384),
           static_cast<unsigned>(rows < 65535 ? rows : 65535)},
          kThreads};
}

template <class T>
__global__ void __launch_bounds__(kThreads) parts_kernel(PartsArgs args, double whole) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* weights = static_cast<const T*>(args.weights) + row * args.count;
    const auto largest = static_cast<double>(static_cast<const T*>(args.largest)[row]);
    std::int64_t* parts = args.parts + row * args.count;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.count;
         i += step) {
      const auto weight = static_cast<double>(weights[i]);
      const bool no_probability_is_inf_nan_or_negative = is_weight(weight);
      assert(no_probability_is_inf_nan_or_negative);
      const bool sum_of_probabilities_is_positive = largest > 0;
      assert(sum_of_probabilities_is_positive);
      parts[i] = parts_of(weight, largest, whole);
    }
  }
}

__global__ void __launch_bounds__(kThreads) search_kernel(SearchArgs args) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const std::int64_t* sums = args.sums + row * args.count;
    std::int64_t* drawn = args.drawn + row * args.samples;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.samples;
         i += step)
      drawn[i] = category_of(sums, args.count, drawn[i]);
  }
}

template <class T>
Status parts(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<PartsArgs>();
  const auto whole = static_cast<double>(std::int64_t{1} << args.shift);
  return driver::cuda::start<&parts_kernel<T>>(on, grid_for(args.count, args.rows), args, whole);
}

Status search(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<SearchArgs>();
  return driver::cuda::start<&search_kernel>(on, grid_for(args.samples, args.rows), args);
}

constexpr NamedImplementation implementations[] = {
    {"multinomial.float32", &parts<float>},
    {"multinomial.float64", &parts<double>},
    {"multinomial_search", &search},
};
const Implementations table(implementations, driver::arguments<PartsArgs, SearchArgs>());

}  // namespace
}  // namespace ember::inline v0::random::cuda
