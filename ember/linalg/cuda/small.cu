// Products of small matrices, by one launch and nothing else: what a library does on the host
// before it launches costs more than such a product.
#include "ember/driver/cuda/columns.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/gemm.h"
#include "ember/scalar/types.h"

namespace ember::linalg::cuda {
namespace {

using driver::GemmArgs;
using driver::cuda::Columns;
using driver::cuda::NamedColumn;

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

template <class T>
__global__ void __launch_bounds__(kThreads) small_kernel(GemmArgs args) {
  using Number = Compute<T>;
  // One more column, so that neighbours in a column lie in different banks.
  __shared__ Number left[kTile][kTile + 1];   // [p][row]
  __shared__ Number right[kTile][kTile + 1];  // [p][column]
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kTile;
  const std::int64_t first_column = std::int64_t{blockIdx.y} * kTile;
  const T* a = static_cast<const T*>(args.a);
  const T* b = static_cast<const T*>(args.b);
  const int x = static_cast<int>(threadIdx.x) % kSide;
  const int y = static_cast<int>(threadIdx.x) / kSide;
  Number sum[2][2] = {{Number(0), Number(0)}, {Number(0), Number(0)}};

  for (std::int64_t start = 0; start < args.k; start += kTile) {
    for (int at = static_cast<int>(threadIdx.x); at < kTile * kTile; at += kThreads) {
      // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
      const int fast = at % kTile;
      const int slow = at / kTile;
      {
        const int i = args.transpose_a ? slow : fast;
        const int p = args.transpose_a ? fast : slow;
        const std::int64_t row = first_row + i;
        const std::int64_t depth = start + p;
        Number value(0);
        if (row < args.m && depth < args.k)
          value = convert<Number>(args.transpose_a ? a[depth + row * args.lda]
                                                   : a[row + depth * args.lda]);
        left[p][i] = value;
      }
      {
        const int j = args.transpose_b ? fast : slow;
        const int p = args.transpose_b ? slow : fast;
        const std::int64_t column = first_column + j;
        const std::int64_t depth = start + p;
        Number value(0);
        if (column < args.n && depth < args.k)
          value = convert<Number>(args.transpose_b ? b[column + depth * args.ldb]
                                                   : b[depth + column * args.ldb]);
        right[p][j] = value;
      }
    }
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

template <class T>
Status column(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + kTile - 1) / kTile);
  };
  const driver::cuda::Grid grid{dim3(tiles(args.m), tiles(args.n)), kThreads};
  return driver::cuda::start<&small_kernel<T>>(on, grid, args);
}

constexpr NamedColumn columns[] = {
    {"matmul_small.float16", &column<Half>},
    {"matmul_small.bfloat16", &column<BFloat16>},
    {"matmul_small.float32", &column<float>},
    {"matmul_small.float64", &column<double>},
    {"matmul_small.complex64", &column<Complex<float>>},
    {"matmul_small.complex128", &column<Complex<double>>},
};
const Columns table(columns);

}  // namespace
}  // namespace ember::linalg::cuda
