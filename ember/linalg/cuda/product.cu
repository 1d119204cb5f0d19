// The CUDA implementation of matrix products. Small ones are done by one launch and nothing else:
// what a library does on the host before it launches costs more than such a product. So are those
// of integers, which no library has. Those of two vectors are sums (dot.cuh). The others are
// cuBLASLt's.
#include "ember/driver/cuda/blas.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/driver/gemm.h"
#include "ember/linalg/cuda/dot.cuh"
#include "ember/linalg/cuda/number.cuh"

namespace ember::inline v0::linalg::cuda {
namespace {

using driver::GemmArgs;
using driver::cuda::Element;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kThreads = 256;

/// How a block computes a square of the result, in numbers of this type. Each thread has 2 x 2
/// elements of it, half a side apart; what is left of the threads divides the sum. `row`: bytes of
/// each operand's rows in shared memory.
template <int side, int row, class Of>
struct Tiles {
  using Number = Of;
  static constexpr int kSide = side;
  static constexpr int kHalf = side / 2;
  static constexpr int kSquare = kHalf * kHalf;
  static constexpr int kSplits = kThreads / kSquare;
  static constexpr int kDepth = row / static_cast<int>(sizeof(Number));  // of the sum, in a tile
  static constexpr int kAtOnce = kThreads / side;  // along the sum, that all threads read at once
  static constexpr int kNeighbours = 16 / static_cast<int>(sizeof(Number));
};
/// Fewer reads for each product.
template <class T>
using Wide = Tiles<32, 256, typename SumOf<T>::type>;
/// More blocks, each sooner done: for results of few tiles.
template <class T>
using Narrow = Tiles<16, 1024, typename SumOf<T>::type>;

/// What a thread takes from shared memory at once: neighbours along the sum.
template <class Of>
using Neighbours = driver::cuda::Pack<typename Of::Number, Of::kNeighbours>;

/// values[i] is along the sum, of row or column i of the result. Longer by what is taken at once,
/// so that the same of neighbouring rows lies in different banks.
template <class Of>
struct Tile {
  alignas(16) typename Of::Number values[Of::kSide][Of::kDepth + Of::kNeighbours];

  __device__ Neighbours<Of> at(int i, int p) const {
    return *reinterpret_cast<const Neighbours<Of>*>(&values[i][p]);
  }
};

/// One operand's way into a tile, a part of the sum at a time; zero where there is none.
template <class Of, class T>
class Operand {
 public:
  /// `first`: along the result, of `size`. `along_sum`: whether it is along the sum that elements
  /// lie side by side.
  __device__ Operand(const T* from, std::int64_t ld, bool along_sum, std::int64_t first,
                     std::int64_t size)
      : i_(along_sum ? thread() / Of::kAtOnce : thread() % Of::kSide),
        p_(along_sum ? thread() % Of::kAtOnce : thread() / Of::kSide),
        step_(along_sum ? 1 : ld),
        from_(from + (first + i_) * (along_sum ? ld : 1) + p_ * step_),
        inside_(first + i_ < size) {}

  /// Asks for a part, of which `depth` is left. What it reads is not waited for.
  __device__ void read(std::int64_t start, std::int64_t depth) {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int p = load * Of::kAtOnce;
      values_[load] = inside_ && p_ + p < depth ? from_[(start + p) * step_] : T(0);
    }
  }
  __device__ void write(Tile<Of>& tile) const {
#pragma unroll
    for (int load = 0; load < kLoads; ++load)
      tile.values[i_][p_ + load * Of::kAtOnce] = convert<typename Of::Number>(values_[load]);
  }

 private:
  static constexpr int kLoads = Of::kDepth / Of::kAtOnce;
  static __device__ int thread() { return static_cast<int>(threadIdx.x); }

  // Neighbouring threads read neighbouring elements, whichever way the matrix lies.
  const int i_, p_;
  const std::int64_t step_;
  const T* const from_;
  const bool inside_;
  T values_[kLoads];
};

/// Adds up what the threads have that share an element of the result, in the first of them. All
/// threads of the block call it, and none uses the tile any more.
template <class Of>
__device__ void add_splits(typename Of::Number (&sum)[2][2], Tile<Of>& tile) {
  typename Of::Number* all = &tile.values[0][0];
  static_assert(4 * kThreads * sizeof(typename Of::Number) <= sizeof tile.values);
#pragma unroll
  for (int each = 0; each < 4; ++each)
    all[each * kThreads + static_cast<int>(threadIdx.x)] = sum[each / 2][each % 2];
  __syncthreads();
  if (threadIdx.x >= Of::kSquare) return;
#pragma unroll
  for (int each = 0; each < 4; ++each)
    for (int split = 1; split < Of::kSplits; ++split)
      sum[each / 2][each % 2] =
          sum[each / 2][each % 2] +
          all[each * kThreads + split * Of::kSquare + static_cast<int>(threadIdx.x)];
}

/// One tile of the result per block: `row_tiles` of them make a column, the columns a product, and
/// those the batch. The next part of the sum is read while one is computed.
template <class Of, class T>
__global__ void __launch_bounds__(kThreads)
    tile_kernel(const __grid_constant__ GemmArgs args, unsigned row_tiles, unsigned column_tiles) {
  using Number = typename Of::Number;
  constexpr int kDepth = Of::kDepth;
  constexpr int kNeighbours = Of::kNeighbours;
  __shared__ Tile<Of> left;   // of rows
  __shared__ Tile<Of> right;  // of columns
  const unsigned column_tile = blockIdx.x / row_tiles;
  const std::int64_t first_row = std::int64_t{blockIdx.x % row_tiles} * Of::kSide;
  const std::int64_t first_column = std::int64_t{column_tile % column_tiles} * Of::kSide;
  const std::int64_t product = column_tile / column_tiles;
  Operand<Of, T> a(static_cast<const T*>(args.a) + product * args.stride_a, args.lda,
                   args.transpose_a, first_row, args.m);
  Operand<Of, T> b(static_cast<const T*>(args.b) + product * args.stride_b, args.ldb,
                   !args.transpose_b, first_column, args.n);
  const int within = static_cast<int>(threadIdx.x) % Of::kSquare;
  const int split = static_cast<int>(threadIdx.x) / Of::kSquare;
  const int x = within % Of::kHalf;
  const int y = within / Of::kHalf;
  Number sum[2][2] = {{Number(0), Number(0)}, {Number(0), Number(0)}};

  a.read(0, args.k);
  b.read(0, args.k);
  for (std::int64_t start = 0; start < args.k; start += kDepth) {
    a.write(left);
    b.write(right);
    __syncthreads();
    const std::int64_t rest = args.k - start;
    if (rest > kDepth) {
      a.read(start + kDepth, rest - kDepth);
      b.read(start + kDepth, rest - kDepth);
    }
    const int depth = rest < kDepth ? static_cast<int>(rest) : kDepth;
#pragma unroll 4
    for (int p = split * kNeighbours; p < depth; p += Of::kSplits * kNeighbours) {
      const Neighbours<Of> rows[2] = {left.at(x, p), left.at(x + Of::kHalf, p)};
      const Neighbours<Of> columns[2] = {right.at(y, p), right.at(y + Of::kHalf, p)};
#pragma unroll
      for (int each = 0; each < kNeighbours; ++each)
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j)
            sum[i][j] = sum[i][j] + rows[i].value[each] * columns[j].value[each];
    }
    __syncthreads();
  }

