// The reductions as functors, for both implementations: how one element enters an accumulator, how
// two accumulators become one, and what is stored in the end.
//
// A functor has
//   In             the element type
//   Acc            the accumulator
//   Lane           what a few hundred elements are gathered in before they enter an Acc: narrower
//                  where that is possible, so that vectors hold more of them
//   kExact         whether the order of the elements makes no difference to the result
//   none()         the accumulator of nothing; lane_none() for lanes
//   add(lane, x), merge(acc, other), of_lane(lane)
//   store(args, at, acc)
// Those whose lanes are vectors' elements besides have, for numbers and vectors of them,
//   kLaneStart, with_term(lanes, x), with_lanes(lanes, others)
#pragma once

#include <cstdint>
#include <type_traits>

#include "ember/reduce/args.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::reduce {

/// At most this many elements enter one lane.
inline constexpr int kLaneElements = 64;

template <class T>
struct AddLane {
  using type = Compute<T>;
};
template <>
struct AddLane<std::uint8_t> {
  using type = std::int32_t;
};
template <>
struct AddLane<std::int8_t> {
  using type = std::int32_t;
};
template <>
struct AddLane<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct AddLane<std::int32_t> {
  using type = std::int64_t;
};

template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, Compute<T>>;

template <class To>
EMBER_HD void put(void* out, std::int64_t at, To value) {
  static_cast<To*>(out)[at] = value;
}

template <class T>
EMBER_HD T divided(T value, double by) {
  if constexpr (is_complex<T>)
    return {value.re / static_cast<Real<T>>(by), value.im / static_cast<Real<T>>(by)};
  else
    return value / static_cast<T>(by);
}

/// Integers add up to int64, everything else in the type that it is computed in.
template <class T>
struct Sum {
  using In = T;
  using Acc = Wide<T>;
  using Lane = typename AddLane<T>::type;
  static constexpr bool kExact = std::is_integral_v<T>;

  EMBER_HD explicit Sum(const ReduceArgs&) {}
  static constexpr int kLaneStart = 0;
  template <class V>
  static V with_term(V lanes, V x) {
    return lanes + x;
  }
  template <class V>
  static V with_lanes(V lanes, V others) {
    return lanes + others;
  }
  EMBER_HD Acc none() const { return Acc(0); }
  EMBER_HD Lane lane_none() const { return Lane(0); }
  EMBER_HD void add(Lane& lane, T x) const { lane = m::add(lane, convert<Lane>(x)); }
  EMBER_HD Acc of_lane(const Lane& lane) const { return convert<Acc>(lane); }
  EMBER_HD void merge(Acc& acc, const Acc& other) const { acc = m::add(acc, other); }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    if constexpr (std::is_integral_v<T>)
      put(args.out, at, acc);
    else
      put(args.out, at,
          convert<T>(args.mode == ReduceMode::divided ? divided(acc, args.number) : acc));
  }
};

template <class T>
struct Prod {
  using In = T;
  using Acc = Wide<T>;
  using Lane = Acc;
  static constexpr bool kExact = std::is_integral_v<T>;

  EMBER_HD explicit Prod(const ReduceArgs&) {}
  static constexpr int kLaneStart = 1;
  template <class V>
  static V with_term(V lanes, V x) {
    return lanes * x;
  }
  template <class V>
  static V with_lanes(V lanes, V others) {
    return lanes * others;
  }
  EMBER_HD Acc none() const { return Acc(1); }
  EMBER_HD Lane lane_none() const { return Acc(1); }
  EMBER_HD void add(Lane& lane, T x) const { lane = m::mul(lane, convert<Lane>(x)); }
  EMBER_HD Acc of_lane(const Lane& lane) const { return lane; }
  EMBER_HD void merge(Acc& acc, const Acc& other) const { acc = m::mul(acc, other); }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    put(args.out, at, convert<std::conditional_t<std::is_integral_v<T>, std::int64_t, T>>(acc));
  }
};

