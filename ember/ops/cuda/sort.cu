// The CUDA implementations of sort. Long rows: a pass over the data for every eight bits, from the
// lowest; each block takes a tile, puts it in order by the digit, and learns from the tiles before
// it where its digits go (a single-pass radix sort). See SortPlan for what lies where.
#include "ember/driver/cuda/implementations.h"
#include "ember/ops/cuda/progress.cuh"
#include "ember/ops/cuda/short_rows.cuh"

namespace ember::inline v0::ops::cuda {
namespace {

using driver::CudaLaunch;
using driver::cuda::api;
using driver::cuda::failure;
using driver::cuda::Grid;
using driver::cuda::Implementations;
using driver::cuda::NamedImplementation;
using driver::cuda::start;

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxPasses = 12;  ///< eight of a key, four of a row's number

template <class Key>
constexpr int kItems = sizeof(Key) == 8 ? 8 : 16;  ///< elements of a thread

struct Pass {
  const void* in;
  const std::uint32_t* positions;  ///< where the elements came from; null: they lie in order
  void* out;
  std::uint32_t* positions_out;  ///< null in the last pass,
  std::int64_t* indices;         ///< which writes these
  const std::uint32_t* counts;   ///< how many elements have each digit
  std::uint32_t* ticket;
  std::uint64_t* progress;  ///< per tile and digit
  std::uint32_t count;
  std::uint32_t n;
  int shift;  ///< where the digit lies
  bool rows;  ///< a digit of the row's number, not of the key
  KeyOrder order;
};
EMBER_ARGUMENTS(Pass, EMBER_FIELD(in), EMBER_FIELD(positions), EMBER_FIELD(out),
                EMBER_FIELD(positions_out), EMBER_FIELD(indices), EMBER_FIELD(counts),
                EMBER_FIELD(ticket), EMBER_FIELD(progress), EMBER_FIELD(count), EMBER_FIELD(n),
                EMBER_FIELD(shift), EMBER_FIELD(rows), EMBER_FIELD(order))

template <class Key>
__device__ __forceinline__ unsigned digit_of(const Pass& pass, Key key, std::uint32_t position) {
  if (pass.rows) return ((position / pass.n) >> pass.shift) & 255U;
  return static_cast<unsigned>(pass.order.key(key) >> pass.shift) & 255U;
}

__device__ __forceinline__ void put_position(const Pass& pass, std::uint32_t at,
                                             std::uint32_t position) {
  if (pass.positions_out != nullptr)
    pass.positions_out[at] = position;
  else
    pass.indices[at] = position % pass.n;
}

/// How many elements have each digit of each pass.
template <class Key>
__global__ void __launch_bounds__(kThreads)
    counts_kernel(const Key* in, std::uint32_t* counts, std::uint32_t count, std::uint32_t n,
                  int passes, KeyOrder order) {
  constexpr int kCopies = 4;  // many elements have the same digit; additions to one place queue up
  constexpr int kAtOnce = 8;
  __shared__ unsigned sums[kMaxPasses * kDigits * kCopies];
  const int used = passes * kDigits;
  for (int i = threadIdx.x; i < used * kCopies; i += kThreads) sums[i] = 0;
  __syncthreads();
  const unsigned copy = threadIdx.x % kCopies;
  const auto add = [&](int pass, unsigned digit) {
    atomicAdd(&sums[(pass * kDigits + digit) * kCopies + copy], 1U);
  };
  constexpr std::uint64_t kStep = kThreads * kAtOnce;
  for (std::uint64_t first = blockIdx.x * kStep; first < count; first += gridDim.x * kStep) {
    Key keys[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::uint64_t i = first + j * kThreads + threadIdx.x;
      keys[j] = i < count ? in[i] : Key{0};
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const std::uint64_t i = first + j * kThreads + threadIdx.x;
      if (i >= count) break;
      const Key key = order.key(keys[j]);
#pragma unroll
      for (int pass = 0; pass < static_cast<int>(sizeof(Key)); ++pass)
        add(pass, static_cast<unsigned>(key >> (8 * pass)) & 255U);
      if (passes == static_cast<int>(sizeof(Key))) continue;
      std::uint32_t row = static_cast<std::uint32_t>(i) / n;
      for (int pass = sizeof(Key); pass < passes; ++pass, row >>= 8) add(pass, row & 255U);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < used; i += kThreads) {
    unsigned sum = 0;
#pragma unroll
    for (int c = 0; c < kCopies; ++c) sum += sums[i * kCopies + c];
    if (sum != 0) atomicAdd(&counts[i], sum);
  }
}

/// How many elements of the tiles before this one have the digit of this thread. `own` is what this
/// tile has; later tiles learn the sum.
__device__ __forceinline__ unsigned look_back(std::uint64_t* progress, unsigned tile,
                                              unsigned own) {
  unsigned before = 0;
  for (unsigned t = tile; t > 0;) {
    --t;
    std::uint64_t word = 0;
    // The tiles before were begun before (tickets say so), so they will speak.
    do {
      word = load_word(&progress[std::size_t{t} * kDigits + threadIdx.x]);
    } while ((word & kSays) == 0);
    before += static_cast<unsigned>(word >> 2);
    if ((word & kSays) == kAll) break;
  }
  if (tile > 0)
    store_word(&progress[std::size_t{tile} * kDigits + threadIdx.x],
               std::uint64_t{before + own} << 2 | kAll);
  return before;
}

/// One pass. Elements with equal digits keep their order.
template <class Key>
__global__ void __launch_bounds__(kThreads, 2) pass_kernel(Pass pass) {
  constexpr unsigned kTile = kThreads * kItems<Key>;
  constexpr std::size_t kRoom = kTile * (sizeof(Key) > 4 ? sizeof(Key) : 4);
  static_assert(kRoom >= kWarps * kDigits * sizeof(unsigned));
  // First each warp's counts, then the tile's elements in their new order, then their positions.
  __shared__ alignas(16) unsigned char room[kRoom];
  __shared__ std::uint8_t digits[kTile];
  __shared__ unsigned starts[kDigits];        // of a digit, within the tile
  __shared__ std::uint32_t targets[kDigits];  // of a digit, less its start
  __shared__ unsigned scratch[kWarps];
  __shared__ unsigned ticket;
  auto* counts = reinterpret_cast<unsigned*>(room);

  if (threadIdx.x == 0) ticket = atomicAdd(pass.ticket, 1U);
  for (unsigned i = threadIdx.x; i < kWarps * kDigits; i += kThreads) counts[i] = 0;
  const unsigned all_of_digit = threadIdx.x < kDigits ? pass.counts[threadIdx.x] : 0;
  const bool one_digit = __syncthreads_or(all_of_digit == pass.count);
  const unsigned tile = ticket;
  const std::uint32_t first = tile * kTile;
  const Key* in = static_cast<const Key*>(pass.in) + first;
  Key* out = static_cast<Key*>(pass.out);
  const unsigned here = pass.count - first < kTile ? pass.count - first : kTile;
  const auto position_of = [&](unsigned i) {
    return pass.positions == nullptr ? first + i : pass.positions[first + i];
  };

  if (one_digit) {  // nothing moves
    for (unsigned i = threadIdx.x; i < here; i += kThreads) {
      out[first + i] = in[i];
      put_position(pass, first + i, position_of(i));
    }
    return;
  }

  // A warp has 32 * kItems adjacent elements, 32 at a time.
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const unsigned mine = warp * 32 * kItems<Key> + lane;
  unsigned* warp_counts = counts + warp * kDigits;
  Key keys[kItems<Key>];
  unsigned places[kItems<Key>];  // first the place within the warp's digit, and the digit
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) keys[j] = mine + j * 32 < here ? in[mine + j * 32] : Key{0};
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) {
    const unsigned i = mine + j * 32;
    // What fills the last tile up comes last.
    const unsigned digit =
        i < here ? digit_of(pass, keys[j], pass.rows ? position_of(i) : 0) : kDigits - 1;
    unsigned same = kAllLanes;  // the lanes with this digit
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = (digit >> bit & 1U) != 0;
      const unsigned vote = __ballot_sync(kAllLanes, set);
      same &= set ? vote : ~vote;
    }
    const unsigned earlier = __popc(same & ((1U << lane) - 1));
    const unsigned so_far = warp_counts[digit];
    __syncwarp();
    if (earlier == 0) warp_counts[digit] = so_far + __popc(same);
    __syncwarp();
    places[j] = (so_far + earlier) << 8 | digit;
  }
  __syncthreads();

