// The CUDA implementations of nonzero and masked_select. A mask is counted in tiles of 16 elements
// for each thread of a block; the counts become places; then a block for each tile gathers what is
// chosen in its shared memory and moves it, so that what it writes is adjacent.
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/ops/cuda/block.cuh"
#include "ember/ops/select_args.h"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::is_aligned;
using driver::cuda::NamedImplementation;
using driver::cuda::start;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMine = static_cast<int>(kSelectTile) / kThreads;  ///< elements of a thread
static_assert(kMine == 16);

/// Whether each of four bytes is not zero, as four bits.
__device__ __forceinline__ unsigned bits_of(unsigned bytes) {
  const unsigned high = (((bytes & 0x7f7f7f7fU) + 0x7f7f7f7fU) | bytes) & 0x80808080U;
  return ((high >> 7) * 0x01020408U) >> 24 & 15U;
}

/// This thread's part of a tile, as bits. `left`: elements from the tile's beginning to the end.
__device__ __forceinline__ unsigned load_bits(const bool* tile, std::int64_t left, bool aligned) {
  const int first = threadIdx.x * kMine;
  if (aligned && first + kMine <= left) {
    const uint4 bytes = *reinterpret_cast<const uint4*>(tile + first);
    return bits_of(bytes.x) | bits_of(bytes.y) << 4 | bits_of(bytes.z) << 8 |
           bits_of(bytes.w) << 12;
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tile);
  unsigned bits = 0;
  for (int i = 0; i < kMine; ++i)
    if (first + i < left && bytes[first + i] != 0) bits |= 1U << i;
  return bits;
}

constexpr int kTiles = 8;  ///< per block, all in flight at once

/// How many are chosen in each tile. A single block makes places of the counts itself.
__global__ void __launch_bounds__(kThreads)
    count_kernel(CountArgs args, std::int64_t tiles, bool aligned) {
  __shared__ unsigned sums[kWarps][kTiles];
  const std::int64_t first_tile = std::int64_t{blockIdx.x} * kTiles;
  unsigned counts[kTiles];
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    const std::int64_t first = (first_tile + t) * kSelectTile;
    const std::int64_t left = args.count - first;
    counts[t] = left > 0 ? __popc(load_bits(args.mask + first, left, aligned)) : 0;
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (unsigned mask = 16; mask > 0; mask /= 2)
      counts[t] += __shfl_xor_sync(kAllLanes, counts[t], mask);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32][t] = counts[t];
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  unsigned sum = 0;
  if (threadIdx.x < kTiles)
    for (int w = 0; w < kWarps; ++w) sum += sums[w][threadIdx.x];
  const unsigned to_lane = sum_to_lane(sum);
  const std::int64_t tile = first_tile + threadIdx.x;
  const bool single = gridDim.x == 1;
  if (threadIdx.x < kTiles && tile < tiles) args.before[tile] = single ? to_lane - sum : sum;
  if (single && threadIdx.x == 31) args.before[tiles] = to_lane;
}

constexpr int kPlaceThreads = 1024;
constexpr int kPlaces = 8;  ///< of a thread at a time

/// Makes places of the counts of all tiles. One block.
__global__ void __launch_bounds__(kPlaceThreads)
    places_kernel(std::int64_t* before, std::int64_t tiles) {
  __shared__ long long sums[kPlaceThreads / 32];
  const unsigned warp = threadIdx.x / 32;
  long long carry = 0;
  for (std::int64_t first = 0; first < tiles; first += kPlaceThreads * kPlaces) {
    const std::int64_t mine = first + threadIdx.x * kPlaces;
    long long counts[kPlaces];
    long long sum = 0;
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      counts[i] = mine + i < tiles ? before[mine + i] : 0;
      sum += counts[i];
    }
    const long long to_lane = sum_to_lane(sum);
    if (threadIdx.x % 32 == 31) sums[warp] = to_lane;
    __syncthreads();
    long long running = carry + to_lane - sum;
    for (unsigned w = 0; w < kPlaceThreads / 32; ++w) {
      if (w < warp) running += sums[w];
      carry += sums[w];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPlaces; ++i) {
      if (mine + i < tiles) before[mine + i] = running;
      running += counts[i];
    }
  }
  if (threadIdx.x == 0) before[tiles] = carry;
}