/// How many elements are not zero; and what follows from that: any, all, and sums of bools.
template <class T>
struct Count {
  using In = T;
  using Acc = std::int64_t;
  using Lane = std::conditional_t<
      sizeof(Real<T>) == 1, std::uint8_t,
      std::conditional_t<sizeof(Real<T>) == 2, std::uint16_t,
                         std::conditional_t<sizeof(Real<T>) == 4, std::uint32_t, std::uint64_t>>>;
  static constexpr bool kExact = true;

  EMBER_HD explicit Count(const ReduceArgs&) {}
  EMBER_HD Acc none() const { return 0; }
  EMBER_HD Lane lane_none() const { return 0; }
  EMBER_HD void add(Lane& lane, T x) const { lane = static_cast<Lane>(lane + counts(x)); }
  EMBER_HD Acc of_lane(const Lane& lane) const { return static_cast<Acc>(lane); }
  EMBER_HD void merge(Acc& acc, const Acc& other) const { acc += other; }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    switch (args.mode) {
      case ReduceMode::any: put(args.out, at, acc != 0); return;
      case ReduceMode::all: put(args.out, at, acc == args.reduced); return;
      case ReduceMode::all_int64:
        put(args.out, at, static_cast<std::int64_t>(acc == args.reduced));
        return;
      case ReduceMode::real:
        if constexpr (is_complex<T> || is_floating<T>) put(args.out, at, convert<Real<T>>(acc));
        return;
      default: put(args.out, at, acc); return;
    }
  }

 private:
  static EMBER_HD bool counts(T x) {
    // By its bits: the sign of a zero does not count, and no conversion is needed.
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return (x.bits & 0x7fffU) != 0;
    else
      return convert<bool>(x);
  }
};

/// The largest or the smallest element and where it is first. NaN goes before everything.
template <class T, bool kLargest>
struct Extreme {
  using In = T;
  using Value = Compute<T>;
  struct Acc {
    Value value;
    std::int64_t index;  ///< kNowhere before there is an element
  };
  using Lane = Acc;
  static constexpr bool kExact = true;
  static constexpr std::int64_t kNowhere = INT64_MAX;

  EMBER_HD explicit Extreme(const ReduceArgs& args) : places(args.indices != nullptr) {}
  EMBER_HD Acc none() const { return {Value(0), kNowhere}; }
  static EMBER_HD bool unordered(Value x) {
    if constexpr (is_floating<T>)
      return x != x;  // NOLINT(misc-redundant-expression)
    else
      return false;
  }
  /// False with NaN on either side.
  static EMBER_HD bool beyond(Value x, Value than) { return kLargest ? x > than : x < than; }
  static EMBER_HD bool better(Value x, Value than) {
    if constexpr (is_floating<T>)
      return beyond(x, than) || (m::isnan(x) && !m::isnan(than));
    else
      return beyond(x, than);
  }
  static EMBER_HD Value best(Value x, Value y) {
    return kLargest ? m::maximum(x, y) : m::minimum(x, y);
  }
  EMBER_HD void add(Acc& acc, T x, std::int64_t index) const {
    const auto value = convert<Value>(x);
    if (acc.index == kNowhere || better(value, acc.value)) acc = {value, index};
  }
  EMBER_HD void merge(Acc& acc, const Acc& other) const {
    if (other.index == kNowhere) return;
    if (acc.index == kNowhere || better(other.value, acc.value) ||
        (other.index < acc.index && !better(acc.value, other.value)))
      acc = other;
  }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    if (args.out != nullptr) put(args.out, at, convert<T>(acc.value));
    if (args.indices != nullptr) args.indices[at] = acc.index;
  }

  bool places;  ///< whether anybody asks where an extreme is
};
template <class T>
using Largest = Extreme<T, true>;
template <class T>
using Smallest = Extreme<T, false>;