  // A thread for each digit: where it begins in the tile, and in the output.
  unsigned own = 0;
  if (threadIdx.x < kDigits) {
#pragma unroll
    for (unsigned w = 0; w < kWarps; ++w) {
      unsigned& count = counts[w * kDigits + threadIdx.x];
      const unsigned these = count;
      count = own;
      own += these;
    }
    store_word(&pass.progress[std::size_t{tile} * kDigits + threadIdx.x],
               std::uint64_t{own} << 2 | (tile == 0 ? kAll : kOwn));
  }
  unsigned total = 0;
  const unsigned begin = sum_before<kThreads>(own, scratch, total);
  const unsigned all_before = sum_before<kThreads>(all_of_digit, scratch, total);
  if (threadIdx.x < kDigits) {
    starts[threadIdx.x] = begin;
    targets[threadIdx.x] = all_before + look_back(pass.progress, tile, own) - begin;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) {
    const unsigned digit = places[j] & 255U;
    places[j] = starts[digit] + warp_counts[digit] + (places[j] >> 8);
    digits[places[j]] = static_cast<std::uint8_t>(digit);
  }
  __syncthreads();

  auto* staged = reinterpret_cast<Key*>(room);
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) staged[places[j]] = keys[j];
  std::uint32_t positions[kItems<Key>];
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j)
    positions[j] = mine + j * 32 < here ? position_of(mine + j * 32) : 0;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) {
    const unsigned i = threadIdx.x + j * kThreads;
    if (i < here) out[targets[digits[i]] + i] = staged[i];
  }
  __syncthreads();
  auto* staged_positions = reinterpret_cast<std::uint32_t*>(room);
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) staged_positions[places[j]] = positions[j];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kItems<Key>; ++j) {
    const unsigned i = threadIdx.x + j * kThreads;
    if (i < here) put_position(pass, targets[digits[i]] + i, staged_positions[i]);
  }
}

