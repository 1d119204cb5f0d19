// The CUDA implementation of matrix products. Small ones are done by one launch and nothing else:
// what a library does on the host before it launches costs more than such a product. So are those
// of integers, which no library has. Those of two vectors are sums (dot.cuh). The others are
// cuBLASLt's.
#include "ember/driver/cuda/blas.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/gemm.h"
#include "ember/linalg/cuda/dot.cuh"
#include "ember/linalg/cuda/number.cuh"

namespace ember::inline v0::linalg::cuda {
namespace {

using driver::GemmArgs;
using driver::cuda::Element;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kTile = 32;  // rows and columns of the result, per block
constexpr int kThreads = 256;
constexpr int kSide = 16;  // each thread computes 2 x 2 elements that lie this far apart

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

/// One tile of the result per block: `row_tiles` of them make a column, the columns a product, and
/// those the batch.
template <class T>
__global__ void __launch_bounds__(kThreads)
    tile_kernel(GemmArgs args, unsigned row_tiles, unsigned column_tiles) {
  using Number = typename SumOf<T>::type;
  __shared__ Tile<Number> left;   // [p][row]
  __shared__ Tile<Number> right;  // [p][column]
  const unsigned column_tile = blockIdx.x / row_tiles;
  const std::int64_t first_row = std::int64_t{blockIdx.x % row_tiles} * kTile;
  const std::int64_t first_column = std::int64_t{column_tile % column_tiles} * kTile;
  const std::int64_t product = column_tile / column_tiles;
  const T* a = static_cast<const T*>(args.a) + product * args.stride_a;
  const T* b = static_cast<const T*>(args.b) + product * args.stride_b;
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

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const std::int64_t row = first_row + x + i * kSide;
      const std::int64_t column = first_column + y + j * kSide;
      if (row >= args.m || column >= args.n) continue;
      T& c = static_cast<T*>(args.c)[row + column * args.ldc + product * args.stride_c];
      write_product(args, c, sum[i][j]);
    }
}

/// What one launch of that kernel does sooner than cuBLASLt is called.
bool is_small(const GemmArgs& args) {
  return args.batch == 1 && args.m <= 64 && args.n <= 64 && args.k <= 128;
}

template <class T>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  const auto& args = params.as<GemmArgs>();
  if (is_dot(args))
    out.scratch = dot_scratch<T>(args);
  else if (!is_integer<T> && !is_small(args))
    // As much as cuBLASLt makes use of. Less leaves it the slower algorithms.
    out.scratch = std::size_t{32} << 20;
  return {};
}

/// By tiles, as many products at once as one launch takes. (A product of more tiles than that fits
/// into no memory.)
template <class T>
Status by_tiles(const GemmArgs& args, const driver::CudaLaunch& on) {
  constexpr std::int64_t kMost = INT32_MAX;
  const std::int64_t rows = (args.m + kTile - 1) / kTile;
  const std::int64_t columns = (args.n + kTile - 1) / kTile;
  GemmArgs part = args;
  const std::int64_t at_once = kMost / (rows * columns);
  for (std::int64_t done = 0; done < args.batch; done += at_once) {
    const std::int64_t count = args.batch - done < at_once ? args.batch - done : at_once;
    part.c = static_cast<T*>(args.c) + done * args.stride_c;
    part.a = static_cast<const T*>(args.a) + done * args.stride_a;
    part.b = static_cast<const T*>(args.b) + done * args.stride_b;
    const driver::cuda::Grid grid{static_cast<unsigned>(rows * columns * count), kThreads};
    EMBER_TRY(driver::cuda::start<&tile_kernel<T>>(on, grid, part, static_cast<unsigned>(rows),
                                                   static_cast<unsigned>(columns)));
  }
  return {};
}

template <class T, Element kElement>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  if (is_dot(args)) return dot<T>(args, on);
  return is_small(args) ? by_tiles<T>(args, on) : driver::cuda::gemm(kElement, args, on);
}
template <class T>
Status integers(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  return is_dot(args) ? dot<T>(args, on) : by_tiles<T>(args, on);
}

constexpr NamedImplementation implementations[] = {
    {"matmul.uint8", {&integers<std::uint8_t>, &needs<std::uint8_t>}},
    {"matmul.int8", {&integers<std::int8_t>, &needs<std::int8_t>}},
    {"matmul.int16", {&integers<std::int16_t>, &needs<std::int16_t>}},
    {"matmul.int32", {&integers<std::int32_t>, &needs<std::int32_t>}},
    {"matmul.int64", {&integers<std::int64_t>, &needs<std::int64_t>}},
    {"matmul.float16", {&implementation<Half, Element::f16>, &needs<Half>}},
    {"matmul.bfloat16", {&implementation<BFloat16, Element::bf16>, &needs<BFloat16>}},
    {"matmul.float32", {&implementation<float, Element::f32>, &needs<float>}},
    {"matmul.float64", {&implementation<double, Element::f64>, &needs<double>}},
    {"matmul.complex64", {&implementation<Complex<float>, Element::c64>, &needs<Complex<float>>}},
    {"matmul.complex128",
     {&implementation<Complex<double>, Element::c128>, &needs<Complex<double>>}},
};
const Implementations table(implementations, driver::arguments<driver::GemmArgs>());

}  // namespace
}  // namespace ember::inline v0::linalg::cuda
