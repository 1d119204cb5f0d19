#include <cstdint>

#include "ember/driver/cuda/launch.h"
#include "ember/ops/cuda/divider.cuh"
#include "ember/ops/cuda/transpose.h"
#include "ember/ops/functors.h"

namespace ember::inline v0::ops::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRest = kLoopDims - 2;
constexpr std::uint32_t kShort = 16;  // below this a tile would be mostly empty

/// Where the tiles lie. `x` is the dimension in which the output is fastest, `y` that of the input;
/// the others are walked tile by tile.
struct Tiles {
  Divider across_x;  ///< number of tiles along x
  Divider across_y;
  std::uint32_t size_x, size_y;
  std::int32_t in_x;   ///< the input's stride along x; along y it is 1
  std::int32_t out_y;  ///< the output's stride along y; along x it is 1
  int rest;
  Divider size[kRest];
  std::int32_t in[kRest], out[kRest];
};

/// Elements of a side of a tile: a tile is at most 33 KiB, and rows of it are read and written by
/// whole warps.
template <class T>
constexpr int side = sizeof(T) == 16  ? 32
                     : sizeof(T) <= 2 ? 128
                                      : 64;

/// A row of the tile in shared memory takes an odd number of words (or of elements, where those are
/// larger), so that a column lies in all banks.
template <class T>
constexpr int pitch = side<T> + (sizeof(T) >= 4 ? 1 : 4 / static_cast<int>(sizeof(T)));

template <class T>
__global__ void __launch_bounds__(kThreads) transpose_kernel(T* out, const T* in, Tiles tiles) {
  constexpr int kSide = side<T>;
  constexpr int kRows = kThreads / kSide;  // that are moved at once
  constexpr int kSteps = kSide / kRows;
  __shared__ T tile[kSide * pitch<T>];

  // Neighbouring blocks write neighbouring places.
  std::uint32_t rest = tiles.across_x.quotient(blockIdx.x);
  const std::uint32_t x0 = (blockIdx.x - rest * tiles.across_x.divisor) * kSide;
  std::uint32_t next = tiles.across_y.quotient(rest);
  const std::uint32_t y0 = (rest - next * tiles.across_y.divisor) * kSide;
  rest = next;
#pragma unroll
  for (int d = 0; d < kRest; ++d) {
    if (d >= tiles.rest) break;
    next = d + 1 == tiles.rest ? 0 : tiles.size[d].quotient(rest);
    const auto index = static_cast<std::int64_t>(rest - next * tiles.size[d].divisor);
    in += index * tiles.in[d];
    out += index * tiles.out[d];
    rest = next;
  }

  const std::uint32_t lane = threadIdx.x % kSide;
  const std::uint32_t row = threadIdx.x / kSide;
  const std::uint32_t left_x = tiles.size_x - x0;
  const std::uint32_t left_y = tiles.size_y - y0;
  in += std::int64_t{x0} * tiles.in_x + y0 + lane;
  out += std::int64_t{y0} * tiles.out_y + x0 + lane;

  if (left_x >= kSide && left_y >= kSide) {
    T values[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
      values[s] = in[static_cast<std::int64_t>(row + s * kRows) * tiles.in_x];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) tile[(row + s * kRows) * pitch<T> + lane] = values[s];
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
      out[static_cast<std::int64_t>(row + s * kRows) * tiles.out_y] =
          tile[lane * pitch<T> + row + s * kRows];
    return;
  }
  for (std::uint32_t x = row; x < kSide && x < left_x; x += kRows)
    if (lane < left_y) tile[x * pitch<T> + lane] = in[std::int64_t{x} * tiles.in_x];
  __syncthreads();
  for (std::uint32_t y = row; y < kSide && y < left_y; y += kRows)
    if (lane < left_x) out[std::int64_t{y} * tiles.out_y] = tile[lane * pitch<T> + y];
}

/// The dimension in which the input is fastest; 0 if there is none but that of the output.
int input_dim(const Loop& loop) noexcept {
  for (int d = 1; d < loop.dims; ++d)
    if (loop.stride[1][d] == 1) return d;
  return 0;
}

template <class T>
Status run(const Loop& loop, const driver::CudaLaunch& on) {
  const int y = input_dim(loop);
  Tiles tiles{};
  tiles.size_x = loop.size[0];
  tiles.size_y = loop.size[y];
  tiles.in_x = loop.stride[1][0];
  tiles.out_y = loop.stride[0][y];
  tiles.across_x = Divider((tiles.size_x + side<T> - 1) / side<T>);
  tiles.across_y = Divider((tiles.size_y + side<T> - 1) / side<T>);
  // At most 2^31 elements make fewer blocks than that.
  std::uint32_t blocks = tiles.across_x.divisor * tiles.across_y.divisor;
  for (int d = 1; d < loop.dims; ++d) {
    if (d == y) continue;
    tiles.size[tiles.rest] = Divider(loop.size[d]);
    tiles.in[tiles.rest] = loop.stride[1][d];
    tiles.out[tiles.rest] = loop.stride[0][d];
    ++tiles.rest;
    blocks *= loop.size[d];
  }
  return driver::cuda::start<&transpose_kernel<T>>(on, driver::cuda::Grid{blocks, kThreads},
                                                   static_cast<T*>(loop.data[0]),
                                                   static_cast<const T*>(loop.data[1]), tiles);
}

}  // namespace

bool transposes(const Loop& loop) noexcept {
  if (loop.flat() || loop.number[1] >= 0) return false;
  if (loop.stride[0][0] != 1 || loop.stride[1][0] < 2 || loop.size[0] < kShort) return false;
  const int y = input_dim(loop);
  return y > 0 && loop.size[y] >= kShort;
}

Status transpose(const Loop& loop, const driver::CudaLaunch& on, std::size_t item) {
  switch (item) {
    case 1: return run<BitsOfSize<1>>(loop, on);
    case 2: return run<BitsOfSize<2>>(loop, on);
    case 4: return run<BitsOfSize<4>>(loop, on);
    case 8: return run<BitsOfSize<8>>(loop, on);
    default: return run<BitsOfSize<16>>(loop, on);
  }
}

}  // namespace ember::inline v0::ops::cuda
