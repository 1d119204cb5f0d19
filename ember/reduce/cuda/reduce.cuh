// The CUDA implementations of reductions. Two shapes of kernel, and one that finishes:
//
//   rows      the elements of an output lie in adjacent runs: a group of lanes, from one to a whole
//             block, walks along each run, 16 bytes at a time, four of them in flight
//   columns   adjacent threads have adjacent outputs, and several rows of threads share a column;
//             with 16 bytes per thread where alignment allows it, else (also for all other layouts)
//             with one element
//   finish    where outputs are few, each is cut into parts, whose accumulators this one merges
//
// The order of merging depends on the arguments only, never on which thread comes first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"
#include "ember/driver/cuda/pack.h"
#include "ember/reduce/functors.h"

namespace ember::inline v0::reduce::cuda {

using driver::cuda::Pack;

constexpr int kReduceThreads = 256;
constexpr int kInFlight = 4;

// ---- A few elements into an accumulator

/// The better of two. For floats there is an instruction, up to the sign of a zero.
template <class T, bool kLargest, class Value>
__device__ __forceinline__ Value best_of(const reduce::Extreme<T, kLargest>& f, Value x, Value y) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Value, float>) {
    float best;
    if constexpr (kLargest)
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(best) : "f"(x), "f"(y));
    else
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(best) : "f"(x), "f"(y));
    return best;
  }
#endif
  return f.best(x, y);
}

/// The better of two pairs of 16-bit elements.
template <class T, bool kLargest>
__device__ __forceinline__ unsigned better_pair(unsigned x, unsigned y) {
  unsigned best;
  if constexpr (std::is_same_v<T, BFloat16> && kLargest)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(best) : "r"(x), "r"(y));
  else if constexpr (std::is_same_v<T, BFloat16>)
    asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(best) : "r"(x), "r"(y));
  else if constexpr (kLargest)
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(best) : "r"(x), "r"(y));
  else
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(best) : "r"(x), "r"(y));
  return best;
}

/// The best of several elements.
template <class T, bool kLargest, int P, int V>
__device__ __forceinline__ auto best_of_all(const reduce::Extreme<T, kLargest>& f,
                                            const Pack<T, V> (&x)[P]) {
  using Value = typename reduce::Extreme<T, kLargest>::Value;
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
    if constexpr (V % 2 == 0) {
      unsigned words[P * V / 2];
      memcpy(words, x, sizeof words);
      unsigned best = words[0];
#pragma unroll
      for (int i = 1; i < P * V / 2; ++i) best = better_pair<T, kLargest>(words[i], best);
      T pair[2];
      memcpy(pair, &best, sizeof pair);
      return best_of(f, convert<Value>(pair[0]), convert<Value>(pair[1]));
    }
  }
#endif
  auto best = convert<Value>(x[0].value[0]);
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int v = 0; v < V; ++v) best = best_of(f, convert<Value>(x[p].value[v]), best);
  return best;
}

/// Element v of vector p has the position index + p * step + v.
template <class F, int P, int V>
__device__ __forceinline__ void add_chunk(const F& f, typename F::Acc& acc,
                                          const Pack<typename F::In, V> (&x)[P], std::int64_t index,
                                          std::int64_t step) {
  if constexpr (reduce::is_extreme<F>) {
    using Value = typename F::Value;
    const Value best = best_of_all(f, x);
    if (acc.index != F::kNowhere && !F::better(best, acc.value)) return;
    // Equals are the same, except zeros with and without a sign.
    if (!f.places && (!is_floating<typename F::In> || best != Value(0))) {
      acc = {best, index};
      return;
    }
    // Its place is looked for afterwards: that takes less than to carry it along.
    const bool nan = F::unordered(best);
    Value found = best;
    int at = 0;
#pragma unroll
    for (int i = P * V - 1; i >= 0; --i) {
      const auto value = convert<Value>(x[i / V].value[i % V]);
      if (nan ? F::unordered(value) : value == best) {
        found = value;
        at = i;
      }
    }
    acc = {found, index + at / V * step + at % V};
  } else if constexpr (reduce::is_variance<F>) {
    using Value = typename F::Value;
    // Around the first one: of so few elements, however far it lies from the others, that costs at
    // most the logarithm of their number in bits.
    const auto near = convert<Value>(x[0].value[0]);
    Value sum(0);
    typename F::Part squares = 0;
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Value distance = convert<Value>(x[p].value[v]) - near;
        sum = sum + distance;
        squares += F::square(distance);
      }
    f.merge(acc, F::around(near, sum, squares, P * V));
  } else {
    static_assert(P * V <= reduce::kLaneElements);
    typename F::Lane lane = f.lane_none();
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
      for (int v = 0; v < V; ++v) f.add(lane, x[p].value[v]);
    f.merge(acc, f.of_lane(lane));
  }
}

