// Reductions of rows on the CPU and on simulated devices, one output at a time. A fixed order of
// additions, whatever the machine: a few hundred elements go into a row of lanes, which compilers
// make vectors of, and such blocks are added up in pairs, so that rounding errors grow with the
// logarithm of the count only.
#pragma once

#include <algorithm>
#include <cstring>

#include "ember/ops/host/vector.h"
#include "ember/ops/reduce_functors.h"

namespace ember::ops::host {

using driver::HostLaunch;

inline constexpr int kBlock = 512;

// Blocks and columns are inlined into a function with AVX2 and one without: Note [Vector
// instructions]. The order of additions does not depend on the width, so neither do the bits.
#define EMBER_REDUCE_BODY [[gnu::always_inline]] inline

/// Lanes that a block is spread over.
template <class F>
inline constexpr int kLanes = std::max<int>(8, static_cast<int>(64 / sizeof(typename F::Lane)));

/// Adjacent lanes in registers: compilers leave longer arrays of them in memory, and also those
/// whose address is taken, which is why each vector passes through a variable of its own.
template <class T, int kWidth>
struct Vectors {
  static constexpr int kBytes = 32;
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kCount = kWidth / kLanes;
  using Vector __attribute__((vector_size(kBytes))) = T;
  Vector part[kCount];