Status count_implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<CountArgs>();
  const std::int64_t tiles = (args.count + kSelectTile - 1) / kSelectTile;
  const auto blocks = static_cast<unsigned>((tiles + kTiles - 1) / kTiles);
  EMBER_TRY(start<&count_kernel>(on, Grid{blocks, kThreads}, args, tiles, is_aligned(args.mask)));
  if (blocks == 1) return {};
  return start<&places_kernel>(on, Grid{1, kPlaceThreads}, args.before, tiles);
}

/// Writes down which elements of a tile are chosen, in order, and returns how many.
__device__ __forceinline__ unsigned list_chosen(const SelectArgs& args, std::int64_t first,
                                                bool aligned, std::uint16_t* chosen) {
  __shared__ unsigned scratch[kWarps];
  unsigned bits = load_bits(args.mask + first, args.count - first, aligned);
  unsigned total = 0;
  unsigned place = sum_before<kThreads>(__popc(bits), scratch, total);
  for (; bits != 0; bits &= bits - 1)
    chosen[place++] =
        static_cast<std::uint16_t>(threadIdx.x * kMine + __ffs(static_cast<int>(bits)) - 1);
  __syncthreads();
  return total;
}

template <class T>
__global__ void __launch_bounds__(kThreads) select_kernel(SelectArgs args, bool aligned) {
  constexpr int kAtOnce = 8;
  __shared__ std::uint16_t chosen[kSelectTile];
  const std::int64_t first = std::int64_t{blockIdx.x} * kSelectTile;
  const unsigned total = list_chosen(args, first, aligned, chosen);
  const T* __restrict__ in = static_cast<const T*>(args.in) + first;
  T* __restrict__ out = static_cast<T*>(args.out) + args.before[blockIdx.x];
  for (unsigned begin = threadIdx.x; begin < total; begin += kThreads * kAtOnce) {
    T values[kAtOnce];
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j)
      if (begin + j * kThreads < total) values[j] = in[chosen[begin + j * kThreads]];
#pragma unroll
    for (unsigned j = 0; j < kAtOnce; ++j)
      if (begin + j * kThreads < total) out[begin + j * kThreads] = values[j];
  }
}

/// The coordinates of an element, by its number. `Number` is as narrow as the count allows:
/// divisions of 64 bits are slow.
template <class Number>
__global__ void __launch_bounds__(kThreads) nonzero_kernel(SelectArgs args, bool aligned) {
  __shared__ std::uint16_t chosen[kSelectTile];
  const std::int64_t first = std::int64_t{blockIdx.x} * kSelectTile;
  const unsigned total = list_chosen(args, first, aligned, chosen);
  auto* out = static_cast<std::int64_t*>(args.out) + args.before[blockIdx.x] * args.dims;
  for (unsigned i = threadIdx.x; i < total; i += kThreads) {
    auto rest = static_cast<Number>(first + chosen[i]);
    std::int64_t* row = out + std::int64_t{i} * args.dims;
    for (int d = args.dims - 1; d > 0; --d) {
      const auto size = static_cast<Number>(args.sizes[d]);
      const Number next = rest / size;
      row[d] = static_cast<std::int64_t>(rest - next * size);
      rest = next;
    }
    row[0] = static_cast<std::int64_t>(rest);
  }
}

Grid tiles_grid(const SelectArgs& args) {
  return Grid{static_cast<unsigned>((args.count + kSelectTile - 1) / kSelectTile), kThreads};
}

Status select_implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<SelectArgs>();
  const bool aligned = is_aligned(args.mask);
  switch (args.item) {
    case 1: return start<&select_kernel<std::uint8_t>>(on, tiles_grid(args), args, aligned);
    case 2: return start<&select_kernel<std::uint16_t>>(on, tiles_grid(args), args, aligned);
    case 4: return start<&select_kernel<std::uint32_t>>(on, tiles_grid(args), args, aligned);
    case 8: return start<&select_kernel<std::uint64_t>>(on, tiles_grid(args), args, aligned);
    default: return start<&select_kernel<ulonglong2>>(on, tiles_grid(args), args, aligned);
  }
}

Status nonzero_implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<SelectArgs>();
  const bool aligned = is_aligned(args.mask);
  if (args.count <= UINT32_MAX)
    return start<&nonzero_kernel<std::uint32_t>>(on, tiles_grid(args), args, aligned);
  return start<&nonzero_kernel<std::uint64_t>>(on, tiles_grid(args), args, aligned);
}

constexpr NamedImplementation implementations[] = {
    {"count_chosen", &count_implementation},
    {"masked_select", &select_implementation},
    {"nonzero", &nonzero_implementation},
};
const Implementations table(implementations, driver::arguments<CountArgs, SelectArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