template <class F>
__device__ __forceinline__ void add_one(const F& f, typename F::Acc& acc, typename F::In value,
                                        std::int64_t index) {
  const Pack<typename F::In, 1> x[1] = {{{value}}};
  add_chunk<F, 1, 1>(f, acc, x, index, 0);
}

// ---- Accumulators of several threads

template <class A>
__device__ __forceinline__ A shuffle_down(const A& value, int offset) {
  static_assert(sizeof(A) % 4 == 0);
  constexpr int kWords = sizeof(A) / 4;
  unsigned words[kWords];
  memcpy(words, &value, sizeof(A));
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_down_sync(0xffffffffU, words[i], offset);
  A other;
  memcpy(&other, words, sizeof(A));
  return other;
}

/// Accumulators in shared memory, without constructors.
template <class F>
struct Shared {
  static_assert(alignof(typename F::Acc) <= 16);
  alignas(16) unsigned char bytes[kReduceThreads * sizeof(typename F::Acc)];

  __device__ __forceinline__ typename F::Acc& at(int i) {
    return reinterpret_cast<typename F::Acc*>(bytes)[i];
  }
};

/// Merges those of `lanes` neighbours in a warp (a power of two) into the first one's.
template <class F>
__device__ __forceinline__ void merge_neighbours(const F& f, typename F::Acc& acc, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    const typename F::Acc other = shuffle_down(acc, offset);
    f.merge(acc, other);
  }
}

/// Merges those of `lanes` neighbours (a power of two) into the first one's. All threads of the
/// block must come here.
template <class F>
__device__ __forceinline__ void merge_lanes(const F& f, typename F::Acc& acc, Shared<F>& shared,
                                            int lane, int lanes) {
  merge_neighbours(f, acc, lanes < 32 ? lanes : 32);
  if (lanes <= 32) return;
  const int warps = lanes / 32;
  const int first = static_cast<int>(threadIdx.y) * warps;
  if (lane % 32 == 0) shared.at(first + lane / 32) = acc;
  __syncthreads();
  if (lane >= 32) return;
  acc = lane < warps ? shared.at(first + lane) : f.none();
  merge_neighbours(f, acc, warps);
}

/// Merges those of the threads with one threadIdx.x into the first row's; blockDim.y is a power of
/// two. All threads of the block must come here.
template <class F>
__device__ __forceinline__ void merge_rows(const F& f, typename F::Acc& acc, Shared<F>& shared) {
  const int width = static_cast<int>(blockDim.x);
  const int at = static_cast<int>(threadIdx.y) * width + static_cast<int>(threadIdx.x);
  for (int half = static_cast<int>(blockDim.y) / 2; half > 0; half /= 2) {
    const int row = static_cast<int>(threadIdx.y);
    if (row >= half && row < 2 * half) shared.at(at) = acc;
    __syncthreads();
    if (row < half) f.merge(acc, shared.at(at + half * width));
    __syncthreads();
  }
}

// ---- Where things are

__device__ __forceinline__ std::int64_t split_off(std::int64_t& index, std::int64_t size) {
  // Dividing 64-bit numbers takes four times as long.
  if (((index | size) >> 32) == 0) {
    const auto narrow = static_cast<std::uint32_t>(index);
    const std::uint32_t quotient = narrow / static_cast<std::uint32_t>(size);
    index = quotient;
    return narrow - quotient * static_cast<std::uint32_t>(size);
  }
  const std::int64_t quotient = index / size;
  const std::int64_t rest = index - quotient * size;
  index = quotient;
  return rest;
}