  if constexpr (Of::kSplits > 1) {
    add_splits<Of>(sum, left);
    if (split > 0) return;
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      const std::int64_t row = first_row + x + i * Of::kHalf;
      const std::int64_t column = first_column + y + j * Of::kHalf;
      if (row >= args.m || column >= args.n) continue;
      T& c = static_cast<T*>(args.c)[row + column * args.ldc + product * args.stride_c];
      write_product(args, c, sum[i][j]);
    }
}

/// Whether narrow tiles of all its products are computed at the same time.
template <class T>
bool is_narrow(const GemmArgs& args) {
  constexpr std::int64_t kSide = Narrow<T>::kSide;
  constexpr std::int64_t kMost = 132;  // about as many blocks as there are multiprocessors
  const auto tiles = [](std::int64_t size) { return (size + kSide - 1) / kSide; };
  return args.m <= kMost * kSide && args.n <= kMost * kSide && args.batch <= kMost &&
         tiles(args.m) * tiles(args.n) * args.batch <= kMost;
}

/// What one launch of that kernel does sooner than cuBLASLt is called. Or computes sooner, as well:
/// what a tile holds of the sum, unless for tensor cores, or for a result that is hardly more than
/// a vector. (Measured on an H200.)
template <class T>
bool is_small(const GemmArgs& args) {
  if (args.batch == 1 && args.m <= 64 && args.n <= 64 && args.k <= 128) return true;
  const bool on_tensor_cores = sizeof(T) == 2 || (std::is_same_v<Real<T>, float> &&
                                                  (args.math & driver::kTensorFloat32) != 0);
  return !on_tensor_cores && args.m >= Narrow<T>::kSide && args.n >= Narrow<T>::kSide &&
         is_narrow<T>(args) && args.k <= Narrow<T>::kDepth;
}

template <class T>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  const auto& args = params.as<GemmArgs>();
  if (is_dot(args))
    out.scratch = dot_scratch<T>(args);
  else if (!is_integer<T> && !is_small<T>(args))
    // As much as cuBLASLt makes use of. Less leaves it the slower algorithms.
    out.scratch = std::size_t{32} << 20;
  return {};
}

/// By tiles, as many products at once as one launch takes. (A product of more tiles than that fits
/// into no memory.)
template <class Of, class T>
Status by_tiles(const GemmArgs& args, const driver::CudaLaunch& on) {
  constexpr std::int64_t kMost = INT32_MAX;
  const std::int64_t rows = (args.m + Of::kSide - 1) / Of::kSide;
  const std::int64_t columns = (args.n + Of::kSide - 1) / Of::kSide;
  GemmArgs part = args;
  const std::int64_t at_once = kMost / (rows * columns);
  for (std::int64_t done = 0; done < args.batch; done += at_once) {
    const std::int64_t count = args.batch - done < at_once ? args.batch - done : at_once;
    part.c = static_cast<T*>(args.c) + done * args.stride_c;
    part.a = static_cast<const T*>(args.a) + done * args.stride_a;
    part.b = static_cast<const T*>(args.b) + done * args.stride_b;
    const driver::cuda::Grid grid{static_cast<unsigned>(rows * columns * count), kThreads};
    const Status started = driver::cuda::start<&tile_kernel<Of, T>>(
        on, grid, part, static_cast<unsigned>(rows), static_cast<unsigned>(columns));
    EMBER_TRY(started);
  }
  return {};
}

template <class T, Element kElement>
Status implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  if (is_dot(args)) return dot<T>(args, on);
  return is_small<T>(args) ? by_tiles<Narrow<T>, T>(args, on)
                           : driver::cuda::gemm(kElement, args, on);
}
template <class T>
Status integers(const driver::Params& params, const driver::CudaLaunch& on) {
  const auto& args = params.as<GemmArgs>();
  if (is_dot(args)) return dot<T>(args, on);
  return is_narrow<T>(args) ? by_tiles<Narrow<T>, T>(args, on) : by_tiles<Wide<T>, T>(args, on);
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
