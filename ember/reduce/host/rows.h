// Reductions of rows on the CPU and on simulated devices, one output at a time. A fixed order of
// additions, whatever the machine: a few hundred elements go into a row of lanes, which compilers
// make vectors of, and such blocks are added up in pairs, so that rounding errors grow with the
// logarithm of the count only.
#pragma once

#include "ember/reduce/host/vectors.h"

namespace ember::inline v0::reduce::host {

using driver::HostLaunch;

/// Lanes that a block is spread over.
template <class F>
inline constexpr int kLanes = std::max<int>(8, static_cast<int>(64 / sizeof(typename F::Lane)));

// ---- A block: adjacent elements, at most kBlock, into one accumulator

template <class F>
requires(!reduce::is_extreme<F> && !reduce::is_variance<F>) EMBER_REDUCE_BODY
    void block(const F& f, typename F::Acc& acc, const typename F::In* x, int count) {
  constexpr int kWidth = kLanes<F>;
  static_assert(kBlock <= kWidth * reduce::kLaneElements);
  int i = 0;
  if (count >= 2 * kWidth) {
    typename F::Lane lanes[kWidth];
    if constexpr (reduce::is_sum<F> && is_floating<typename F::In> && has_vectors<F>) {
      // Of the width that every x86-64 has: g++ keeps wider ones, which it takes apart before it
      // knows where they are inlined, in memory.
      using Vector __attribute__((vector_size(16))) = typename F::In;
      constexpr int kPart = kWidth / 4;
      static_assert(sizeof(Vector) == kPart * sizeof(typename F::In));
      Vector total[4] = {};
      for (; i + kWidth <= count; i += kWidth) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
          Vector next;
          std::memcpy(&next, x + i + v * kPart, sizeof next);
          total[v] += next;
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const Vector value = total[v];
        std::memcpy(lanes + v * kPart, &value, sizeof value);
      }
    } else {
      for (auto& lane : lanes) lane = f.lane_none();
      for (; i + kWidth <= count; i += kWidth)
        for (int k = 0; k < kWidth; ++k) f.add(lanes[k], x[i + k]);
    }
    typename F::Acc sums[kWidth];
    for (int k = 0; k < kWidth; ++k) sums[k] = f.of_lane(lanes[k]);
    for (int half = kWidth / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) f.merge(sums[k], sums[k + half]);
    f.merge(acc, sums[0]);
  }
  if (i == count) return;
  typename F::Lane rest = f.lane_none();
  for (; i < count; ++i) f.add(rest, x[i]);
  f.merge(acc, f.of_lane(rest));
}

template <int kWidth, class T>
EMBER_REDUCE_BODY T gathered(T* lanes) {
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = lanes[k] + lanes[k + half];
  return lanes[0];
}

template <class F>
requires reduce::is_variance<F> EMBER_REDUCE_BODY void block(const F& f, typename F::Acc& acc,
                                                             const typename F::In* x, int count) {
  using Value = typename F::Value;
  using Part = typename F::Part;
  constexpr int kWidth = std::max<int>(8, static_cast<int>(64 / sizeof(Value)));
  if (count == 0) return;
  Value sums[kWidth] = {};
  int i = 0;
  if constexpr (has_vectors<F>) {
    using Values = Vectors<Value, kWidth>;
    Values total;
    total.fill(0);
    for (; i + kWidth <= count; i += kWidth) {
      Values next;
      next.load(x + i);
#pragma GCC unroll 8
      for (int v = 0; v < Values::kCount; ++v) total.part[v] += next.part[v];
    }
    total.store(sums);
  } else {
    for (; i + kWidth <= count; i += kWidth)
      for (int k = 0; k < kWidth; ++k) sums[k] = sums[k] + convert<Value>(x[i + k]);
  }
  for (; i < count; ++i) sums[0] = sums[0] + convert<Value>(x[i]);
  const Value mean = reduce::divided(gathered<kWidth>(sums), count);
  // The mean is rounded: what is left of the sum around it repairs that.
  Value rest[kWidth] = {};
  Part squares[kWidth] = {};
  i = 0;
  if constexpr (has_vectors<F>) {
    using Values = Vectors<Value, kWidth>;
    Values total;
    Values total_squares;
    total.fill(0);
    total_squares.fill(0);
    for (; i + kWidth <= count; i += kWidth) {
      Values next;
      next.load(x + i);
#pragma GCC unroll 8
      for (int v = 0; v < Values::kCount; ++v) {
        const auto distance = next.part[v] - mean;
        total.part[v] += distance;
        total_squares.part[v] += distance * distance;
      }
    }
    total.store(rest);
    total_squares.store(squares);
  } else {
    for (; i + kWidth <= count; i += kWidth)
      for (int k = 0; k < kWidth; ++k) {
        const Value distance = convert<Value>(x[i + k]) - mean;
        rest[k] = rest[k] + distance;
        squares[k] += F::square(distance);
      }
  }
  for (; i < count; ++i) {
    const Value distance = convert<Value>(x[i]) - mean;
    rest[0] = rest[0] + distance;
    squares[0] += F::square(distance);
  }
  f.merge(acc, F::around(mean, gathered<kWidth>(rest), gathered<kWidth>(squares), count));
}

template <class F>
EMBER_VECTOR_CODE void vector_block(const F& f, typename F::Acc& acc, const typename F::In* x,
                                    int count) {
  block(f, acc, x, count);
}
template <class F>
void any_block(const F& f, typename F::Acc& acc, const typename F::In* x, int count) {
  if (has_avx2) return vector_block(f, acc, x, count);
#if EMBER_HOST_AVX2
  block(f, acc, x, count);
#endif
}

// ---- A row: everything that goes into one output