/// Offset of an index among dimensions, the fastest first; the slowest needs no division.
__device__ __forceinline__ std::int64_t offset_of(std::int64_t index, int dims,
                                                  const std::int64_t* size,
                                                  const std::int64_t* stride) {
  std::int64_t offset = 0;
#pragma unroll
  for (int d = 0; d < kReduceDims; ++d) {
    if (d >= dims) break;
    offset += (d + 1 == dims ? index : split_off(index, size[d])) * stride[d];
  }
  return offset;
}

/// Arguments with what this implementation adds to them: into how many parts every output is cut.
/// Scratch memory has an accumulator for each part and output, if there is more than one part.
struct DividedArgs : ReduceArgs {
  std::int32_t parts;

  static constexpr driver::AddressPlaces kAddresses =
      driver::layout::addresses_in<ReduceArgs>();  // at the same offsets
};

/// Stores what became of one output, or of a part of it.
template <class F>
__device__ __forceinline__ void deliver(const F& f, const DividedArgs& args, std::int64_t output,
                                        std::int64_t part, const typename F::Acc& acc) {
  if (args.parts > 1)
    static_cast<typename F::Acc*>(args.scratch)[part * args.outputs + output] = acc;
  else
    f.store(args, offset_of(output, args.kept_dims, args.kept_size, args.kept_out), acc);
}

// ---- Rows

/// How the runs of an output are divided among its parts.
struct Runs {
  std::int64_t tasks;   ///< outputs * parts
  std::int64_t units;   ///< pieces of runs per output
  std::int64_t each;    ///< units per part
  std::int64_t pieces;  ///< per run
  std::int64_t length;  ///< of a piece

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;
};

/// Adjacent elements, shared among `lanes` threads.
template <class F>
__device__ __forceinline__ void add_run(const F& f, typename F::Acc& acc,
                                        const typename F::In* __restrict__ x, std::int64_t count,
                                        std::int64_t index, int lane, int lanes) {
  using In = typename F::In;
  constexpr int V = 16 / sizeof(In);
  using Loaded = Pack<In, V>;
  if constexpr (V > 1) {
    auto head = static_cast<std::int64_t>(((16 - (reinterpret_cast<std::uintptr_t>(x) & 15)) & 15) /
                                          sizeof(In));
    if (head > count) head = count;
    for (std::int64_t i = lane; i < head; i += lanes) add_one(f, acc, x[i], index + i);
    x += head;
    count -= head;
    index += head;
  }
  const Loaded* at = reinterpret_cast<const Loaded*>(x) + lane;
  const Loaded* const end = reinterpret_cast<const Loaded*>(x) + count / V;
  const int rest = static_cast<int>(count % V);
  const auto position = [&](const Loaded* pack) {
    return index + (reinterpret_cast<const In*>(pack) - x);
  };
  for (; end - at > (kInFlight - 1) * lanes; at += kInFlight * lanes) {
    Loaded loaded[kInFlight];
#pragma unroll
    for (int p = 0; p < kInFlight; ++p) loaded[p] = at[p * lanes];
    if constexpr (reduce::is_extreme<F> && V > 8) {
      // So many values at once would take all registers.
#pragma unroll
      for (int p = 0; p < kInFlight; ++p) {
        const Loaded one[1] = {loaded[p]};
        add_chunk<F, 1, V>(f, acc, one, position(at + p * lanes), 0);
      }
    } else {
      add_chunk<F, kInFlight, V>(f, acc, loaded, position(at), lanes * V);
    }
  }
  for (; at < end; at += lanes) {
    const Loaded loaded[1] = {*at};
    add_chunk<F, 1, V>(f, acc, loaded, position(at), 0);
  }
  for (int i = lane; i < rest; i += lanes)
    add_one(f, acc, reinterpret_cast<const In*>(end)[i], position(end) + i);
}

