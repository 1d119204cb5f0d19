// The CUDA columns of cumsum and cumprod. Every element is read once and written once:
//
//   short rows       a warp for each
//   many long rows   a block for each, tile by tile
//   few long rows    a block for each tile; it learns from the tiles before it what they have
//                    (single pass, decoupled look-back)
//   columns          a block for 32 adjacent ones
#include "ember/driver/cuda/columns.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/cuda/progress.cuh"
#include "ember/ops/cuda/scan.cuh"
#include "ember/ops/scan_args.h"

namespace ember::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::api;
using driver::cuda::Columns;
using driver::cuda::failure;
using driver::cuda::Grid;
using driver::cuda::NamedColumn;
using driver::cuda::start;

constexpr std::int64_t kShort = 512;
constexpr std::int64_t kMostBlocks = 1 << 20;

template <class Op, class T>
__global__ void __launch_bounds__(kScanThreads)
    short_rows_kernel(const T* in, T* out, std::int64_t rows, std::int64_t n) {
  using A = Compute<T>;
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t stride = std::int64_t{gridDim.x} * kScanWarps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kScanWarps + threadIdx.x / 32; row < rows;
       row += stride) {
    A carry = Op::template first<A>();
    for (std::int64_t first = 0; first < n; first += 32) {
      const std::int64_t at = row * n + first + lane;
      const bool inside = first + lane < n;
      const A value = inside ? convert<A>(in[at]) : Op::template first<A>();
      const A joined = Op::join(carry, join_to_lane<Op>(value));
      if (inside) out[at] = convert<T>(joined);
      carry = from_lane(joined, 31);
    }
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kScanThreads)
    rows_kernel(const T* in, T* out, std::int64_t rows, std::int64_t n, bool aligned) {
  using Tile = ScanTile<T>;
  using A = Compute<T>;
  __shared__ alignas(16) unsigned char room[(Tile::kTotals + 1) * sizeof(A)];
  A* totals = reinterpret_cast<A*>(room);
  A& total = totals[Tile::kTotals];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    A carry = Op::template first<A>();
    for (std::int64_t first = 0; first < n; first += Tile::kElements) {
      const std::int64_t at = row * n + first;
      const bool whole = aligned && n - first >= Tile::kElements;
      Tile tile;
      tile.template load<Op>(in + at, n - first, whole);
      __syncthreads();  // nobody needs the last tile's totals any more
      tile.template join<Op>(totals);
      __syncthreads();
      if (threadIdx.x < 32) {
        const A sum = Tile::template join_totals<Op>(totals);
        if (threadIdx.x == 0) total = sum;
      }
      __syncthreads();
      tile.template store<Op>(out + at, n - first, whole, carry, totals);
      carry = Op::join(carry, total);
    }
  }
}

/// What tiles tell each other. Values of 32 bits travel in the words, others beside them: first
/// what a tile has of its own, then what it has with all tiles before it.
template <class A>
struct Progress {
  std::uint64_t* words;
  A* values;

  static constexpr bool kPacked = sizeof(A) == 4;

  __device__ __forceinline__ void say(std::int64_t tile, A value, std::uint64_t what) const {
    if constexpr (kPacked) {
      store_word(words + tile, std::uint64_t{__float_as_uint(value)} << 32 | what);
    } else {
      values[2 * tile + (what == kAll ? 1 : 0)] = value;
      __threadfence();  // the value is there before the word that says so
      store_word(words + tile, what);
    }
  }
  /// Waits until the tile has said something.
  __device__ __forceinline__ std::uint64_t hear(std::int64_t tile, A& value) const {
    std::uint64_t word = 0;
    do {
      word = load_word(words + tile);
    } while ((word & kSays) == 0);
    if constexpr (kPacked) {
      value = __uint_as_float(static_cast<unsigned>(word >> 32));
    } else {
      __threadfence();
      const A* from = values + 2 * tile + ((word & kSays) == kAll ? 1 : 0);
      // Past the SM's own cache, which may remember the place from before.
      if constexpr (sizeof(A) == 8) {
        const unsigned long long bits = __ldcg(reinterpret_cast<const unsigned long long*>(from));
        memcpy(&value, &bits, sizeof value);
      } else {
        const ulonglong2 bits = __ldcg(reinterpret_cast<const ulonglong2*>(from));
        memcpy(&value, &bits, sizeof value);
      }
    }
    return word & kSays;
  }
};

