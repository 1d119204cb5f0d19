// The largest or the smallest element of a row on the CPU and on simulated devices, and where it
// is: block by block what is best, and in the end the place, in the one block that has it.
#pragma once

#include "ember/base/mutex.h"
#include "ember/reduce/host/rows.h"

namespace ember::inline v0::reduce::host {

/// Whether one of kWidth values, which fill one vector or several, equals another one.
template <class F, int kWidth>
EMBER_REDUCE_BODY bool has_equal(const typename F::In* x, typename F::Value value) {
  using Value = typename F::Value;
  if constexpr (has_vectors<F>) {
    Vectors<Value, kWidth> values;
    values.load(x);
    auto equal = values.part[0] == value;
#pragma GCC unroll 8
    for (int v = 1; v < Vectors<Value, kWidth>::kCount; ++v) equal |= values.part[v] == value;
    return any_set(equal);
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

/// The same for any count but zero.
template <class F>
EMBER_REDUCE_BODY bool best_of_any(const typename F::In* x, int count, typename F::Value& found) {
  using Value = typename F::Value;
  constexpr int kFew = static_cast<int>(32 / sizeof(Value));
  constexpr int kMany = 4 * kFew;
  if (count >= 2 * kMany) return best_of<F, kMany>(x, count, found);
  if (count >= 2 * kFew) return best_of<F, kFew>(x, count, found);
  found = convert<Value>(x[0]);
  bool nan = F::unordered(found);
  for (int i = 1; i < count; ++i) {
    const auto value = convert<Value>(x[i]);
    found = F::beyond(value, found) ? value : found;
    nan |= F::unordered(value);
    plain();
  }
  return nan;
}

/// The first element that equals the best, which is among them; zeros of both signs are equal. (If
/// others write there meanwhile, it may be gone: then the last one.)
template <class F>
EMBER_REDUCE_BODY int place_of(const typename F::In* x, int count, typename F::Value best) {
  using Value = typename F::Value;
  constexpr int kFew = static_cast<int>(32 / sizeof(Value));
  constexpr int kMany = 4 * kFew;
  int at = 0;
  while (at + kMany <= count && !has_equal<F, kMany>(x + at, best)) at += kMany;
  while (at + kFew <= count && !has_equal<F, kFew>(x + at, best)) at += kFew;
  at = std::min(at, count - 1);
  while (at < count - 1 && convert<Value>(x[at]) != best) ++at;
  return at;
}
template <class F>
EMBER_REDUCE_BODY int place_of_nan(const typename F::In* x, int count) {
  int at = 0;
  while (at < count - 1 && !F::unordered(convert<typename F::Value>(x[at]))) ++at;
  return at;
}

/// What stands where the best is, or the first NaN, in the block that has it; `start`: the number
/// of the block's first element.
template <class F>
EMBER_REDUCE_BODY typename F::Acc chosen(const ReduceArgs& args, const typename F::In* block,
                                         int length, std::int64_t start, typename F::Value best,
                                         bool nan) {
  using Value = typename F::Value;
  // Where it is says which of two zeros it is, too.
  if (!nan && args.indices == nullptr && best != Value(0)) return {best, start};
  const int at = nan ? place_of_nan<F>(block, length) : place_of<F>(block, length, best);
  return {convert<Value>(block[at]), start + at};
}

template <class F>
EMBER_REDUCE_BODY typename F::Acc extreme_row(const F& f, const ReduceArgs& args,
                                              const typename F::In* x, std::int64_t begin,
                                              std::int64_t end) {
  using In = typename F::In;
  using Value = typename F::Value;
  if (begin == 0 && end > 0 && end <= kBlock && Blocks<In>::is_adjacent(args)) {
    const auto n = static_cast<int>(end);
    Value found;
    const bool nan = best_of_any<F>(x, n, found);
    return chosen<F>(args, x, n, 0, found, nan);
  }
  Blocks<In> blocks(args, x, begin);
  In kept[kBlock];
  // The block that has the best so far.
  const In* block = nullptr;
  std::int64_t start = 0;
  int length = 0;
  Value best{};
  bool nan = false;
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const auto n = static_cast<int>(std::min<std::int64_t>(kBlock, end - first));
    const In* from = blocks.next(first, n);
    Value found;
    nan = best_of_any<F>(from, n, found);
    if (!nan && block != nullptr && !F::beyond(found, best)) continue;
    block = blocks.stay() ? from : std::copy_n(from, n, kept) - n;
    start = first;
    length = n;
    best = found;
    if (nan) break;  // nothing goes before the first NaN
  }
  if (block == nullptr) return f.none();
  return chosen<F>(args, block, length, start, best, nan);
}

template <class F>
EMBER_VECTOR_CODE typename F::Acc vector_extreme_row(const F& f, const ReduceArgs& args,
                                                     const typename F::In* x, std::int64_t begin,
                                                     std::int64_t end) {
  return extreme_row(f, args, x, begin, end);
}
template <class F>
typename F::Acc any_extreme_row(const F& f, const ReduceArgs& args, const typename F::In* x,
                                std::int64_t begin, std::int64_t end) {
  if (has_avx2) return vector_extreme_row(f, args, x, begin, end);
#if EMBER_HOST_AVX2
  return extreme_row(f, args, x, begin, end);
#endif
}
template <class F>
requires reduce::is_extreme<F>
typename F::Acc row(const F& f, const ReduceArgs& args, const typename F::In* x,
                    const HostLaunch& on) {
  if (args.outputs > 1 || !on.has_pieces(args.reduced, kLongRow))
    return any_extreme_row(f, args, x, 0, args.reduced);
  Mutex mutex;
  typename F::Acc all = f.none();
  on.in_pieces(args.reduced, kLongRow, [&](std::int64_t first, std::int64_t last) {
    const typename F::Acc part = any_extreme_row(f, args, x, first, last);
    const MutexLock lock(mutex);
    f.merge(all, part);  // in any order: of equal ones the first stays
  });
  return all;
}

}  // namespace ember::inline v0::reduce::host