/// blockDim.x lanes for each task, blockDim.y tasks. Four blocks on an SM have enough in flight;
/// for more of them the compiler would wait for each load before it starts the next.
template <class F>
__global__ void __launch_bounds__(kReduceThreads, 4)
    reduce_rows_kernel(const __grid_constant__ DividedArgs args,
                       const __grid_constant__ Runs runs) {
  using In = typename F::In;
  __shared__ Shared<F> shared;
  const F f(args);
  const int lane = static_cast<int>(threadIdx.x);
  const int lanes = static_cast<int>(blockDim.x);
  const std::int64_t task = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  std::int64_t output = task;
  std::int64_t part = 0;
  if (args.parts > 1) part = split_off(output, args.parts);
  typename F::Acc acc = f.none();
  if (task < runs.tasks) {
    const In* in = static_cast<const In*>(args.in) +
                   offset_of(output, args.kept_dims, args.kept_size, args.kept_stride);
    const std::int64_t first = part * runs.each;
    const std::int64_t last = first + runs.each < runs.units ? first + runs.each : runs.units;
    for (std::int64_t unit = first; unit < last; ++unit) {
      std::int64_t run = unit;
      const std::int64_t begin = runs.pieces > 1 ? split_off(run, runs.pieces) * runs.length : 0;
      const std::int64_t rest = args.size[0] - begin;
      if (rest <= 0) continue;
      const std::int64_t offset =
          offset_of(run, args.reduced_dims - 1, args.size + 1, args.stride + 1);
      add_run(f, acc, in + offset + begin, rest < runs.length ? rest : runs.length,
              run * args.size[0] + begin, lane, lanes);
    }
  }
  merge_lanes(f, acc, shared, lane, lanes);
  if (task < runs.tasks && lane == 0) deliver(f, args, output, part, acc);
}

// ---- Columns

/// Loads in flight: of small elements it takes more for as many bytes.
template <class F, int V>
inline constexpr int columns_in_flight = V == 1 && sizeof(typename F::In) <= 4 ? 8 : kInFlight;

/// threadIdx.x goes along the outputs, V of them each, threadIdx.y along what is reduced. Blocks:
/// first along the outputs, then by part. V divides the size of the first kept dimension.
template <class F, int V>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns_kernel(const __grid_constant__ DividedArgs args, std::int64_t tiles) {
  using In = typename F::In;
  using Acc = typename F::Acc;
  using Loaded = Pack<In, V>;
  constexpr int P = columns_in_flight<F, V>;
  __shared__ Shared<F> shared;
  const F f(args);
  std::int64_t part = blockIdx.x;
  const std::int64_t tile = split_off(part, tiles);
  const std::int64_t output = (tile * blockDim.x + threadIdx.x) * V;
  Acc accs[V];
#pragma unroll
  for (int v = 0; v < V; ++v) accs[v] = f.none();
  if (output < args.outputs) {
    const In* in = static_cast<const In*>(args.in) +
                   offset_of(output, args.kept_dims, args.kept_size, args.kept_stride);
    const std::int64_t each = (args.reduced + args.parts - 1) / args.parts;
    const std::int64_t first = part * each;
    const std::int64_t last = first + each < args.reduced ? first + each : args.reduced;
    const std::int64_t step = blockDim.y;
    const auto at = [&](std::int64_t row) {
      return *reinterpret_cast<const Loaded*>(
          in + offset_of(row, args.reduced_dims, args.size, args.stride));
    };
    std::int64_t row = first + threadIdx.y;
    for (; row + (P - 1) * step < last; row += P * step) {
      Loaded loaded[P];
      if (args.reduced_dims == 1) {
        const In* from = in + row * args.stride[0];
#pragma unroll
        for (int p = 0; p < P; ++p, from += step * args.stride[0])
          loaded[p] = *reinterpret_cast<const Loaded*>(from);
      } else {
#pragma unroll
        for (int p = 0; p < P; ++p) loaded[p] = at(row + p * step);
      }
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Pack<In, 1> x[P];
#pragma unroll
        for (int p = 0; p < P; ++p) x[p].value[0] = loaded[p].value[v];
        add_chunk<F, P, 1>(f, accs[v], x, row, step);
      }
    }
    for (; row < last; row += step) {
      const Loaded loaded = at(row);
#pragma unroll
      for (int v = 0; v < V; ++v) add_one(f, accs[v], loaded.value[v], row);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    merge_rows(f, accs[v], shared);
    if (threadIdx.y == 0 && output < args.outputs) deliver(f, args, output + v, part, accs[v]);
  }
}

// ---- Finishing

