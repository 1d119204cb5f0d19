#include "ember/driver/cuda/columns.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/cat_args.h"
#include "ember/ops/cuda/units.cuh"

namespace ember::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::Columns;
using driver::cuda::Grid;
using driver::cuda::NamedColumn;

constexpr int kThreads = 128;
template <class Unit>
constexpr int kTile = static_cast<int>(cat_tile(sizeof(Unit)));

/// Tiles of one input, in the order of the inputs.
__host__ __device__ std::int64_t tiles(std::int64_t rows, std::int64_t length, std::int64_t tile) {
  return (rows * length + tile - 1) / tile;
}

/// The last entry whose first tile is not behind `tile`. All threads of the block look at once: an
/// answer from memory takes as long as copying a tile does.
__device__ __forceinline__ std::int64_t entry_of(std::int64_t tile, const CatEntry* table,
                                                 std::int64_t count) {
  std::int64_t low = 0;
  for (std::int64_t left = count;;) {
    const std::int64_t step = (left + kThreads - 1) / kThreads;
    const std::int64_t mine = threadIdx.x * step;
    const int reached = __syncthreads_count(mine < left && table[low + mine].first_tile <= tile);
    const std::int64_t passed = (reached - 1) * step;
    low += passed;
    if (step == 1) return low;
    left = left - passed < step ? left - passed : step;
  }
}

template <class Unit>
__global__ void __launch_bounds__(kThreads) cat_kernel(const __grid_constant__ CatArgs args) {
  constexpr int kSize = kTile<Unit>;
  constexpr int kEach = kSize / kThreads;

  // Which input this block's tile belongs to, and which of its tiles it is.
  std::int64_t tile = blockIdx.x;
  std::int64_t begin = args.begin;
  CatPart part;
  if (args.table == nullptr) {
    int i = 0;
    for (;;) {
      const std::int64_t here = tiles(args.rows, args.parts[i].end - begin, kSize);
      if (tile < here || i + 1 == args.count) break;
      tile -= here;
      begin = args.parts[i++].end;
    }
    part = args.parts[i];
  } else {
    const std::int64_t low = entry_of(tile, args.table, args.count);
    tile -= args.table[low].first_tile;
    part = args.table[low].part;
    if (low > 0) begin = args.table[low - 1].part.end;
  }

  const std::int64_t length = part.end - begin;
  const std::int64_t first = tile * kSize;
  const std::int64_t rest = args.rows * length - first;
  const Unit* in = static_cast<const Unit*>(part.data) + first;
  Unit value[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = e * kThreads + static_cast<int>(threadIdx.x);
    if (i < rest) value[e] = in[i];
  }

  const std::int64_t row = args.rows > 1 ? first / length : 0;  // of the tile's first unit
  const std::int64_t column = first - row * length;
  Unit* out = static_cast<Unit*>(args.out) + row * args.pitch + begin;
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = e * kThreads + static_cast<int>(threadIdx.x);
    if (i >= rest) break;
    std::int64_t at = column + i;
    if (at >= length) {  // in a later row
      const std::int64_t rows =
          length <= INT32_MAX ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(length)
                              : 1;
      at += rows * (args.pitch - length);
    }
    out[at] = value[e];
  }
}

template <class Unit>
Status column(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<CatArgs>();
  std::int64_t blocks = 0;
  if (args.table != nullptr) {
    blocks = args.tiles;
  } else {
    std::int64_t begin = args.begin;
    for (std::int64_t i = 0; i < args.count; ++i) {
      blocks += tiles(args.rows, args.parts[i].end - begin, kTile<Unit>);
      begin = args.parts[i].end;
    }
  }
  const Grid grid{static_cast<unsigned>(blocks), kThreads};
  return driver::cuda::start<&cat_kernel<Unit>>(on, grid, args);
}

constexpr NamedColumn columns[] = {
    {"cat.1", &column<Unit<1>>}, {"cat.2", &column<Unit<2>>},   {"cat.4", &column<Unit<4>>},
    {"cat.8", &column<Unit<8>>}, {"cat.16", &column<Unit<16>>},
};
const Columns table(columns);

}  // namespace
}  // namespace ember::ops::cuda
