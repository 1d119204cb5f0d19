// topk of many rows: a warp has a row of its own, so that nothing waits for a block. What may still
// be among the first k lies in shared memory; hardly more than that gets there, because there is a
// bound before anything is written down.
#pragma once

#include "ember/driver/cuda/launch.h"
#include "ember/ops/cuda/block.cuh"
#include "ember/ops/key_order.h"

namespace ember::inline v0::ops::cuda {

struct WarpRows {
  const void* in;         ///< rows of n elements
  void* values;           ///< rows of k elements, first ones first
  std::int64_t* indices;  ///< the same
  std::int64_t rows;
  std::uint32_t n, k;
  KeyOrder order;
};
EMBER_ARGUMENTS(WarpRows, EMBER_FIELD(in), EMBER_FIELD(values), EMBER_FIELD(indices),
                EMBER_FIELD(rows), EMBER_FIELD(n), EMBER_FIELD(k), EMBER_FIELD(order))

constexpr int kWarpsOfBlock = 8;
constexpr int kWarpStep = 8;  ///< elements of a lane that are on their way at once

/// What a warp knows of its row.
template <class Key>
struct WarpCandidates {
  static constexpr unsigned kRoom = 128;
  Key* keys;  ///< in shared memory, as positions
  std::uint32_t* positions;
  unsigned count = 0;
  // The last element that may be among the first k. Later ones lose against equal earlier ones.
  Key bound = static_cast<Key>(~Key{0});
  std::uint32_t bound_at = ~0U;

  /// Puts them in order, behind which nothing matters.
  __device__ void sort() {
    unsigned size = Warp::kThreads;
    while (size < count) size *= 2;
    for (unsigned i = count + Warp::rank(); i < size; i += Warp::kThreads) {
      keys[i] = static_cast<Key>(~Key{0});
      positions[i] = ~0U;
    }
    sort_runs<Warp>(keys, positions, size, size);
  }

  /// Drops all but the first k, of which there are as many.
  __device__ void keep(unsigned k) {
    sort();
    count = k;
    bound = keys[k - 1];
    bound_at = positions[k - 1];
    Warp::wait();
  }

  /// An element of each lane, or none.
  __device__ void add(Key key, std::uint32_t position, bool valid, unsigned k) {
    const bool passes = valid && (key < bound || (key == bound && position <= bound_at));
    const unsigned passing = __ballot_sync(kAllLanes, passes);
    if (passing == 0) return;
    if (passes) {
      const unsigned place = count + __popc(passing & ((1U << Warp::rank()) - 1));
      keys[place] = key;
      positions[place] = position;
    }
    count += __popc(passing);
    if (count > kRoom - Warp::kThreads) keep(k);
  }
};

/// A bound from the first elements: of the lanes' own first ones, each by key and position, k are
/// not behind the k-th. For small k hardly any others are.
template <class Key>
__device__ void bound_by_lanes(WarpCandidates<Key>& all, const Key* in, const WarpRows& args) {
  constexpr std::uint32_t kMost = 1024;  // they are read twice
  const std::uint32_t end = args.n < kMost ? args.n : kMost;
  Key least = static_cast<Key>(~Key{0});
  std::uint32_t least_at = ~0U;
  for (std::uint32_t first = 0; first < end; first += kWarpStep * Warp::kThreads) {
    Key now[kWarpStep];
#pragma unroll
    for (unsigned j = 0; j < kWarpStep; ++j) {
      const std::uint32_t i = first + j * Warp::kThreads + Warp::rank();
      now[j] = i < end ? in[i] : Key{0};
    }
#pragma unroll
    for (unsigned j = 0; j < kWarpStep; ++j) {
      const std::uint32_t i = first + j * Warp::kThreads + Warp::rank();
      const Key key = args.order.key(now[j]);
      if (i < end && (key < least || least_at == ~0U)) {
        least = key;
        least_at = i;
      }
    }
  }
  all.keys[Warp::rank()] = least;
  all.positions[Warp::rank()] = least_at;
  all.count = Warp::kThreads;
  all.keep(args.k);
  all.count = 0;
}

template <class Key>
__global__ void __launch_bounds__(32 * kWarpsOfBlock) topk_rows_kernel(WarpRows args) {
  constexpr unsigned kRoom = WarpCandidates<Key>::kRoom;
  __shared__ Key keys[kWarpsOfBlock * kRoom];
  __shared__ std::uint32_t positions[kWarpsOfBlock * kRoom];
  const unsigned warp = threadIdx.x / 32;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kWarpsOfBlock + warp; row < args.rows;
       row += std::int64_t{gridDim.x} * kWarpsOfBlock) {
    const Key* in = static_cast<const Key*>(args.in) + row * args.n;
    WarpCandidates<Key> all{keys + warp * kRoom, positions + warp * kRoom};
    bound_by_lanes(all, in, args);
    for (std::uint32_t first = 0; first < args.n; first += kWarpStep * Warp::kThreads) {
      Key now[kWarpStep];
#pragma unroll
      for (unsigned j = 0; j < kWarpStep; ++j) {
        const std::uint32_t i = first + j * Warp::kThreads + Warp::rank();
        now[j] = i < args.n ? in[i] : Key{0};
      }
#pragma unroll
      for (unsigned j = 0; j < kWarpStep; ++j) {
        const std::uint32_t i = first + j * Warp::kThreads + Warp::rank();
        all.add(args.order.key(now[j]), i, i < args.n, args.k);
      }
    }
    all.sort();
    if (Warp::rank() < args.k) {
      const std::int64_t out = row * args.k + Warp::rank();
      const std::uint32_t position = all.positions[Warp::rank()];
      static_cast<Key*>(args.values)[out] = in[position];
      args.indices[out] = position;
    }
    Warp::wait();
  }
}

/// Whether rows of n elements, each lane having some, are for warps. On an H200 they take a fourth
/// of the time of blocks where 4,000 rows have 1,000 elements each, half of it where they have
/// 4,000, and the same at these limits: of longer rows too few are under way, and where many are
/// chosen the lanes' first ones say little.
constexpr bool suits_warps(std::int64_t rows, std::int64_t n, std::int64_t k) {
  if (n <= 256) return false;
  return k <= 16 ? n <= 4096 && n <= 4 * rows : k <= 32 && n <= 1024 && rows >= 1024;
}

/// One launch.
template <class Key>
Status start_topk_rows(const driver::CudaLaunch& on, const WarpRows& args) {
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t blocks = (args.rows + kWarpsOfBlock - 1) / kWarpsOfBlock;
  return driver::cuda::start<&topk_rows_kernel<Key>>(
      on, {static_cast<unsigned>(blocks < kMost ? blocks : kMost), 32 * kWarpsOfBlock}, args);
}

}  // namespace ember::inline v0::ops::cuda