/// Threads go along the parts of one output each (blockDim.y is 1), or threadIdx.x goes along the
/// outputs and threadIdx.y along the parts.
template <class F>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_finish_kernel(const __grid_constant__ DividedArgs args) {
  constexpr int kLoads = 8;
  __shared__ Shared<F> shared;
  const F f(args);
  const bool across = blockDim.y > 1;
  const std::int64_t output =
      across ? std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x : blockIdx.x;
  const int first = static_cast<int>(across ? threadIdx.y : threadIdx.x);
  const int step = static_cast<int>(across ? blockDim.y : blockDim.x);
  const auto* partial = static_cast<const typename F::Acc*>(args.scratch) + output;
  typename F::Acc acc = f.none();
  if (output < args.outputs) {
    for (int part = first; part < args.parts; part += kLoads * step) {
      typename F::Acc loaded[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = part + i * step;
        loaded[i] = at < args.parts ? partial[at * args.outputs] : f.none();
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) f.merge(acc, loaded[i]);
    }
  }
  if (across)
    merge_rows(f, acc, shared);
  else
    merge_lanes(f, acc, shared, first, step);
  if (first == 0 && output < args.outputs)
    f.store(args, offset_of(output, args.kept_dims, args.kept_size, args.kept_out), acc);
}

// ---- The implementation

/// The smallest power of two that is not below `number`, at most kReduceThreads.
inline unsigned power_of_two(std::int64_t number) {
  unsigned power = 1;
  while (power < number && power < kReduceThreads) power *= 2;
  return power;
}

inline std::int64_t quotient_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

/// Whether every row of columns can be read in vectors of this many elements.
inline bool vectors_fit(const ReduceArgs& args, std::size_t item, int width) {
  if (args.kept_dims == 0 || args.kept_stride[0] != 1 || args.kept_size[0] % width != 0)
    return false;
  std::int64_t all = 0;  // has the lowest bit that any of them has
  for (int d = 1; d < args.kept_dims; ++d) all |= args.kept_stride[d];
  for (int d = 0; d < args.reduced_dims; ++d) all |= args.stride[d];
  return all % width == 0 && driver::cuda::is_aligned(args.in, item * width);
}

template <class F, int V>
Status start_columns(const DividedArgs& args, const driver::CudaLaunch& on) {
  const std::int64_t across = args.outputs / V;
  const std::int64_t each = quotient_up(args.reduced, args.parts);
  // Neighbours read neighbours: along the columns, unless what is reduced is closer.
  const bool along_rows = args.kept_dims == 0 || (args.reduced_dims > 0 && args.stride[0] > 0 &&
                                                  args.stride[0] < args.kept_stride[0]);
  const unsigned least = along_rows ? 1 : power_of_two(across < 32 ? across : 32);
  const unsigned wanted = power_of_two(quotient_up(each, columns_in_flight<F, V>));
  unsigned y = wanted < kReduceThreads / least ? wanted : kReduceThreads / least;
  if (!along_rows && y > 4 && across >= 64) y = 4;
  unsigned x = power_of_two(across);
  if (x > kReduceThreads / y) x = kReduceThreads / y;
  // A warp at least.
  while (x * y < 32) y *= 2;
  const std::int64_t tiles = quotient_up(across, x);
  const driver::cuda::Grid grid{static_cast<unsigned>(tiles * args.parts), dim3(x, y)};
  return driver::cuda::start<&reduce_columns_kernel<F, V>>(on, grid, args, tiles);
}

