// The CUDA implementations of topk. A block reads a row once and keeps what may still be among the
// first k; when there are too many of those, all but the k first are dropped, and the last of them
// becomes the bound for what is read afterwards.
#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/short_rows.cuh"
#include "ember/ops/cuda/topk_rows.cuh"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;
using driver::cuda::start;

constexpr int kThreads = 256;
/// Rows up to this length are sorted, but where warps suit them.
constexpr std::int64_t kFew = 512;

struct Row {
  const void* in;
  const std::int64_t* from;  ///< where the elements came from; null: they lie in order
  void* values;
  std::int64_t* indices;
  std::int64_t rows, n;
  std::uint32_t k;
  TopkParts parts;
  KeyOrder order;
};
EMBER_ARGUMENTS(Row, EMBER_FIELD(in), EMBER_FIELD(from), EMBER_FIELD(values), EMBER_FIELD(indices),
                EMBER_FIELD(rows), EMBER_FIELD(n), EMBER_FIELD(k), EMBER_FIELD(parts),
                EMBER_FIELD(order))

template <class Key>
constexpr int kItems = sizeof(Key) == 8 ? 8 : 16;  ///< elements of a thread, all in flight at once

/// A block's shared memory: before each step there is room for all elements of the step.
template <class Key>
struct Candidates {
  Key keys[kThreads * kItems<Key> + kMaxChosen];
  std::uint32_t positions[kThreads * kItems<Key> + kMaxChosen];
  unsigned count;
  unsigned histogram[256];
  unsigned scratch[kThreads / 32];
  unsigned digit, below, inside;
};

/// Which elements can still be among the first: those whose keys are not above `key`.
template <class Key>
struct Bound {
  Key key = static_cast<Key>(~Key{0});
  bool closed = false;  ///< no element at all: later ones lose against equal earlier ones
};

/// Drops all candidates but the k first (there are more than k). A barrier for the block before and
/// after.
template <class Key>
__device__ void prune(Candidates<Key>& all, unsigned k, Bound<Key>& bound) {
  constexpr int kKeyBytes = static_cast<int>(sizeof(Key));
  __syncthreads();
  const unsigned count = all.count;
  // The k-th candidate, eight bits at a time: first of its key, then of its position.
  Key key_prefix = 0;
  Key key_mask = 0;
  std::uint32_t position_prefix = 0;
  std::uint32_t position_mask = 0;
  unsigned needed = k;
  for (int pass = 0; pass < kKeyBytes + 4; ++pass) {
    const bool in_key = pass < kKeyBytes;
    const int shift = 8 * (in_key ? kKeyBytes - 1 - pass : kKeyBytes + 3 - pass);
    all.histogram[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += kThreads) {
      const Key key = all.keys[i];
      const std::uint32_t position = all.positions[i];
      if (((key ^ key_prefix) & key_mask) != 0 ||
          ((position ^ position_prefix) & position_mask) != 0)
        continue;
      const unsigned digit =
          in_key ? static_cast<unsigned>(key >> shift) & 255U : (position >> shift) & 255U;
      atomicAdd(&all.histogram[digit], 1U);
    }
    __syncthreads();
    const unsigned here = all.histogram[threadIdx.x];
    unsigned total = 0;
    const unsigned below = sum_before<kThreads>(here, all.scratch, total);
    if (below < needed && needed <= below + here) {
      all.digit = threadIdx.x;
      all.below = below;
      all.inside = here;
    }
    __syncthreads();
    needed -= all.below;
    if (in_key) {
      key_prefix = static_cast<Key>(key_prefix | static_cast<Key>(Key(all.digit) << shift));
      key_mask = static_cast<Key>(key_mask | static_cast<Key>(Key{255} << shift));
    } else {
      position_prefix |= all.digit << shift;
      position_mask |= 255U << shift;
    }
    if (all.inside == needed) break;  // everything with this beginning belongs to the first k
  }
  if (key_mask != static_cast<Key>(~Key{0}))
    bound.key = static_cast<Key>(key_prefix | static_cast<Key>(~key_mask));
  else if (key_prefix != 0)
    bound.key = static_cast<Key>(key_prefix - 1);
  else
    bound.closed = true;

  if (threadIdx.x == 0) all.count = 0;
  __syncthreads();
  for (unsigned first = 0; first < count; first += kThreads) {
    const unsigned i = first + threadIdx.x;
    Key key = 0;
    std::uint32_t position = 0;
    bool keep = false;
    if (i < count) {
      key = all.keys[i];
      position = all.positions[i];
      const Key beginning = static_cast<Key>(key & key_mask);
      keep = beginning < key_prefix ||
             (beginning == key_prefix && (position & position_mask) <= position_prefix);
    }
    __syncthreads();  // the places written below have been read, in this round or before
    if (keep) {
      const unsigned place = atomicAdd(&all.count, 1U);
      all.keys[place] = key;
      all.positions[place] = position;
    }
  }
  __syncthreads();
}