/// Variance by means and squared distances from them, merged as Chan, Golub and LeVeque do: one
/// pass, and no cancellation. Floats are merged in double: beside a large mean, the last place of a
/// float is larger than many a deviation.
template <class T>
struct Variance {
  using In = T;
  using Value = Compute<T>;
  using Part = Real<Value>;
  using Fine = std::conditional_t<std::is_same_v<Real<T>, float>, double, Part>;
  using Mean = std::conditional_t<is_complex<T>, Complex<Fine>, Fine>;
  struct Acc {
    Mean mean;
    Fine squares;  ///< sum of |x - mean|^2
    Fine count;
  };
  using Lane = Acc;
  static constexpr bool kExact = false;

  EMBER_HD explicit Variance(const ReduceArgs&) {}
  EMBER_HD Acc none() const { return {Mean(0), Fine(0), Fine(0)}; }
  template <class V>
  static EMBER_HD Real<V> square(V x) {
    if constexpr (is_complex<V>)
      return x.re * x.re + x.im * x.im;
    else
      return x * x;
  }
  /// `count` elements, of which is known by how much they exceed `near` in sum and in squares.
  static EMBER_HD Acc around(Value near, Value sum, Part squares, int count) {
    const auto number = static_cast<Fine>(count);
    const auto excess = convert<Mean>(sum);
    const Mean mean = divided(excess, number);
    const Fine rest = static_cast<Fine>(squares) - square(excess) / number;
    return {convert<Mean>(near) + mean, rest < 0 ? Fine(0) : rest, number};
  }
  EMBER_HD void merge(Acc& acc, const Acc& other) const {
    if (other.count == 0) return;
    if (acc.count == 0) {
      acc = other;
      return;
    }
    const Fine count = acc.count + other.count;
    const Fine share = other.count / count;
    const Mean distance = other.mean - acc.mean;
    if constexpr (is_complex<T>)
      acc.mean = acc.mean + Mean(distance.re * share, distance.im * share);
    else
      acc.mean += distance * share;
    acc.squares += other.squares + square(distance) * (acc.count * share);
    acc.count = count;
  }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    const double degrees = static_cast<double>(args.reduced) - args.number;
    Fine value = acc.squares / static_cast<Fine>(degrees > 0 ? degrees : 0.0);
    // Nothing has no variance, however generous the correction.
    if (args.reduced == 0) value = Fine(0) / Fine(0);
    if (args.mode == ReduceMode::root) value = m::sqrt(value);
    put(args.out, at, convert<Real<T>>(value));
  }
};

/// The Euclidean norm. Squares of floats are added up in double, which holds them all.
template <class T>
struct Norm2 {
  using In = T;
  using Acc = std::conditional_t<std::is_same_v<Real<T>, float>, double, Real<Compute<T>>>;
  using Lane = Acc;
  using Value = std::conditional_t<is_complex<T>, Complex<Acc>, Acc>;
  static constexpr bool kExact = false;

  EMBER_HD explicit Norm2(const ReduceArgs&) {}
  static constexpr int kLaneStart = 0;
  template <class V>
  static V with_term(V lanes, V x) {
    return lanes + x * x;
  }
  template <class V>
  static V with_lanes(V lanes, V others) {
    return lanes + others;
  }
  EMBER_HD Acc none() const { return 0; }
  EMBER_HD Lane lane_none() const { return 0; }
  EMBER_HD void add(Lane& lane, T x) const { lane += Variance<T>::square(convert<Value>(x)); }
  EMBER_HD Acc of_lane(const Lane& lane) const { return lane; }
  EMBER_HD void merge(Acc& acc, const Acc& other) const { acc += other; }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    put(args.out, at, convert<Real<T>>(m::sqrt(acc)));
  }
};

/// The other norms, in double as well: large powers of floats are no floats.
template <class T>
struct Norm {
  using In = T;
  using Acc = std::conditional_t<std::is_same_v<Real<T>, float>, double, Real<Compute<T>>>;
  using Lane = Acc;
  static constexpr bool kExact = false;

