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

/// As many elements as fill all lanes a number of times, which is added to `i`; lanes are brought
/// together in pairs.
template <class F>
EMBER_REDUCE_BODY typename F::Acc whole_lanes(const F&, const typename F::Lane* x, int count,
                                              int& i) {
  using Lane = typename F::Lane;
  constexpr int kWidth = kLanes<F>;
  constexpr int kPart = kWidth / 4;
  // Of the width that every x86-64 has: g++ keeps wider ones, which it takes apart before it knows
  // where they are inlined, in memory.
  using Vector __attribute__((vector_size(16))) = Lane;
  static_assert(sizeof(Vector) == kPart * sizeof(Lane));
  Vector total[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) total[v] = Vector{} + static_cast<Lane>(F::kLaneStart);
  for (; i + kWidth <= count; i += kWidth) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      Vector next;
      std::memcpy(&next, x + i + v * kPart, sizeof next);
      total[v] = F::with_term(total[v], next);
    }
  }
  const Vector last =
      F::with_lanes(F::with_lanes(total[0], total[2]), F::with_lanes(total[1], total[3]));
  if constexpr (kPart == 4)
    return F::with_lanes(F::with_lanes(last[0], last[2]), F::with_lanes(last[1], last[3]));
  else
    return F::with_lanes(last[0], last[1]);
}

template <class F>
requires(!reduce::is_extreme<F> && !reduce::is_variance<F>) EMBER_REDUCE_BODY
    void block(const F& f, typename F::Acc& acc, const typename F::In* x, int count) {
  constexpr int kWidth = kLanes<F>;
  static_assert(kBlock <= kWidth * reduce::kLaneElements);
  int i = 0;
  if (count >= 2 * kWidth) {
    if constexpr (std::is_same_v<typename F::In, typename F::Lane> && reduce::has_lanes<F>) {
      f.merge(acc, whole_lanes(f, x, count, i));
    } else if constexpr (reduce::has_lanes<F>) {
      typename F::Lane wide[kBlock];
      for (int k = 0; k < count; ++k) wide[k] = convert<typename F::Lane>(x[k]);
      f.merge(acc, whole_lanes(f, wide, count, i));
    } else {
      typename F::Lane lanes[kWidth];
      for (auto& lane : lanes) lane = f.lane_none();
      for (; i + kWidth <= count; i += kWidth)
        for (int k = 0; k < kWidth; ++k) f.add(lanes[k], x[i + k]);
      typename F::Acc sums[kWidth];
      for (int k = 0; k < kWidth; ++k) sums[k] = f.of_lane(lanes[k]);
      for (int half = kWidth / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) f.merge(sums[k], sums[k + half]);
      f.merge(acc, sums[0]);
    }
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
  void total_into(typename F::Acc& all) const noexcept {
    for (int level = 0; (blocks_ >> level) != 0; ++level)
      if (((blocks_ >> level) & 1U) != 0) f_.merge(all, sums_[level]);
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
  /// At the element with this number, in the order of the walk over all dimensions.
  Walk(const ReduceArgs& args, const T* start, std::int64_t number) noexcept
      : args_(args), at_(start), from_(0) {
    for (int d = 0; d < args.reduced_dims; ++d) {
      index_[d] = number % args.size[d];
      number /= args.size[d];
      at_ += index_[d] * args.stride[d];
    }
  }

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
    ops::host::gather(out, x, stride, run);
    walk.advance(run);
    out += run;
    count -= run;
  }
}

/// The elements of a row, a block after the other, each with its elements side by side.
template <class T>
class Blocks {
 public:
  /// From the element with this number on.
  Blocks(const ReduceArgs& args, const T* x, std::int64_t begin) noexcept
      : walk_(args, x, begin),
        args_(args),
        x_(x),
        adjacent_(is_adjacent(args)),
        far_(is_far(args)) {}

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

/// The elements [begin, end) of a row into `cascade`, or, where the order makes no difference, into
/// `acc`.
template <class F>
void part_of_row(const F& f, const ReduceArgs& args, const typename F::In* x, std::int64_t begin,
                 std::int64_t end, Cascade<F>& cascade, typename F::Acc& acc) {
  Blocks<typename F::In> blocks(args, x, begin);
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const auto n = static_cast<int>(std::min<std::int64_t>(kBlock, end - first));
    if constexpr (!F::kExact) acc = f.none();
    any_block(f, acc, blocks.next(first, n), n);
    if constexpr (!F::kExact) cascade.add(acc);
    if (decided<F>(args, acc, first + n - begin)) return;
  }
}

/// The same for a long row, on several threads: of the tree in which blocks are added up, each
/// thread takes branches of one size, so that the result is that of one thread.
template <class F>
typename F::Acc row_in_pieces(const F& f, const ReduceArgs& args, const typename F::In* x,
                              const HostLaunch& on) {
  using Acc = typename F::Acc;
  constexpr int kMostBranches = 128;
  // In blocks, the last of which may be shorter than others: a branch is full with it, too.
  const std::int64_t blocks = (args.reduced + kBlock - 1) / kBlock;
  std::int64_t blocks_each = 1;
  while (blocks / blocks_each > kMostBranches) blocks_each *= 2;
  const std::int64_t branches = blocks / blocks_each;
  const std::int64_t size = blocks_each * kBlock;
  Acc accs[kMostBranches];
  on.in_pieces(branches, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      accs[i] = f.none();
      Cascade<F> cascade(f);
      part_of_row(f, args, x, i * size, std::min((i + 1) * size, args.reduced), cascade, accs[i]);
      if constexpr (!F::kExact) {
        accs[i] = f.none();
        cascade.total_into(accs[i]);
      }
    }
  });
  // What is left is less than a branch, and in the tree comes before them.
  Acc all = f.none();
  Acc rest = f.none();
  Cascade<F> cascade(f);
  part_of_row(f, args, x, std::min(branches * size, args.reduced), args.reduced, cascade, rest);
  if constexpr (F::kExact) {
    all = rest;
    for (std::int64_t i = 0; i < branches; ++i) f.merge(all, accs[i]);
  } else {
    Cascade<F> upper(f);
    for (std::int64_t i = 0; i < branches; ++i) upper.add(accs[i]);
    cascade.total_into(all);
    upper.total_into(all);
  }
  return all;
}

/// Elements below which a row is not worth several threads.
inline constexpr std::int64_t kLongRow = 65536;

template <class F>
typename F::Acc row(const F& f, const ReduceArgs& args, const typename F::In* x,
                    const HostLaunch& on) {
  const std::int64_t count = args.reduced;
  typename F::Acc acc = f.none();
  if (count <= kBlock && Blocks<typename F::In>::is_adjacent(args)) {
    any_block(f, acc, x, static_cast<int>(count));
    return acc;
  }
  if (args.outputs == 1 && on.has_pieces(count, kLongRow)) return row_in_pieces(f, args, x, on);
  Cascade<F> cascade(f);
  part_of_row(f, args, x, 0, count, cascade, acc);
  if constexpr (!F::kExact) {
    acc = f.none();
    cascade.total_into(acc);
  }
  return acc;
}

}  // namespace ember::inline v0::reduce::host