template <class Key>
Status sort_long_rows(const SortArgs& args, const CudaLaunch& on) {
  constexpr std::int64_t kMostBlocks = 528;  // four for each SM of an H200
  const SortPlan plan = sort_plan(sizeof(Key), args.rows, args.n);
  if (plan.tile != kThreads * kItems<Key> || plan.passes > kMaxPasses)
    return Status(Code::invalid_value, "sort: the plan is not that of the kernels");
  auto* work = static_cast<std::byte*>(args.scratch);
  auto* counts = reinterpret_cast<std::uint32_t*>(work + plan.counts);
  const auto count = static_cast<std::uint32_t>(args.rows * args.n);
  const auto n = static_cast<std::uint32_t>(args.n);
  EMBER_TRY(driver::cuda::zero(on, work, plan.zeroed));
  const std::int64_t steps = (args.rows * args.n + 4095) / 4096;
  EMBER_TRY(start<&counts_kernel<Key>>(
      on, Grid{static_cast<unsigned>(steps < kMostBlocks ? steps : kMostBlocks), kThreads},
      static_cast<const Key*>(args.in), counts, count, n, plan.passes, args.order));

  // The last pass reads what is spare. Before it the results' own memory is as good as any.
  auto* spare_positions = reinterpret_cast<std::uint32_t*>(work + plan.positions);
  Pass pass{};
  pass.in = args.in;
  pass.count = count;
  pass.n = n;
  pass.order = args.order;
  for (int p = 0; p < plan.passes; ++p) {
    const bool last = p == plan.passes - 1;
    const bool to_spare = (plan.passes - 1 - p) % 2 == 1;
    pass.out = to_spare ? work + plan.keys : args.values;
    pass.positions_out = last       ? nullptr
                         : to_spare ? spare_positions
                                    : reinterpret_cast<std::uint32_t*>(args.indices);
    pass.indices = args.indices;
    pass.counts = counts + p * kDigits;
    pass.ticket = reinterpret_cast<std::uint32_t*>(work + plan.tickets) + p;
    pass.progress = reinterpret_cast<std::uint64_t*>(work + plan.progress) +
                    static_cast<std::size_t>(p) * plan.tiles * kDigits;
    pass.rows = p >= static_cast<int>(sizeof(Key));
    pass.shift = 8 * (pass.rows ? p - static_cast<int>(sizeof(Key)) : p);
    EMBER_TRY(
        start<&pass_kernel<Key>>(on, Grid{static_cast<unsigned>(plan.tiles), kThreads}, pass));
    pass.in = pass.out;
    pass.positions = pass.positions_out;
  }
  return {};
}

/// A few rows that just fit into a block's shared memory: a launch for each eight bits of the keys
/// would take longer than one block for each row.
constexpr int kFewRowsLength = 4096;
bool few_rows_fit(const SortArgs& args) { return args.n <= kFewRowsLength && args.rows <= 64; }

template <class Key>
Status implementation(const driver::Params& params, const CudaLaunch& on) {
  const auto& args = params.as<SortArgs>();
  const auto n = static_cast<std::uint32_t>(args.n);
  const ShortRows rows{args.in, args.values, args.indices, args.rows, n, n, 0, 0, args.order};
  if (args.n <= kShortRow) return sort_short_rows<Key>(rows, on);
  if (few_rows_fit(args)) return sort_short_rows<Key, kFewRowsLength, 1024>(rows, on);
  return sort_long_rows<Key>(args, on);
}

template <class Key>
Status needs(const driver::Params& params, driver::KernelNeeds& out) {
  const auto& args = params.as<SortArgs>();
  if (args.n > kMaxSorted)
    return Status(Code::invalid_value, "sort: rows have " + std::to_string(args.n) +
                                           " elements, expected at most 2^32 - 1 on CUDA devices");
  if (args.n > kShortRow && !few_rows_fit(args))
    out.scratch = sort_plan(sizeof(Key), args.rows, args.n).bytes;
  return {};
}

template <class Key>
constexpr driver::CudaImplementation with_needs{&implementation<Key>, &needs<Key>};

constexpr NamedImplementation implementations[] = {
    {"sort.bool", with_needs<std::uint8_t>},     {"sort.uint8", with_needs<std::uint8_t>},
    {"sort.int8", with_needs<std::uint8_t>},     {"sort.int16", with_needs<std::uint16_t>},
    {"sort.int32", with_needs<std::uint32_t>},   {"sort.int64", with_needs<std::uint64_t>},
    {"sort.float16", with_needs<std::uint16_t>}, {"sort.bfloat16", with_needs<std::uint16_t>},
    {"sort.float32", with_needs<std::uint32_t>}, {"sort.float64", with_needs<std::uint64_t>},
};
const Implementations table(implementations, driver::arguments<SortArgs>());

}  // namespace
}  // namespace ember::inline v0::ops::cuda
