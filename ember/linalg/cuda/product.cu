// The CUDA implementation of matrix products. Small ones are done by one launch and nothing else:
// what a library does on the host before it launches costs more than such a product. The others are
// cuBLASLt's.
#include "ember/driver/cuda/blas.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/gemm.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::linalg::cuda {
namespace {

using driver::GemmArgs;
using driver::cuda::Element;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kTile = 32;  // rows and columns of the result, per block
constexpr int kThreads = 256;
constexpr int kSide = 16;  // each thread computes 2 x 2 elements that lie this far apart

template <class Number>
__device__ Number factor(const double (&parts)[2]) {
  if constexpr (is_complex<Number>)
    return Number(static_cast<Real<Number>>(parts[0]), static_cast<Real<Number>>(parts[1]));
  else
    return static_cast<Number>(parts[0]);
}

/// One more column than used, so that neighbours in a column lie in different banks.
template <class Number>
using Tile = Number[kTile][kTile + 1];

/// Brings a tile of an operand into shared memory: tile[p][i] is the element at `start + p` along
/// the sum and `first + i` along the result, zero outside. `along_sum`: whether it is along the sum
/// that elements lie side by side.
template <class Number, class T>
__device__ void load_tile(Tile<Number>& tile, const T* from, std::int64_t ld, bool along_sum,
                          std::int64_t first, std::int64_t size, std::int64_t start,
                          std::int64_t depth) {
#pragma unroll
  for (int step = 0; step < kTile * kTile / kThreads; ++step) {
    const int at = static_cast<int>(threadIdx.x) + step * kThreads;
    // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
    const int fast = at % kTile;
    const int slow = at / kTile;
    const int i = along_sum ? slow : fast;
    const int p = along_sum ? fast : slow;
    const std::int64_t outer = first + i;
    const std::int64_t inner = start + p;
    Number value(0);
    if (outer < size && inner < depth)
      value = convert<Number>(from[along_sum ? inner + outer * ld : outer + inner * ld]);
    tile[p][i] = value;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) small_kernel(GemmArgs args) {
  using Number = Compute<T>;
  __shared__ Tile<Number> left;   // [p][row]
  __shared__ Tile<Number> right;  // [p][column]
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile;
  const std::int64_t first_column = std::int64_t{blockIdx.y} * kTile;
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int y = static_cast<int>(threadIdx.x) / kSide;
  Number sum[2][2] = {{Number(0), Number(0)}, {Number(0), Number(0)}};

  for (std::int64_t start = 0; start < args.k; start += kTile) {
    load_tile(left, a, args.lda, args.transpose_a, first_row, args.m, start, args.k);
    load_tile(right, b, args.ldb, !args.transpose_b, first_column, args.n, start, args.k);
    __syncthreads();
#pragma unroll 8
    for (int p = 0; p < kTile; ++p) {  // what lies beyond k is zero in both
      const Number rows[2] = {left[p][x], left[p][x + kSide]};
      const Number columns[2] = {right[p][y], right[p][y + kSide]};
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) sum[i][j] = sum[i][j] + rows[i] * columns[j];
    }
    __syncthreads();
  }

  const Number alpha = factor<Number>(args.alpha);
  const Number beta = factor<Number>(args.beta);
  const bool reads = args.beta[0] != 0 || args.beta[1] != 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const std::int64_t row = first_row + x + i * kSide;
      const std::int64_t column = first_column + y + j * kSide;
      if (row >= args.m || column >= args.n) continue;
      T& c = static_cast<T*>(args.c)[row + column * args.ldc];
      Number value = alpha * sum[i][j];
      if (reads) value = value + beta * convert<Number>(c);
      c = convert<T>(value);
    }
}

/// What one launch of that kernel does sooner than cuBLASLt is called.
bool is_small(const GemmArgs& args) {
  return args.batch == 1 && args.m <= 64 && args.n <= 64 && args.k <= 128;
}

Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  // As much as cuBLASLt makes use of. Less leaves it the slower algorithms.
  if (!is_small(params.as<GemmArgs>())) out.scratch = std::size_t{32} << 20;
  return {};
}

template <class T, Element kElement>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  if (!is_small(args)) return driver::cuda::gemm(kElement, args, on);
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + kTile - 1) / kTile);
  };
  const driver::cuda::Grid grid{dim3(tiles(args.m), tiles(args.n)), kThreads};
  return driver::cuda::start<&small_kernel<T>>(on, grid, args);
}

constexpr NamedImplementation implementations[] = {
    {"matmul.float16", {&implementation<Half, Element::f16>, &needs}},
    {"matmul.bfloat16", {&implementation<BFloat16, Element::bf16>, &needs}},
    {"matmul.float32", {&implementation<float, Element::f32>, &needs}},
    {"matmul.float64", {&implementation<double, Element::f64>, &needs}},
    {"matmul.complex64", {&implementation<Complex<float>, Element::c64>, &needs}},
    {"matmul.complex128", {&implementation<Complex<double>, Element::c128>, &needs}},
};
const Implementations table(implementations, driver::arguments<driver::GemmArgs>());

}  // namespace
}  // namespace ember::inline v0::linalg::cuda