/// A bound from the first step, so that few of its elements have to be written down, looked at and
/// dropped again. `least` is the first by key of a thread's elements, or the last key of all if it
/// has none: at least k elements are not above the k-th of these, and for small k hardly more. A
/// barrier for the block before and after.
template <class Key>
__device__ void bound_by_least(Candidates<Key>& all, Key least, unsigned k, Bound<Key>& bound) {
  all.keys[threadIdx.x] = least;
  all.positions[threadIdx.x] = threadIdx.x;
  sort_runs<Block<kThreads>>(all.keys, all.positions, kThreads, kThreads);
  bound.key = all.keys[k - 1];
  __syncthreads();
}

/// One part of one row, from `in` on. Afterwards `all` has its k first elements, in any order, and
/// perhaps others, if there are no more than kThreads.
template <class Key>
__device__ void choose(Candidates<Key>& all, const Key* in, std::uint32_t length, unsigned k,
                       const KeyOrder& order) {
  constexpr unsigned kStep = kThreads * kItems<Key>;
  Bound<Key> bound;
  if (threadIdx.x == 0) all.count = 0;
  __syncthreads();
  const auto load = [&](Key(&to)[kItems<Key>], std::uint64_t first) {
    const Key* from = in + first + threadIdx.x;
    if (first + kStep <= length) {
#pragma unroll
      for (int j = 0; j < kItems<Key>; ++j) to[j] = from[j * kThreads];
      return;
    }
#pragma unroll
    for (int j = 0; j < kItems<Key>; ++j)
      to[j] = first + j * kThreads + threadIdx.x < length ? from[j * kThreads] : Key{0};
  };
  Key next[kItems<Key>];
  load(next, 0);
  for (std::uint64_t first = 0; first < length && !bound.closed; first += kStep) {
    Key now[kItems<Key>];
#pragma unroll
    for (int j = 0; j < kItems<Key>; ++j) now[j] = next[j];
    if (first + kStep < length) load(next, first + kStep);  // on its way while this step is judged
    unsigned passing = (1U << kItems<Key>)-1;
    if (first + kStep > length) {
#pragma unroll
      for (int j = 0; j < kItems<Key>; ++j)
        if (first + j * kThreads + threadIdx.x >= length) passing &= ~(1U << j);
    }
#pragma unroll
    for (int j = 0; j < kItems<Key>; ++j) now[j] = order.key(now[j]);
    if (first == 0 && k <= kThreads) {
      Key least = static_cast<Key>(~Key{0});
#pragma unroll
      for (int j = 0; j < kItems<Key>; ++j)
        if ((passing >> j & 1U) != 0 && now[j] < least) least = now[j];
      bound_by_least(all, least, k, bound);
    }
#pragma unroll
    for (int j = 0; j < kItems<Key>; ++j)
      if (now[j] > bound.key) passing &= ~(1U << j);
    bool crowded = false;
    if (__any_sync(kAllLanes, passing != 0)) {
      const unsigned mine = __popc(passing);
      const unsigned to_lane = sum_to_lane(mine);
      const unsigned sum = __shfl_sync(kAllLanes, to_lane, 31);
      unsigned begin = 0;
      if (threadIdx.x % 32 == 0) begin = atomicAdd(&all.count, sum);
      begin = __shfl_sync(kAllLanes, begin, 0);
      crowded = begin + sum > kMaxChosen;  // no room for all of the next step
      unsigned place = begin + to_lane - mine;
#pragma unroll
      for (int j = 0; j < kItems<Key>; ++j) {
        if ((passing >> j & 1U) == 0) continue;
        all.keys[place] = now[j];
        all.positions[place] = static_cast<std::uint32_t>(first) + j * kThreads + threadIdx.x;
        ++place;
      }
    }
    // Asking for the count itself would race with warps that are a step ahead.
    if (__syncthreads_or(crowded)) prune(all, k, bound);
  }
  __syncthreads();
  if (all.count > k && all.count > kThreads) prune(all, k, bound);
}

