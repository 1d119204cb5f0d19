// Sorting short rows in shared memory: where there are many, a block has as many as fit.
#pragma once

#include "ember/driver/cuda/launch.h"
#include "ember/ops/cuda/block.cuh"
#include "ember/ops/sort_args.h"

namespace ember::inline v0::ops::cuda {

struct ShortRows {
  const void* in;  ///< rows of n elements
  void* values;    ///< rows of k elements
  std::int64_t* indices;
  std::int64_t rows;
  std::uint32_t n, k;
  std::uint32_t size;    ///< n, rounded up to a power of two
  std::uint32_t groups;  ///< rows that a block takes at once
  KeyOrder order;
};
EMBER_ARGUMENTS(ShortRows, EMBER_FIELD(in), EMBER_FIELD(values), EMBER_FIELD(indices),
                EMBER_FIELD(rows), EMBER_FIELD(n), EMBER_FIELD(k), EMBER_FIELD(size),
                EMBER_FIELD(groups), EMBER_FIELD(order))

/// `kRoom` elements fit into a block.
template <class Key, int kRoom, int kShortThreads>
__global__ void __launch_bounds__(kShortThreads) short_rows_kernel(ShortRows args) {
  __shared__ Key keys[kRoom];
  __shared__ std::uint32_t positions[kRoom];
  const unsigned entries = args.size * args.groups;
  const unsigned shift = __ffs(static_cast<int>(args.size)) - 1;
  const std::int64_t stride = std::int64_t{gridDim.x} * args.groups;
  for (std::int64_t first = std::int64_t{blockIdx.x} * args.groups; first < args.rows;
       first += stride) {
    const Key* in = static_cast<const Key*>(args.in) + first * args.n;
    const std::int64_t rows = args.rows - first;
    for (unsigned e = threadIdx.x; e < entries; e += kShortThreads) {
      const unsigned row = e >> shift;
      const unsigned i = e & (args.size - 1);
      const bool valid = row < rows && i < args.n;
      // What fills a run up comes last, behind equal keys too.
      keys[e] =
          valid ? args.order.key(in[std::size_t{row} * args.n + i]) : static_cast<Key>(~Key{0});
      positions[e] = valid ? i : ~0U;
    }
    sort_runs<Block<kShortThreads>>(keys, positions, entries, args.size);
    for (unsigned e = threadIdx.x; e < entries; e += kShortThreads) {
      const unsigned row = e >> shift;
      const unsigned i = e & (args.size - 1);
      if (row >= rows || i >= args.k) continue;
      const std::uint32_t position = positions[e];
      const std::int64_t out = (first + row) * args.k + i;
      static_cast<Key*>(args.values)[out] = in[std::size_t{row} * args.n + position];
      args.indices[out] = position;
    }
    __syncthreads();
  }
}

/// One launch. n is at most kRoom.
template <class Key, int kRoom = kShortRow, int kShortThreads = 256>
Status sort_short_rows(ShortRows args, const driver::CudaLaunch& on) {
  args.size = 1;
  while (args.size < args.n) args.size *= 2;
  // A block of one row is through earlier than one of several.
  constexpr std::int64_t kBlocks = 512;  // four for each multiprocessor of an H200
  const std::int64_t most = kRoom / args.size;
  const std::int64_t wanted = (args.rows + kBlocks - 1) / kBlocks;
  args.groups = static_cast<std::uint32_t>(wanted < most ? wanted : most);
  const std::int64_t blocks = (args.rows + args.groups - 1) / args.groups;
  const driver::cuda::Grid grid{static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20),
                                kShortThreads};
  return driver::cuda::start<&short_rows_kernel<Key, kRoom, kShortThreads>>(on, grid, args);
}

}  // namespace ember::inline v0::ops::cuda