  EMBER_HD explicit Norm(const ReduceArgs& args)
      : mode(args.mode), p(static_cast<Acc>(args.number)) {}
  EMBER_HD Acc none() const {
    return mode == ReduceMode::smallest ? static_cast<Acc>(HUGE_VALF) : Acc(0);
  }
  EMBER_HD Lane lane_none() const { return none(); }
  EMBER_HD void add(Lane& lane, T x) const {
    const Acc size = m::abs(convert<Compute<T>>(x));
    merge(lane, mode == ReduceMode::power ? m::pow(size, p) : size);
  }
  EMBER_HD Acc of_lane(const Lane& lane) const { return lane; }
  EMBER_HD void merge(Acc& acc, const Acc& other) const {
    if (mode == ReduceMode::largest)
      acc = m::maximum(acc, other);
    else if (mode == ReduceMode::smallest)
      acc = m::minimum(acc, other);
    else
      acc += other;
  }
  EMBER_HD void store(const ReduceArgs& args, std::int64_t at, const Acc& acc) const {
    put(args.out, at, convert<Real<T>>(mode == ReduceMode::power ? m::pow(acc, Acc(1) / p) : acc));
  }

  ReduceMode mode;
  Acc p;
};

template <class F>
inline constexpr bool is_extreme = false;
template <class T, bool kLargest>
inline constexpr bool is_extreme<Extreme<T, kLargest>> = true;
/// Whether lanes are the elements of vectors: of real floating-point numbers.
template <class F>
inline constexpr bool has_lanes = false;
template <class T>
inline constexpr bool has_lanes<Sum<T>> = is_floating<T>;
template <class T>
inline constexpr bool has_lanes<Prod<T>> = is_floating<T>;
template <class T>
inline constexpr bool has_lanes<Norm2<T>> = is_floating<T>;
template <class F>
inline constexpr bool is_count = false;
template <class T>
inline constexpr bool is_count<Count<T>> = true;
template <class F>
inline constexpr bool is_variance = false;
template <class T>
inline constexpr bool is_variance<Variance<T>> = true;

}  // namespace ember::inline v0::reduce

// The kernels: EMBER_REDUCE(functor, C++ type, name). Bools are counted, and compared as bytes.
// clang-format off
#define EMBER_REDUCE_EACH_REAL(EMBER_REDUCE, functor, op)       \
  EMBER_REDUCE(functor, std::uint8_t, op ".uint8")              \
  EMBER_REDUCE(functor, std::int8_t, op ".int8")                \
  EMBER_REDUCE(functor, std::int16_t, op ".int16")              \
  EMBER_REDUCE(functor, std::int32_t, op ".int32")              \
  EMBER_REDUCE(functor, std::int64_t, op ".int64")              \
  EMBER_REDUCE(functor, ::ember::Half, op ".float16")           \
  EMBER_REDUCE(functor, ::ember::BFloat16, op ".bfloat16")      \
  EMBER_REDUCE(functor, float, op ".float32")                   \
  EMBER_REDUCE(functor, double, op ".float64")
#define EMBER_REDUCE_EACH_COMPLEX(EMBER_REDUCE, functor, op)    \
  EMBER_REDUCE(functor, ::ember::Complex<float>, op ".complex64") \
  EMBER_REDUCE(functor, ::ember::Complex<double>, op ".complex128")
#define EMBER_REDUCE_EACH_FLOATING(EMBER_REDUCE, functor, op)   \
  EMBER_REDUCE(functor, ::ember::Half, op ".float16")           \
  EMBER_REDUCE(functor, ::ember::BFloat16, op ".bfloat16")      \
  EMBER_REDUCE(functor, float, op ".float32")                   \
  EMBER_REDUCE(functor, double, op ".float64")                  \
  EMBER_REDUCE_EACH_COMPLEX(EMBER_REDUCE, functor, op)
#define EMBER_REDUCE_EACH_ALL(EMBER_REDUCE, functor, op)            \
  EMBER_REDUCE_EACH_REAL(EMBER_REDUCE, functor, op)             \
  EMBER_REDUCE_EACH_COMPLEX(EMBER_REDUCE, functor, op)
// clang-format on