template <class Key>
__global__ void __launch_bounds__(kThreads) topk_kernel(Row row) {
  __shared__ Candidates<Key> all;
  const std::int64_t work = row.rows * row.parts.count;
  for (std::int64_t w = blockIdx.x; w < work; w += gridDim.x) {
    const std::int64_t r = w / row.parts.count;
    const std::int64_t part = w - r * row.parts.count;
    const std::int64_t begin = part * row.parts.size;
    const std::int64_t rest = row.n - begin;
    const auto length = static_cast<std::uint32_t>(rest < row.parts.size ? rest : row.parts.size);
    const unsigned k = row.k < length ? row.k : length;
    const Key* in = static_cast<const Key*>(row.in) + r * row.n + begin;
    choose(all, in, length, k, row.order);
    const unsigned count = all.count;
    unsigned size = 1;
    while (size < count) size *= 2;
    for (unsigned i = count + threadIdx.x; i < size; i += kThreads) {
      all.keys[i] = static_cast<Key>(~Key{0});
      all.positions[i] = ~0U;
    }
    sort_runs<Block<kThreads>>(all.keys, all.positions, size, size);
    const std::int64_t out = r * row.parts.kept + part * row.k;
    for (unsigned i = threadIdx.x; i < k; i += kThreads) {
      const std::uint32_t position = all.positions[i];
      static_cast<Key*>(row.values)[out + i] = in[position];
      row.indices[out + i] =
          row.from == nullptr ? begin + position : row.from[r * row.n + begin + position];
    }
    __syncthreads();
  }
}

template <class Key>
Status start_topk(const CudaLaunch& on, const Row& row) {
  constexpr std::int64_t kMost = 1 << 30;
  const std::int64_t work = row.rows * row.parts.count;
  return start<&topk_kernel<Key>>(
      on, Grid{static_cast<unsigned>(work < kMost ? work : kMost), kThreads}, row);
}

/// Where scratch memory keeps the results of the parts: their indices, then their values.
template <class Key>
struct Spare {
  TopkParts parts;
  std::size_t values = 0;
  std::size_t bytes = 0;  ///< 0: rows are not divided

  explicit Spare(const TopkArgs& args) : parts(topk_parts(args.rows, args.n, args.k)) {
    if (args.n <= kFew || parts.count == 1) return;
    const auto places = static_cast<std::size_t>(args.rows * parts.kept);
    values = places * sizeof(std::int64_t);
    bytes = values + places * sizeof(Key);
  }
};

template <class Key>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  out.scratch = Spare<Key>(params.as<TopkArgs>()).bytes;
  return {};
}

template <class Key>
Status implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<TopkArgs>();
  const auto k = static_cast<std::uint32_t>(args.k);
  if (suits_warps(args.rows, args.n, args.k))
    return start_topk_rows<Key>(on, {args.in, args.values, args.indices, args.rows,
                                     static_cast<std::uint32_t>(args.n), k, args.order});
  if (args.n <= kFew)
    return sort_short_rows<Key>({args.in, args.values, args.indices, args.rows,
                                 static_cast<std::uint32_t>(args.n), k, 0, 0, args.order},
                                on);
  const Spare<Key> spare(args);
  if (spare.parts.count == 1)
    return start_topk<Key>(on, {args.in, nullptr, args.values, args.indices, args.rows, args.n, k,
                                spare.parts, args.order});
  auto* const indices = static_cast<std::int64_t*>(args.scratch);
  void* const values = static_cast<std::byte*>(args.scratch) + spare.values;
  EMBER_TRY(start_topk<Key>(
      on, {args.in, nullptr, values, indices, args.rows, args.n, k, spare.parts, args.order}));
  const std::int64_t kept = spare.parts.kept;
  return start_topk<Key>(on, {values,
                              indices,
                              args.values,
                              args.indices,
                              args.rows,
                              kept,
                              k,
                              {1, kept, args.k},
                              args.order});
}

template <class Key>
constexpr driver::CudaImplementation with_needs{&implementation<Key>, &needs<Key>};

constexpr NamedImplementation implementations[] = {
    {"topk.bool", with_needs<std::uint8_t>},     {"topk.uint8", with_needs<std::uint8_t>},
    {"topk.int8", with_needs<std::uint8_t>},     {"topk.int16", with_needs<std::uint16_t>},
    {"topk.int32", with_needs<std::uint32_t>},   {"topk.int64", with_needs<std::uint64_t>},
    {"topk.float16", with_needs<std::uint16_t>}, {"topk.bfloat16", with_needs<std::uint16_t>},
    {"topk.float32", with_needs<std::uint32_t>}, {"topk.float64", with_needs<std::uint64_t>},
};
const Implementations table(implementations, driver::arguments<TopkArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
