// Reductions of columns: many outputs at once, whose elements lie side by side, by the rules of
// rows.h.
#pragma once

#include "ember/reduce/host/rows.h"

namespace ember::inline v0::reduce::host {

/// Columns that are worked on together.
template <class F>
inline constexpr int kColumns = static_cast<int>(8192 / sizeof(typename F::Acc));
inline constexpr int kRows = reduce::kLaneElements;

/// Merges up to kRows rows into the accumulators of `width` columns.
template <class F>
requires(!reduce::is_extreme<F> && !reduce::is_variance<F>) EMBER_REDUCE_BODY
    void columns(const F& f, typename F::Acc* acc, const typename F::In* const* rows, int count,
                 int width, std::int64_t, bool) {
  typename F::Lane lanes[kColumns<F>];
  for (int c = 0; c < width; ++c) lanes[c] = f.lane_none();
  int r = 0;
  for (; r + 4 <= count; r += 4) {
    const typename F::In* x0 = rows[r];
    const typename F::In* x1 = rows[r + 1];
    const typename F::In* x2 = rows[r + 2];
    const typename F::In* x3 = rows[r + 3];
    for (int c = 0; c < width; ++c) {
      auto lane = lanes[c];
      f.add(lane, x0[c]);
      f.add(lane, x1[c]);
      f.add(lane, x2[c]);
      f.add(lane, x3[c]);
      lanes[c] = lane;
    }
  }
  for (; r < count; ++r)
    for (int c = 0; c < width; ++c) f.add(lanes[c], rows[r][c]);
  for (int c = 0; c < width; ++c) f.merge(acc[c], f.of_lane(lanes[c]));
}

/// The best of each column, by whatever order; where it is is not asked. Whether there is NaN.
template <class F>
EMBER_REDUCE_BODY bool best_values(typename F::Value* best, const typename F::In* const* rows,
                                   int count, int width) {
  using Value = typename F::Value;
  Mask<Value> nan = 0;
  for (int c = 0; c < width; ++c) {
    best[c] = convert<Value>(rows[0][c]);
    nan = nan | static_cast<Mask<Value>>(F::unordered(best[c]));
  }
  int r = 1;
  for (; r + 3 <= count; r += 3) {
    const typename F::In* x0 = rows[r];
    const typename F::In* x1 = rows[r + 1];
    const typename F::In* x2 = rows[r + 2];
    EMBER_NO_ALIAS
    for (int c = 0; c < width; ++c) {
      const auto v0 = convert<Value>(x0[c]);
      const auto v1 = convert<Value>(x1[c]);
      const auto v2 = convert<Value>(x2[c]);
      Value value = best[c];
      value = F::beyond(v0, value) ? v0 : value;
      value = F::beyond(v1, value) ? v1 : value;
      value = F::beyond(v2, value) ? v2 : value;
      best[c] = value;
      nan = nan | static_cast<Mask<Value>>(F::unordered(v0)) |
            static_cast<Mask<Value>>(F::unordered(v1)) | static_cast<Mask<Value>>(F::unordered(v2));
    }
  }
  for (; r < count; ++r) {
    const typename F::In* x = rows[r];
    EMBER_NO_ALIAS
    for (int c = 0; c < width; ++c) {
      const auto value = convert<Value>(x[c]);
      best[c] = F::beyond(value, best[c]) ? value : best[c];
      nan = nan | static_cast<Mask<Value>>(F::unordered(value));
    }
  }
  return nan != 0;
}

/// The same and where it is. `kNaN`: NaN may be among them, and is the best then.
template <class F, bool kNaN, class Index>
EMBER_REDUCE_BODY bool best_places(typename F::Value* best, Index* where,
                                   const typename F::In* const* rows, int count, int width) {
  using Value = typename F::Value;
  Index nan = 0;
  for (int c = 0; c < width; ++c) {
    best[c] = convert<Value>(rows[0][c]);
    where[c] = 0;
    nan |= static_cast<Index>(F::unordered(best[c]));
  }
  for (int r = 1; r < count; ++r) {
    const typename F::In* x = rows[r];
    const auto index = static_cast<Index>(r);
    EMBER_NO_ALIAS
    for (int c = 0; c < width; ++c) {
      const auto value = convert<Value>(x[c]);
      const bool take = kNaN ? F::better(value, best[c]) : F::beyond(value, best[c]);
      best[c] = take ? value : best[c];
      where[c] = take ? index : where[c];
      nan |= static_cast<Index>(F::unordered(value));
    }
  }
  return nan != 0;
}

template <class F>
requires reduce::is_extreme<F> EMBER_REDUCE_BODY void columns(const F& f, typename F::Acc* acc,
                                                              const typename F::In* const* rows,
                                                              int count, int width,
                                                              std::int64_t first, bool places) {
  using Value = typename F::Value;
  using Index = std::conditional_t<sizeof(Value) == 8, std::int64_t, std::int32_t>;
  Value best[kColumns<F>];
  Index where[kColumns<F>];
  // The usual case first, in which there is no NaN.
  if (!places && !best_values<F>(best, rows, count, width)) {
    for (int c = 0; c < width; ++c) f.merge(acc[c], {best[c], first});
    return;
  }
  if (!places || best_places<F, false>(best, where, rows, count, width))
    best_places<F, true>(best, where, rows, count, width);
  for (int c = 0; c < width; ++c) f.merge(acc[c], {best[c], first + where[c]});
}

template <class F>
requires reduce::is_variance<F> EMBER_REDUCE_BODY void columns(const F& f, typename F::Acc* acc,
                                                               const typename F::In* const* rows,
                                                               int count, int width, std::int64_t,
                                                               bool) {
  using Value = typename F::Value;
  using Part = typename F::Part;
  Value mean[kColumns<F>];
  Value rest[kColumns<F>];
  Part squares[kColumns<F>];
  for (int c = 0; c < width; ++c) mean[c] = convert<Value>(rows[0][c]);
  int r = 1;
  for (; r + 3 <= count; r += 3) {
    const typename F::In* x0 = rows[r];
    const typename F::In* x1 = rows[r + 1];
    const typename F::In* x2 = rows[r + 2];
    EMBER_NO_ALIAS
    for (int c = 0; c < width; ++c)
      mean[c] = mean[c] + convert<Value>(x0[c]) + convert<Value>(x1[c]) + convert<Value>(x2[c]);
  }
  for (; r < count; ++r)
    for (int c = 0; c < width; ++c) mean[c] = mean[c] + convert<Value>(rows[r][c]);
  for (int c = 0; c < width; ++c) {
    mean[c] = reduce::divided(mean[c], count);
    rest[c] = Value(0);
    squares[c] = 0;
  }
  for (r = 0; r + 2 <= count; r += 2) {
    const typename F::In* x0 = rows[r];
    const typename F::In* x1 = rows[r + 1];
    EMBER_NO_ALIAS
    for (int c = 0; c < width; ++c) {
      const Value d0 = convert<Value>(x0[c]) - mean[c];
      const Value d1 = convert<Value>(x1[c]) - mean[c];
      rest[c] = rest[c] + d0 + d1;
      squares[c] = squares[c] + F::square(d0) + F::square(d1);
    }
  }
  for (; r < count; ++r)
    for (int c = 0; c < width; ++c) {
      const Value distance = convert<Value>(rows[r][c]) - mean[c];
      rest[c] = rest[c] + distance;
      squares[c] += F::square(distance);
    }
  for (int c = 0; c < width; ++c) f.merge(acc[c], F::around(mean[c], rest[c], squares[c], count));
}

template <class F>
EMBER_VECTOR_CODE void vector_columns(const F& f, typename F::Acc* acc,
                                      const typename F::In* const* rows, int count, int width,
                                      std::int64_t first, bool places) {
  columns(f, acc, rows, count, width, first, places);
}
/// `places`: whether somebody asks where extremes are.
template <class F>
void any_columns(const F& f, typename F::Acc* acc, const typename F::In* const* rows, int count,
                 int width, std::int64_t first, bool places) {
  if (has_avx2) return vector_columns(f, acc, rows, count, width, first, places);
#if EMBER_HOST_AVX2
  columns(f, acc, rows, count, width, first, places);
#endif
}

/// One tile of columns: `out` gets an accumulator for each of them.
template <class F>
void tile(const F& f, const ReduceArgs& args, const typename F::In* x, int width,
          typename F::Acc* out) {
  using In = typename F::In;
  using Acc = typename F::Acc;
  // Blocks of rows are collected in groups of 64, and those in groups of 64 again.
  constexpr int kGroup = 64;
  constexpr int kLevels = F::kExact ? 0 : 2;
  Acc levels[kLevels + 1][kColumns<F>];
  int filled[kLevels + 1] = {};
  const auto clear = [&](Acc* accs) { std::fill_n(accs, width, f.none()); };
  const auto merge = [&](Acc* into, const Acc* from) {
    for (int c = 0; c < width; ++c) f.merge(into[c], from[c]);
  };
  clear(out);
  for (int level = 0; level < kLevels; ++level) clear(levels[level]);
  Walk<In> walk(args, x, 0);
  const In* rows[kRows];
  for (std::int64_t first = 0; first < args.reduced; first += kRows) {
    const auto count = static_cast<int>(std::min<std::int64_t>(kRows, args.reduced - first));
    for (int r = 0; r < count; ++r) {
      rows[r] = walk.here();
      walk.advance(1);
    }
    any_columns(f, F::kExact ? out : levels[0], rows, count, width, first, args.indices != nullptr);
    if (std::all_of(out, out + width,
                    [&](const Acc& acc) { return decided<F>(args, acc, first + count); }))
      return;
    for (int level = 0; level < kLevels && ++filled[level] == kGroup; ++level) {
      merge(level + 1 == kLevels ? out : levels[level + 1], levels[level]);
      clear(levels[level]);
      filled[level] = 0;
    }
  }
  for (int level = kLevels - 1; level >= 0; --level) merge(out, levels[level]);
}

}  // namespace ember::inline v0::reduce::host
