#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/ops/cat_args.h"
#include "ember/ops/cuda/units.cuh"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;

constexpr int kThreads = 128;
/// Units of one input that one block moves: 4 KiB, at which an H200 copies fastest, or 2048 bytes
/// one by one.
template <class Unit>
constexpr int kTile = sizeof(Unit) > 1 ? 4096 / static_cast<int>(sizeof(Unit)) : 2048;

struct CatEntry {
  CatPart part;
  unsigned first_tile;  ///< tiles are in the order of the inputs
};
EMBER_ARGUMENTS(CatEntry, EMBER_FIELD(part), EMBER_FIELD(first_tile))

/// What one launch gets: the inputs travel with it, so that nothing has to be copied before.
template <int N>
struct CatGrid {
  void* out;
  std::int64_t rows;
  std::int64_t pitch;
  std::int64_t begin;
  int count;
  CatEntry entries[N];
};
template <int N>
[[maybe_unused]] constexpr auto fields_of(const CatGrid<N>*) noexcept {
  using Type = CatGrid<N>;
  return std::to_array<driver::layout::Field>({EMBER_FIELD(out), EMBER_FIELD(entries)});
}
template <int N>
[[maybe_unused]] constexpr const CatGrid<N>* stated_type(const CatGrid<N>* of) noexcept {
  return of;
}

/// Where the units of a tile lie in rows that have `columns` of them and are `pitch` apart.
struct Rows {
  std::int64_t columns;
  std::int64_t gap;     ///< units between rows
  std::int64_t row;     ///< where the row of the first unit begins
  std::int64_t column;  ///< of the first unit

  __device__ Rows(std::int64_t first, std::int64_t of_row, std::int64_t pitch)
      : columns(of_row), gap(pitch - of_row) {
    const std::int64_t number = first < columns ? 0 : first / columns;
    row = number * pitch;
    column = first - number * columns;
  }
  /// `i`: units after the first, less than a tile.
  __device__ __forceinline__ std::int64_t place(int i) const {
    const std::int64_t at = column + i;
    if (at < columns) return row + at;
    const std::int64_t rows_down =
        columns <= INT32_MAX ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(columns)
                             : 1;
    return row + at + rows_down * gap;
  }
};

template <class Unit, int N>
__global__ void __launch_bounds__(kThreads) cat_kernel(const __grid_constant__ CatGrid<N> args) {
  constexpr int kSize = kTile<Unit>;
  constexpr int kEach = kSize / kThreads;

  // Which input this block's tile belongs to: the last whose first tile is not behind it.
  int low = 0;
  if constexpr (N > 1)
    for (int high = args.count; high - low > 1;) {
      const int middle = (low + high) / 2;
      if (args.entries[middle].first_tile <= blockIdx.x)
        low = middle;
      else
        high = middle;
    }
  const std::int64_t tile = blockIdx.x - args.entries[low].first_tile;
  const CatPart part = args.entries[low].part;
  const std::int64_t begin = low > 0 ? args.entries[low - 1].part.end : args.begin;

  const std::int64_t length = part.end - begin;
  const std::int64_t first = tile * kSize;
  const std::int64_t rest = args.rows * length - first;
  const Unit* in = static_cast<const Unit*>(part.data);
  const Rows from(first, part.columns, part.pitch);
  Unit value[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = e * kThreads + static_cast<int>(threadIdx.x);
    if (i >= rest) break;
    value[e] = in[from.place(i)];
  }
  Unit* out = static_cast<Unit*>(args.out) + begin;
  const Rows to(first, length, args.pitch);
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    const int i = e * kThreads + static_cast<int>(threadIdx.x);
    if (i >= rest) break;
    out[to.place(i)] = value[e];
  }
}

/// Inputs number `from` and the `count` - 1 after it.
template <class Unit, int N>
Status launch(const CatArgs& args, std::int64_t from, std::int64_t count, const CudaLaunch& on) {
  const CatPart* inputs = args.inputs(on);
  CatGrid<N> given;
  given.out = args.out;
  given.rows = args.rows;
  given.pitch = args.pitch;
  given.begin = from == 0 ? args.begin : inputs[from - 1].end;
  given.count = static_cast<int>(count);
  std::int64_t blocks = 0;
  for (std::int64_t i = 0, begin = given.begin; i < count; begin = inputs[from + i++].end) {
    given.entries[i] = {inputs[from + i], static_cast<unsigned>(blocks)};
    const std::int64_t units = args.rows * (inputs[from + i].end - begin);
    blocks += (units + kTile<Unit> - 1) / kTile<Unit>;
  }
  const Grid grid{static_cast<unsigned>(blocks), kThreads};
  return driver::cuda::start<&cat_kernel<Unit, N>>(on, grid, given);
}

template <class Unit>
Status implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<CatArgs>();
  if (args.count == 1) return launch<Unit, 1>(args, 0, 1, on);
  if (args.count <= kCatParts) return launch<Unit, kCatParts>(args, 0, args.count, on);
  if (args.count <= 128) return launch<Unit, 128>(args, 0, args.count, on);
  constexpr std::int64_t kMost = 800;
  static_assert(sizeof(CatGrid<kMost>) <= 32764, "CUDA takes no more arguments");
  for (std::int64_t from = 0; from < args.count; from += kMost) {
    const std::int64_t left = args.count - from;
    Status status = launch<Unit, kMost>(args, from, left < kMost ? left : kMost, on);
    if (!status.ok()) return status;
  }
  return {};
}

constexpr NamedImplementation implementations[] = {
    {"cat.1", &implementation<Unit<1>>},   {"cat.2", &implementation<Unit<2>>},
    {"cat.4", &implementation<Unit<4>>},   {"cat.8", &implementation<Unit<8>>},
    {"cat.16", &implementation<Unit<16>>},
};
const Implementations table(implementations, driver::arguments<CatArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