/// Whether a count says already what is asked of it: that there is one, or that one is missing.
template <class F>
bool decided(const ReduceArgs& args, const typename F::Acc& acc, std::int64_t seen) {
  if constexpr (reduce::is_count<F>) {
    if (args.mode == ReduceMode::any) return acc != 0;
    if (args.mode == ReduceMode::all || args.mode == ReduceMode::all_int64) return acc != seen;
  }
  return false;
}

/// Adds accumulators up in pairs of the same weight.
template <class F>
class Cascade {
 public:
  explicit Cascade(const F& f) noexcept : f_(f) {}

  void add(typename F::Acc acc) noexcept {
    int level = 0;
    for (std::uint64_t bits = blocks_++; (bits & 1U) != 0; bits >>= 1) {
      f_.merge(sums_[level], acc);
      acc = sums_[level++];
    }
    sums_[level] = acc;
  }
  typename F::Acc total() const noexcept {
    typename F::Acc all = f_.none();
    for (int level = 0; (blocks_ >> level) != 0; ++level)
      if (((blocks_ >> level) & 1U) != 0) f_.merge(all, sums_[level]);
    return all;
  }

 private:
  const F& f_;
  std::uint64_t blocks_ = 0;
  typename F::Acc sums_[56];  // only those whose bit is set in blocks_ are ever read
};

/// Walks over the reduced dimensions from `from` on.
template <class T>
class Walk {
 public:
  Walk(const ReduceArgs& args, const T* start, int from) noexcept
      : args_(args), at_(start), from_(from) {}

  const T* here() const noexcept { return at_; }
  std::int64_t index() const noexcept { return index_[from_]; }
  /// Goes on by `steps` of the first dimension, which must not lead beyond its end.
  void advance(std::int64_t steps) noexcept {
    int d = from_;
    if (d >= args_.reduced_dims) return;
    index_[d] += steps;
    at_ += steps * args_.stride[d];
    while (index_[d] == args_.size[d]) {
      at_ -= index_[d] * args_.stride[d];
      index_[d] = 0;
      if (++d == args_.reduced_dims) return;
      ++index_[d];
      at_ += args_.stride[d];
    }
  }

 private:
  const ReduceArgs& args_;
  const T* at_;
  int from_;
  std::int64_t index_[kReduceDims + 1] = {};
};

/// The next `count` elements, one after the other in `out`.
template <class T>
void pack(const ReduceArgs& args, Walk<T>& walk, T* out, int count) {
  if (args.reduced_dims == 0) {
    *out = *walk.here();
    return;
  }
  const std::int64_t stride = args.stride[0];
  while (count > 0) {
    const auto run = static_cast<int>(std::min<std::int64_t>(count, args.size[0] - walk.index()));
    const T* x = walk.here();
    for (int i = 0; i < run; ++i) out[i] = x[i * stride];
    walk.advance(run);
    out += run;
    count -= run;
  }
}

/// The elements of a row, a block after the other, each with its elements side by side.
template <class T>
class Blocks {
 public:
  Blocks(const ReduceArgs& args, const T* x) noexcept
      : walk_(args, x, 0), args_(args), x_(x), adjacent_(is_adjacent(args)), far_(is_far(args)) {}

  static bool is_adjacent(const ReduceArgs& args) noexcept {
    return args.reduced_dims == 0 || (args.reduced_dims == 1 && args.stride[0] == 1);
  }
  /// Whether blocks stay where they are; the next one takes the place of others.
  bool stay() const noexcept { return adjacent_; }

  /// The next `count` elements, of which `first` is the first.
  const T* next(std::int64_t first, int count) noexcept {
    if (!adjacent_) {
      pack(args_, walk_, packed_, count);
      return packed_;
    }
    if (far_) fetch(x_ + first + count);
    return x_ + first;
  }

 private:
  /// Whether one row follows the other in more memory than a processor's own caches hold. Short
  /// rows are as quick without.
  static bool is_far(const ReduceArgs& args) noexcept {
    constexpr std::int64_t kNear = (4 << 20) / sizeof(T);
    return args.reduced > kBlock && args.reduced * args.outputs > kNear &&
           (args.kept_dims == 0 || args.kept_stride[0] == args.reduced);
  }
  /// Asks for the next block, in this row or at the beginning of the next, while this one is worked
  /// on: what processors fetch by themselves leaves half of the memory's bandwidth unused.
  static void fetch(const T* block) noexcept {
    constexpr std::size_t kLine = 64;
    const auto* from = reinterpret_cast<const char*>(block);
    for (std::size_t at = 0; at < kBlock * sizeof(T); at += kLine) __builtin_prefetch(from + at);
  }

  Walk<T> walk_;
  const ReduceArgs& args_;
  const T* x_;
  bool adjacent_;
  bool far_;
  T packed_[kBlock];
};

template <class F>
typename F::Acc row(const F& f, const ReduceArgs& args, const typename F::In* x) {
  using In = typename F::In;
  const std::int64_t count = args.reduced;
  typename F::Acc acc = f.none();
  if (count <= kBlock && Blocks<In>::is_adjacent(args)) {
    any_block(f, acc, x, static_cast<int>(count));
    return acc;
  }
  Cascade<F> cascade(f);
  Blocks<In> blocks(args, x);
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const auto n = static_cast<int>(std::min<std::int64_t>(kBlock, count - first));
    if constexpr (!F::kExact) acc = f.none();
    any_block(f, acc, blocks.next(first, n), n);
    if constexpr (!F::kExact) cascade.add(acc);
    if (decided<F>(args, acc, first + n)) break;
  }
  if constexpr (F::kExact)
    return acc;
  else
    return cascade.total();
}

}  // namespace ember::inline v0::reduce::host