/// For one warp: says what a tile has, and finds the join of those before it in its row.
template <class Op, class A>
__device__ __forceinline__ A look_back(const Progress<A>& progress, std::int64_t tile,
                                       std::int64_t in_row, A own) {
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) progress.say(tile, own, in_row == 0 ? kAll : kOwn);
  if (in_row == 0) return Op::template first<A>();
  A before = Op::template first<A>();
  for (std::int64_t distance = 1 + lane;; distance += 32) {
    // The nearest tile is lane 0's. Beyond the row's beginning there is nothing.
    A value = Op::template first<A>();
    std::uint64_t says = kAll;
    if (distance <= in_row) says = progress.hear(tile - distance, value);
    const unsigned final = __ballot_sync(kAllLanes, says == kAll);
    if (final != 0 && lane > static_cast<unsigned>(__ffs(static_cast<int>(final)) - 1))
      value = Op::template first<A>();
#pragma unroll
    for (unsigned mask = 16; mask > 0; mask /= 2)
      value = Op::join(from_other_lane(value, mask), value);
    before = Op::join(value, before);
    if (final != 0) break;
  }
  if (lane == 0) progress.say(tile, Op::join(before, own), kAll);
  return before;
}

template <class Op, class T>
__global__ void __launch_bounds__(kScanThreads)
    tiles_kernel(const T* in, T* out, std::int64_t n, std::int64_t tiles, bool aligned,
                 unsigned* tickets, Progress<Compute<T>> progress) {
  using Tile = ScanTile<T>;
  using A = Compute<T>;
  __shared__ alignas(16) unsigned char room[(Tile::kTotals + 1) * sizeof(A)];
  __shared__ unsigned ticket;
  A* totals = reinterpret_cast<A*>(room);
  A& carry = totals[Tile::kTotals];
  // Tiles are begun in order, so that none waits for one that has no place to run.
  if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1U);
  __syncthreads();
  const std::int64_t number = ticket;
  const std::int64_t row = number / tiles;
  const std::int64_t in_row = number - row * tiles;
  const std::int64_t first = in_row * Tile::kElements;
  const std::int64_t at = row * n + first;
  const bool whole = aligned && n - first >= Tile::kElements;
  Tile tile;
  tile.template load<Op>(in + at, n - first, whole);
  tile.template join<Op>(totals);
  __syncthreads();
  if (threadIdx.x < 32) {
    const A own = Tile::template join_totals<Op>(totals);
    const A before = look_back<Op>(progress, number, in_row, own);
    if (threadIdx.x == 0) carry = before;
  }
  __syncthreads();
  tile.template store<Op>(out + at, n - first, whole, carry, totals);
}

constexpr int kDown = 8;   ///< threads of a column
constexpr int kEach = 16;  ///< elements of such a thread, all in flight at once