  EMBER_REDUCE_BODY void load(const T* from) {
#pragma GCC unroll 8
    for (int v = 0; v < kCount; ++v) {
      Vector value;
      std::memcpy(&value, from + v * kLanes, kBytes);
      part[v] = value;
    }
  }
  EMBER_REDUCE_BODY void fill(T value) {
#pragma GCC unroll 8
    for (int v = 0; v < kCount; ++v) part[v] = Vector{} + value;
  }
  EMBER_REDUCE_BODY void store(T* to) const {
#pragma GCC unroll 8
    for (int v = 0; v < kCount; ++v) {
      const Vector value = part[v];
      std::memcpy(to + v * kLanes, &value, kBytes);
    }
  }
};
/// Whether a comparison of vectors is true anywhere.
template <class Vector>
EMBER_REDUCE_BODY bool any_set(const Vector& mask) {
  std::uint64_t words[sizeof(Vector) / sizeof(std::uint64_t)];
  std::memcpy(words, &mask, sizeof words);
  std::uint64_t any = 0;
  for (const std::uint64_t word : words) any |= word;
  return any != 0;
}

/// What vectors can hold as it is stored.
template <class F>
inline constexpr bool has_vectors =
    std::is_arithmetic_v<typename F::In> && !std::is_same_v<typename F::In, bool>;

// ---- A block: adjacent elements, at most kBlock, into one accumulator

template <class F>
requires(!reduce::is_extreme<F> && !reduce::is_variance<F>) EMBER_REDUCE_BODY
    void block(const F& f, typename F::Acc& acc, const typename F::In* x, int count, std::int64_t,
               bool) {
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

/// A truth value as wide as T, so that vectors of both go together.
template <class T>
using Mask = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

/// Whether one of kWidth values, which fill a vector, equals another one.
template <class F, int kWidth>
EMBER_REDUCE_BODY bool has_equal(const typename F::In* x, typename F::Value value) {
  using Value = typename F::Value;
  if constexpr (has_vectors<F>) {
    Vectors<Value, kWidth> values;
    values.load(x);
    return any_set(values.part[0] == value);
  } else {
    Mask<Value> there = 0;
    for (int k = 0; k < kWidth; ++k)
      there = there | static_cast<Mask<Value>>(convert<Value>(x[k]) == value);
    return there != 0;
  }
}

/// The best of at least kWidth values, and whether NaN is among them: a question of its own, so
/// that each of the two is one instruction.
template <class F, int kWidth>
EMBER_REDUCE_BODY bool best_of(const typename F::In* x, int count, typename F::Value& found) {
  using Value = typename F::Value;
  if constexpr (has_vectors<F>) {
    using Values = Vectors<Value, kWidth>;
    Values best;
    best.load(x);
    auto nan = best.part[0] != best.part[0];
    for (int i = 0; i < count; i += kWidth) {
      Values next;
      next.load(x + std::min(i, count - kWidth));
#pragma GCC unroll 8
      for (int v = 0; v < Values::kCount; ++v) {
        const auto& value = next.part[v];
        if constexpr (is_floating<Value>)
          nan |= value != value;  // NOLINT(misc-redundant-expression)
        best.part[v] = F::beyond(Value(1), Value(0))
                           ? (value > best.part[v] ? value : best.part[v])
                           : (value < best.part[v] ? value : best.part[v]);
      }
    }
#pragma GCC unroll 8
    for (int v = 1; v < Values::kCount; ++v) {
      const auto& value = best.part[v];
      best.part[0] = F::beyond(Value(1), Value(0)) ? (value > best.part[0] ? value : best.part[0])
                                                   : (value < best.part[0] ? value : best.part[0]);
    }
    const auto folded = best.part[0];
    Value lanes[Values::kLanes];
    std::memcpy(lanes, &folded, sizeof lanes);
    for (int half = Values::kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k)
        lanes[k] = F::beyond(lanes[k + half], lanes[k]) ? lanes[k + half] : lanes[k];
    found = lanes[0];
    return any_set(nan);
  }
  Value best[kWidth];
  Mask<Value> nan[kWidth] = {};
  for (int k = 0; k < kWidth; ++k) best[k] = convert<Value>(x[k]);
  for (int i = 0; i < count; i += kWidth) {
    // The last step may take some once more.
    const typename F::In* from = x + std::min(i, count - kWidth);
    for (int k = 0; k < kWidth; ++k) {
      const auto value = convert<Value>(from[k]);
      best[k] = F::beyond(value, best[k]) ? value : best[k];
      nan[k] = nan[k] | static_cast<Mask<Value>>(F::unordered(value));
    }
  }
  Mask<Value> any = 0;
  for (int k = 0; k < kWidth; ++k) any = any | nan[k];
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k)
      best[k] = F::beyond(best[k + half], best[k]) ? best[k + half] : best[k];
  found = best[0];
  return any != 0;
}

template <class F>
requires reduce::is_extreme<F> EMBER_REDUCE_BODY void block(const F& f, typename F::Acc& acc,
                                                            const typename F::In* x, int count,
                                                            std::int64_t first, bool places) {
  using Value = typename F::Value;
  constexpr int kFew = static_cast<int>(32 / sizeof(Value));
  constexpr int kMany = 4 * kFew;
  Value best{};
  bool nan = true;
  if (count >= 2 * kMany)
    nan = best_of<F, kMany>(x, count, best);
  else if (count >= 2 * kFew)
    nan = best_of<F, kFew>(x, count, best);
  if (nan) {
    for (int i = 0; i < count; ++i) {
      f.add(acc, x[i], first + i);
      plain();
    }
    return;
  }
  // Where it is matters only if it is better than what was there, which is rarely so.
  if (acc.index != F::kNowhere && !F::better(best, acc.value)) return;
  // The first of those that are equal, and none is better. Zeros of both signs are equal, too.
  if (!places && best != Value(0)) {
    acc = {best, first};
    return;
  }
  int at = 0;
  for (; at + kFew <= count; at += kFew)
    if (has_equal<F, kFew>(x + at, best)) break;
  while (convert<Value>(x[at]) != best) ++at;
  acc = {convert<Value>(x[at]), first + at};
}

template <int kWidth, class T>
EMBER_REDUCE_BODY T gathered(T* lanes) {
  for (int half = kWidth / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] = lanes[k] + lanes[k + half];
  return lanes[0];
}

template <class F>
requires reduce::is_variance<F> EMBER_REDUCE_BODY void block(const F& f, typename F::Acc& acc,
                                                             const typename F::In* x, int count,
                                                             std::int64_t, bool) {
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
                                    int count, std::int64_t first, bool places) {
  block(f, acc, x, count, first, places);
}
template <class F>
void any_block(const F& f, typename F::Acc& acc, const typename F::In* x, int count,
               std::int64_t first, bool places) {
  if (has_avx2) return vector_block(f, acc, x, count, first, places);
#if EMBER_HOST_AVX2
  block(f, acc, x, count, first, places);
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

template <class F>
typename F::Acc row(const F& f, const ReduceArgs& args, const typename F::In* x) {
  using In = typename F::In;
  const std::int64_t count = args.reduced;
  const bool adjacent = args.reduced_dims == 0 || (args.reduced_dims == 1 && args.stride[0] == 1);
  typename F::Acc acc = f.none();
  if (adjacent && count <= kBlock) {
    any_block(f, acc, x, static_cast<int>(count), 0, args.indices != nullptr);
    return acc;
  }
  Cascade<F> cascade(f);
  Walk<In> walk(args, x, 0);
  In packed[kBlock];
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const auto length = static_cast<int>(std::min<std::int64_t>(kBlock, count - first));
    const In* from = x + first;
    if (!adjacent) {
      pack(args, walk, packed, length);
      from = packed;
    }
    if constexpr (!F::kExact) acc = f.none();
    any_block(f, acc, from, length, first, args.indices != nullptr);
    if constexpr (!F::kExact) cascade.add(acc);
    if (decided<F>(args, acc, first + length)) break;
  }
  if constexpr (F::kExact)
    return acc;
  else
    return cascade.total();
}

}  // namespace ember::ops::host
