// The CUDA implementations of cumsum and cumprod. Every element is read once and written once:
//
//   short rows       a warp for each
//   many long rows   a block for each, tile by tile
//   few long rows    a block for each tile; it learns from the tiles before it what they have
//                    (Note [Tiles of a row])
//   columns          a block for 32 adjacent ones
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/progress.cuh"
#include "ember/ops/cuda/scan.cuh"
#include "ember/ops/scan_args.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::api;
using driver::cuda::failure;
using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;
using driver::cuda::start;

constexpr std::int64_t kShort = 512;
constexpr std::int64_t kMostBlocks = 1 << 20;
constexpr int kRowThreads = 256;
constexpr int kRowWarps = kRowThreads / 32;
constexpr int kTileThreads = 512;
/// A tile has the one so many further on brought into the L2, so that the memory has something to
/// do while blocks wait for each other. An H200 runs 264 tiles at once; for 2^28 float32 it reaches
/// 3.3 TB/s without, 3.7 with 132 or 264 and 3.3 with 396, for which the L2 is too small.
constexpr unsigned kTilesAhead = 132;

template <class Op, class T>
__global__ void __launch_bounds__(kRowThreads)
    short_rows_kernel(const T* in, T* out, std::int64_t rows, std::int64_t n) {
  using A = Compute<T>;
  const unsigned lane = threadIdx.x % 32;
  const std::int64_t stride = std::int64_t{gridDim.x} * kRowWarps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32; row < rows;
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
__global__ void __launch_bounds__(kRowThreads)
    rows_kernel(const T* in, T* out, std::int64_t rows, std::int64_t n, bool aligned) {
  using Tile = ScanTile<T, kRowThreads, false>;
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

/// Note [Tiles of a row]
/// A tile says what it has of its own as soon as that is known, and then needs what the row has
/// before it. Tiles come in groups. What the groups before have is known to the last tile of the
/// group before; what the tiles before have in this group, they say themselves: a warp asks all of
/// them at once. So the chain of tiles that wait for one that waits has one link per group, and
/// what is added to what does not depend on who was quick: the same input gives the same bits.
///
/// A value of 32 bits travels in the word that says that it is there, others beside it.
template <class A>
struct Progress {
  std::uint64_t* words;  ///< per row: its tiles, then its groups
  A* values;

  static constexpr bool kPacked = sizeof(A) == 4;
  static constexpr std::uint16_t kOffsets[] = {0, sizeof(void*)};
  static constexpr driver::AddressPlaces kAddresses{kOffsets, 2};

  __device__ __forceinline__ void say(std::int64_t place, A value) const {
    if constexpr (kPacked) {
      store_word(words + place, std::uint64_t{__float_as_uint(value)} << 32 | kOwn);
    } else {
      values[place] = value;
      __threadfence();  // the value is there before the word that says so
      store_word(words + place, kOwn);
    }
  }
  /// After a thread has seen the words of several places.
  __device__ __forceinline__ void seen() const {
    if constexpr (!kPacked) __threadfence();
  }
  __device__ __forceinline__ A value(std::int64_t place, std::uint64_t word) const {
    if constexpr (kPacked) {
      return __uint_as_float(static_cast<unsigned>(word >> 32));
    } else {
      // Past the SM's own cache, which may remember the place from before.
      A value;
      if constexpr (sizeof(A) == 8) {
        const auto bits = __ldcg(reinterpret_cast<const unsigned long long*>(values + place));
        memcpy(&value, &bits, sizeof value);
      } else {
        const auto bits = __ldcg(reinterpret_cast<const ulonglong2*>(values + place));
        memcpy(&value, &bits, sizeof value);
      }
      return value;
    }
  }
};

/// For one warp: says what a tile has, and gives its first lane the join of those before it in its
/// row. `row` is the row's first place.
template <class Op, class A>
__device__ __forceinline__ A look_back(const Progress<A>& progress, std::int64_t row,
                                       unsigned tiles, unsigned tile, A own) {
  constexpr int kEach = kScanGroup / 32;
  const unsigned lane = threadIdx.x % 32;
  const unsigned group = tile / kScanGroup;
  const unsigned in_group = tile % kScanGroup;
  if (lane == 0) progress.say(row + tile, own);
  // Each lane asks every 32nd tile of the group, and the first one the group before as well.
  const std::int64_t first = row + (tile - in_group) + lane;
  const std::int64_t group_before = row + tiles + group - 1;
  const bool asks_group = lane == 0 && group > 0;
  std::uint64_t words[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    words[i] = 32 * i + lane < in_group ? load_word(progress.words + first + 32 * i) : kOwn;
  std::uint64_t group_word = asks_group ? load_word(progress.words + group_before) : kOwn;
  for (bool missing = true; missing;) {
    missing = false;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (words[i] == 0) words[i] = load_word(progress.words + first + 32 * i);
      missing |= words[i] == 0;
    }
    if (group_word == 0) group_word = load_word(progress.words + group_before);
    missing |= group_word == 0;
  }
  progress.seen();
  A before = Op::template first<A>();
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (32 * i + lane < in_group)
      before = Op::join(before, progress.value(first + 32 * i, words[i]));
  if (asks_group) before = Op::join(progress.value(group_before, group_word), before);
  __syncwarp();
#pragma unroll
  for (unsigned mask = 16; mask > 0; mask /= 2)
    before = Op::join(before, from_other_lane(before, mask));
  if (lane == 0 && in_group == kScanGroup - 1)
    progress.say(row + tiles + group, Op::join(before, own));
  return before;
}

/// Brings memory into the L2. Both multiples of 16.
__device__ __forceinline__ void prefetch(const void* from, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(from), "r"(bytes) : "memory");
#endif
}

template <class Op, class T>
__global__ void __launch_bounds__(kTileThreads, sizeof(Compute<T>) > 8 ? 1 : 2)
    tiles_kernel(const T* in, T* out, std::int64_t n, unsigned tiles, unsigned groups, bool aligned,
                 unsigned* tickets, Progress<Compute<T>> progress) {
  using Tile = ScanTile<T, kTileThreads, true>;
  using A = Compute<T>;
  __shared__ alignas(16) unsigned char room[(Tile::kTotals + 1) * sizeof(A)];
  __shared__ unsigned ticket;
  A* totals = reinterpret_cast<A*>(room);
  A& carry = totals[Tile::kTotals];
  // Tiles are begun in order, so that none waits for one that has no place to run.
  if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1U);
  __syncthreads();
  const unsigned row = ticket / tiles;
  const unsigned in_row = ticket - row * tiles;
  const std::int64_t first = std::int64_t{in_row} * Tile::kElements;
  const std::int64_t at = row * n + first;
  const bool whole = aligned && n - first >= Tile::kElements;
  Tile tile;
  tile.template load<Op>(in + at, n - first, whole);
  constexpr std::int64_t kAhead = std::int64_t{kTilesAhead} * Tile::kElements;
  if (threadIdx.x == 0 && whole && n - first >= kAhead + Tile::kElements)
    prefetch(in + at + kAhead, Tile::kElements * sizeof(T));
  tile.template join<Op>(totals);
  __syncthreads();
  if (threadIdx.x < 32) {
    const A own = Tile::template join_totals<Op>(totals);
    const A before =
        look_back<Op>(progress, std::int64_t{row} * (tiles + groups), tiles, in_row, own);
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
Status implementation(const driver::Params& params, const CudaLaunch& on) {
  using A = Compute<T>;
  static_assert(ScanTile<T, kTileThreads, true>::kElements == scan_tile(sizeof(T)));
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
        on, Grid{at_most((args.outer + kRowWarps - 1) / kRowWarps), kRowThreads}, in, out,
        args.outer, args.n);
  using driver::cuda::is_aligned;
  const bool aligned = is_aligned(in) && is_aligned(out) &&
                       (args.outer == 1 || args.n * static_cast<std::int64_t>(sizeof(T)) % 16 == 0);
  const ScanPlan plan = scan_plan(sizeof(T), args.outer, args.n, args.inner);
  if (plan.tiles == 1)
    return start<&rows_kernel<Op, T>>(on, Grid{at_most(args.outer), kRowThreads}, in, out,
                                      args.outer, args.n, aligned);
  auto* work = static_cast<std::byte*>(args.scratch);
  EMBER_TRY(driver::cuda::zero(on, work, plan.zeroed));
  const Progress<A> progress{reinterpret_cast<std::uint64_t*>(work + plan.words),
                             reinterpret_cast<A*>(work + plan.values)};
  return start<&tiles_kernel<Op, T>>(
      on, Grid{static_cast<unsigned>(args.outer * plan.tiles), kTileThreads}, in, out, args.n,
      static_cast<unsigned>(plan.tiles), static_cast<unsigned>(plan.groups), aligned,
      reinterpret_cast<unsigned*>(work), progress);
}

template <class T>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  const auto& args = params.as<ScanArgs>();
  out.scratch = scan_plan(sizeof(T), args.outer, args.n, args.inner).bytes;
  return {};
}

template <class Op, class T>
constexpr driver::CudaImplementation with_needs{&implementation<Op, T>, &needs<T>};

#define EMBER_SCAN(name, op)                                                                  \
  {name ".int64", with_needs<op, std::int64_t>}, {name ".float16", with_needs<op, Half>},     \
      {name ".bfloat16", with_needs<op, BFloat16>}, {name ".float32", with_needs<op, float>}, \
      {name ".float64", with_needs<op, double>},                                              \
      {name ".complex64", with_needs<op, Complex<float>>}, {                                  \
    name ".complex128", with_needs<op, Complex<double>>                                       \
  }
constexpr NamedImplementation implementations[] = {EMBER_SCAN("cumsum", Sum),
                                                   EMBER_SCAN("cumprod", Product)};
#undef EMBER_SCAN
const Implementations table(implementations, driver::arguments<ScanArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