template <class Op, class T>
__global__ void __launch_bounds__(32 * kDown)
    columns_kernel(const T* in, T* out, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  using A = Compute<T>;
  __shared__ alignas(16) unsigned char room[kDown * 32 * sizeof(A)];
  A* totals = reinterpret_cast<A*>(room);  // [kDown][32]
  const unsigned x = threadIdx.x % 32;
  const unsigned y = threadIdx.x / 32;
  const std::int64_t groups = (inner + 31) / 32;
  for (std::int64_t work = blockIdx.x; work < outer * groups; work += gridDim.x) {
    const std::int64_t o = work / groups;
    const std::int64_t column = (work - o * groups) * 32 + x;
    const bool exists = column < inner;
    const std::int64_t base = o * n * inner + column;
    A carry = Op::template first<A>();
    for (std::int64_t first = 0; first < n; first += kDown * kEach) {
      const std::int64_t left = n - first - y * kEach;
      const int rows = !exists || left <= 0 ? 0 : left < kEach ? static_cast<int>(left) : kEach;
      const std::int64_t begin = base + (first + y * kEach) * inner;
      A values[kEach];
      const T* from = in + begin;
#pragma unroll
      for (int i = 0; i < kEach; ++i, from += inner)
        values[i] = i < rows ? convert<A>(*from) : Op::template first<A>();
#pragma unroll
      for (int i = 1; i < kEach; ++i) values[i] = Op::join(values[i - 1], values[i]);
      totals[y * 32 + x] = values[kEach - 1];
      __syncthreads();
      A before = carry;
#pragma unroll
      for (unsigned d = 0; d < kDown; ++d) {
        if (d == y) before = carry;
        carry = Op::join(carry, totals[d * 32 + x]);
      }
      T* to = out + begin;
#pragma unroll
      for (int i = 0; i < kEach; ++i, to += inner)
        if (i < rows) *to = convert<T>(Op::join(before, values[i]));
      __syncthreads();
    }
  }
}

unsigned at_most(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

template <class Op, class T>
Status column(const driver::Params& params, const CudaLaunch& on) {
  using A = Compute<T>;
  static_assert(ScanTile<T>::kElements == scan_tile(sizeof(T)));
  const auto& args = params.as<ScanArgs>();
  const auto* in = static_cast<const T*>(args.in);
  auto* out = static_cast<T*>(args.out);
  if (args.inner > 1) {
    const std::int64_t groups = args.outer * ((args.inner + 31) / 32);
    return start<&columns_kernel<Op, T>>(on, Grid{at_most(groups), 32 * kDown}, in, out, args.outer,
                                         args.n, args.inner);
  }
  if (args.n <= kShort)
    return start<&short_rows_kernel<Op, T>>(
        on, Grid{at_most((args.outer + kScanWarps - 1) / kScanWarps), kScanThreads}, in, out,
        args.outer, args.n);
  const auto fits = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  };
  const bool aligned = fits(in) && fits(out) &&
                       (args.outer == 1 || args.n * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
  const ScanPlan plan = scan_plan(sizeof(T), args.outer, args.n, args.inner);
  if (plan.tiles == 1)
    return start<&rows_kernel<Op, T>>(on, Grid{at_most(args.outer), kScanThreads}, in, out,
                                      args.outer, args.n, aligned);
  auto* work = static_cast<std::byte*>(args.workspace);
  const CUresult zeroed =
      api.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(work), 0, plan.zeroed, on.stream);
  if (zeroed != CUDA_SUCCESS) return failure(zeroed, "zeroing a workspace");
  const Progress<A> progress{reinterpret_cast<std::uint64_t*>(work + plan.words),
                             reinterpret_cast<A*>(work + plan.values)};
  return start<&tiles_kernel<Op, T>>(
      on, Grid{static_cast<unsigned>(args.outer * plan.tiles), kScanThreads}, in, out, args.n,
      plan.tiles, aligned, reinterpret_cast<unsigned*>(work), progress);
}

#define EMBER_SCAN(name, op)                                                                      \
  {name ".int64", &column<op, std::int64_t>}, {name ".float16", &column<op, Half>},               \
      {name ".bfloat16", &column<op, BFloat16>}, {name ".float32", &column<op, float>},           \
      {name ".float64", &column<op, double>}, {name ".complex64", &column<op, Complex<float>>}, { \
    name ".complex128", &column<op, Complex<double>>                                              \
  }
constexpr NamedColumn columns[] = {EMBER_SCAN("cumsum", Sum), EMBER_SCAN("cumprod", Product)};
#undef EMBER_SCAN
const Columns table(columns);

}  // namespace
}  // namespace ember::ops::cuda
