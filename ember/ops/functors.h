// What the loops of both implementations are instantiated with. A functor says what its inputs are
// stored as, what they are computed in, what comes out, and how.
#pragma once

#include "ember/ops/loop.h"
#include "ember/scalar/elementwise.h"

namespace ember::inline v0 {
namespace elementwise {

/// addcmul with a factor, which is no operand of its own: it takes no part in promotion.
struct scaled_addcmul {
  static constexpr OpInfo info{"addcmul", 4, dtypes::every_number, Result::same, 2, ""};
  template <class T, class E>
  static EMBER_HD T apply(T x, T y, T z, T factor) {
    return m::add(x, m::mul(m::mul(y, factor), z));
  }
};
/// The same of addcdiv.
struct scaled_addcdiv {
  static constexpr OpInfo info{"addcdiv", 4, dtypes::floating_every_complex, Result::same, 4, ""};
  template <class T, class E>
  static EMBER_HD T apply(T x, T y, T z, T factor) {
    return x + m::mul(y, factor) / z;
  }
};

}  // namespace elementwise

namespace ops {

/// Whether what an operation gives for 16-bit elements is what it gives for floats, rounded. Not
/// where its expression asks for the element type: those have loops of their own for these types.
template <class Op>
inline constexpr bool computes_as_float = true;
template <>
inline constexpr bool computes_as_float<elementwise::nextafter> = false;
template <>
inline constexpr bool computes_as_float<elementwise::neg> = false;
template <>
inline constexpr bool computes_as_float<elementwise::abs> = false;

/// An element-wise operation on elements of type T.
template <class Op, class T>
struct Apply {
  static constexpr int kInputs = Op::info.operands;
  static constexpr bool kFills = false;
  using Output =
      std::conditional_t<Op::info.result == Result::boolean, bool,
                         std::conditional_t<Op::info.result == Result::real, Real<T>, T>>;
  template <int k>
  using Input = T;
  template <int k>
  using Computed = Compute<T>;
  template <class... X>
  EMBER_HD static Output call(X... x) {
    return convert<Output>(Op::template apply<Compute<T>, T>(x...));
  }
};

/// Operations on signs alone, on the bits of 16-bit numbers: what is done with them stays exact.
template <std::uint16_t kept, std::uint16_t turned>
struct ApplyToSign {
  static constexpr int kInputs = 1;
  static constexpr bool kFills = false;
  using Output = std::uint16_t;
  template <int k>
  using Input = std::uint16_t;
  template <int k>
  using Computed = std::uint16_t;
  EMBER_HD static std::uint16_t call(std::uint16_t x) {
    return static_cast<std::uint16_t>((x & kept) ^ turned);
  }
};
template <>
struct Apply<elementwise::neg, Half> : ApplyToSign<0xffff, 0x8000> {};
template <>
struct Apply<elementwise::neg, BFloat16> : ApplyToSign<0xffff, 0x8000> {};
template <>
struct Apply<elementwise::abs, Half> : ApplyToSign<0x7fff, 0> {};
template <>
struct Apply<elementwise::abs, BFloat16> : ApplyToSign<0x7fff, 0> {};

/// Copies, and converts on the way.
template <class From, class To>
struct Cast {
  static constexpr int kInputs = 1;
  static constexpr bool kFills = std::is_same_v<From, To>;  ///< with one value throughout: fill_
  using Output = To;
  template <int k>
  using Input = From;
  template <int k>
  using Computed = From;
  EMBER_HD static Output call(From x) { return convert<To>(x); }
};

/// As many bits as a type has. What only moves elements moves these, so that types of one size
/// share their loops.
struct alignas(16) Bits128 {
  std::uint64_t half[2];
};
template <std::size_t size>
using BitsOfSize = std::conditional_t<
    size == 1, std::uint8_t,
    std::conditional_t<size == 2, std::uint16_t,
                       std::conditional_t<size == 4, std::uint32_t,
                                          std::conditional_t<size == 8, std::uint64_t, Bits128>>>>;
template <class T>
using Bits = BitsOfSize<sizeof(T)>;

/// Copies from one type to another.
template <class From, class To>
using Copy =
    std::conditional_t<std::is_same_v<From, To>, Cast<Bits<From>, Bits<From>>, Cast<From, To>>;

/// condition ? x : y. The elements are copied, not computed with.
template <class T>
struct Where {
  static constexpr int kInputs = 3;
  static constexpr bool kFills = false;
  using Output = T;
  template <int k>
  using Input = std::conditional_t<k == 0, bool, T>;
  template <int k>
  using Computed = Input<k>;
  EMBER_HD static Output call(bool condition, T x, T y) { return condition ? x : y; }
};

}  // namespace ops
}  // namespace ember::inline v0