template <class F>
Status start_rows(const DividedArgs& args, const driver::CudaLaunch& on) {
  constexpr std::int64_t V = 16 / sizeof(typename F::In);
  const std::int64_t length = args.reduced_dims > 0 ? args.size[0] : args.reduced;
  Runs runs{};
  runs.tasks = args.outputs * args.parts;
  const std::int64_t count = length > 0 ? args.reduced / length : 1;
  runs.pieces = count >= args.parts ? 1 : quotient_up(args.parts, count);
  // Whole packs, so that all pieces are aligned alike.
  runs.length = quotient_up(quotient_up(length, runs.pieces), 64) * 64;
  runs.units = count * runs.pieces;
  runs.each = quotient_up(runs.units, args.parts);
  const std::int64_t packs = quotient_up(length < runs.length ? length : runs.length, V);
  unsigned lanes = power_of_two(quotient_up(packs, kInFlight));
  // Several warps share a task only where there would be too few blocks: merging them costs more
  // than walking on.
  constexpr std::int64_t kEnoughBlocks = 2048;
  const unsigned needed =
      packs <= 512 ? 1 : power_of_two(quotient_up(kEnoughBlocks * kReduceThreads, runs.tasks));
  if (lanes > 32 && lanes > needed) lanes = needed > 32 ? needed : 32;
  const unsigned tasks = kReduceThreads / lanes;
  const driver::cuda::Grid grid{static_cast<unsigned>(quotient_up(runs.tasks, tasks)),
                                dim3(lanes, tasks)};
  return driver::cuda::start<&reduce_rows_kernel<F>>(on, grid, args, runs);
}

/// Into how many parts every output is cut, so that there is enough to do for a whole GPU. Depends
/// on the shape only, and so do the results.
inline std::int32_t part_count(const ReduceArgs& args, std::size_t item) {
  // What an H200 runs at once. If there are a few more blocks it waits for the last ones alone, so
  // it gets either no more, or so many that this makes no difference.
  constexpr std::int64_t kOneRound = 512;
  constexpr std::int64_t kManyRounds = 4096;
  const auto width = static_cast<std::int64_t>(item);
  const bool by_columns = args.kept_dims > 0 && args.kept_stride[0] == 1 && args.kept_size[0] >= 8;
  // What a block of 256 threads reads along, and the least that is worth another block.
  std::int64_t blocks = args.outputs;
  std::int64_t least = std::max<std::int64_t>(1, 16384 / width);
  if (by_columns) {
    const std::int64_t columns = std::max<std::int64_t>(32, 1024 / width);
    blocks = (args.kept_size[0] + columns - 1) / columns * (args.outputs / args.kept_size[0]);
    least = 64;
  }
  // Merging takes a launch more, for which so few would not make up.
  constexpr std::int64_t kFewest = 4;
  if (args.reduced < kFewest * least) return 1;
  const std::int64_t wanted = blocks <= kOneRound ? kOneRound : kManyRounds;
  if (blocks >= wanted) return 1;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(
      args.reduced / least, 1, wanted / std::max<std::int64_t>(blocks, 1)));
}

template <class F>
DividedArgs divided(const ReduceArgs& args) {
  return {args, part_count(args, sizeof(typename F::In))};
}

template <class F>
Status reduce_needs(const driver::Params& params, driver::KernelNeeds& out) {
  const DividedArgs args = divided<F>(params.as<ReduceArgs>());
  if (args.parts > 1)
    out.scratch = static_cast<std::size_t>(args.parts * args.outputs) * sizeof(typename F::Acc);
  return {};
}

template <class F>
Status reduce_implementation(const driver::Params& params, const driver::CudaLaunch& on) {
  const DividedArgs args = divided<F>(params.as<ReduceArgs>());
  constexpr int kItem = sizeof(typename F::In);
  constexpr int V = kItem == 1 ? 8 : 16 / kItem;
  // Runs of a few elements are no runs.
  const bool rows = args.reduced_dims > 0 && args.stride[0] == 1 &&
                    (args.reduced_dims == 1 || args.size[0] >= 64);
  if (rows) {
    EMBER_TRY(start_rows<F>(args, on));
  } else if (vectors_fit(args, kItem, V)) {
    EMBER_TRY((start_columns<F, V>(args, on)));
  } else {
    EMBER_TRY((start_columns<F, 1>(args, on)));
  }
  if (args.parts == 1) return {};
  const bool wide = args.outputs >= 32;
  const driver::cuda::Grid grid{
      static_cast<unsigned>(wide ? quotient_up(args.outputs, 32) : args.outputs),
      wide ? dim3(32, kReduceThreads / 32) : dim3(kReduceThreads)};
  return driver::cuda::start<&reduce_finish_kernel<F>>(on, grid, args);
}

}  // namespace ember::inline v0::reduce::cuda

#define EMBER_REDUCE_KERNEL(functor, type, name) \
  {name, {&reduce_implementation<reduce::functor<type>>, &reduce_needs<reduce::functor<type>>}},
