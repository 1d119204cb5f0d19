// From the words of one Philox call to numbers of a distribution, the same bits on every machine:
// every operation below is one that IEEE 754 rounds correctly (+, *, /, fused multiply-add, square
// root, conversions), each is rounded exactly where it is written, and no function of a library is
// called whose last bit differs from machine to machine.
#pragma once

#include "ember/scalar/philox.h"
#include "ember/scalar/rounded.h"
#include "ember/scalar/types.h"

namespace ember::inline v0 {

namespace draw {

namespace rounded = m::rounded;

/// Uniform in (0, 1]: 32 bits, rounded to float.
EMBER_HD float unit(std::uint32_t word) {
  return rounded::fma(static_cast<float>(word), 0x1p-32F, 0x1p-33F);
}
/// Uniform in (0, 1]: 53 bits.
EMBER_HD double unit(std::uint32_t word0, std::uint32_t word1) {
  const std::uint64_t bits = word0 ^ (std::uint64_t{word1} << 21);
  const auto number = static_cast<double>(static_cast<std::int64_t>(bits));
  return rounded::fma(number, 0x1p-53, 0x1p-54);
}

/// The i-th uniform number of a call, of as many bits as F has.
template <class F>
EMBER_HD F unit_of(const PhiloxWords& words, int i) {
  if constexpr (sizeof(F) == 8) {
    const int at = i == 0 ? 0 : 2;
    return unit(words.w[at], words.w[at + 1]);
  } else {
    return unit(words.w[i]);
  }
}
/// The same bits as they are.
template <class F>
EMBER_HD auto bits_of(const PhiloxWords& words, int i) {
  if constexpr (sizeof(F) == 8)
    return words.pair(i);
  else
    return words.w[i];
}

/// A number as its bits and back.
EMBER_HD std::uint32_t encoded(float x) { return detail::float_bits(x); }
EMBER_HD std::uint64_t encoded(double x) {
  std::uint64_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
EMBER_HD float decoded(std::uint32_t bits) { return detail::float_from_bits(bits); }
EMBER_HD double decoded(std::uint64_t bits) {
  double x = 0;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Polynomials (minimax). First -2 log(1 + f) for 1 + f from sqrt(1/2) to sqrt(2): for float as f
// times one of f, to which 2^-60 is added at no cost, so that no result is zero and a square root
// need not ask; for double through log(m) = 2 artanh((m - 1) / (m + 1)).
EMBER_HD float minus_two_log1p(float f) {
  constexpr float c[] = {-0x1.000000p+1F, 0x1.fffffep-1F,  -0x1.555796p-1F,
                         0x1.00038cp-1F,  -0x1.98b290p-2F, 0x1.53846ep-2F,
                         -0x1.32bcb8p-2F, 0x1.243c02p-2F,  -0x1.5d8646p-3F};
  return rounded::fma(f, rounded::polynomial(f, c), 0x1p-60F);
}
EMBER_HD double minus_two_log1p(double f) {
  constexpr double c[] = {-0x1.0000000000000p+2, -0x1.55555555555aep+0, -0x1.999999997aeaap-1,
                          -0x1.2492494513f76p-1, -0x1.c71c50004ffddp-2, -0x1.7466994f20a7cp-2,
                          -0x1.3999bf614de60p-2, -0x1.2f4d88c4fad06p-2};
  const double s = rounded::div(f, rounded::add(f, 2.0));
  return rounded::mul(s, rounded::polynomial(rounded::mul(s, s), c));
}
// sin(w pi / 2) / w and cos(w pi / 2), of z = w^2, for w in (-1, 1).
EMBER_HD float sine(float z) {
  constexpr float c[] = {0x1.921fb6p+0F, -0x1.4abbc4p-1F, 0x1.4668f0p-4F, -0x1.32531ep-8F,
                         0x1.3e1420p-13F};
  return rounded::polynomial(z, c);
}
EMBER_HD float cosine(float z) {
  constexpr float c[] = {0x1.fffffep-1F, -0x1.3bd3a6p+0F, 0x1.03bd00p-2F, -0x1.54f5a0p-6F,
                         0x1.c1e8dcp-11F};
  return rounded::polynomial(z, c);
}
EMBER_HD double sine(double z) {
  constexpr double c[] = {0x1.921fb54442d18p+0,  -0x1.4abbce625be53p-1,  0x1.466bc6775aae2p-4,
                          -0x1.32d2cce62bd57p-8, 0x1.50783487ec19ap-13,  -0x1.e3074fdc520eap-19,
                          0x1.e8f4338e03a66p-25, -0x1.6fad488852625p-31, 0x1.aabbe3815eb60p-38,
                          -0x1.7ed4cd7222586p-45};
  return rounded::polynomial(z, c);
}
EMBER_HD double cosine(double z) {
  constexpr double c[] = {0x1.0000000000000p+0,   -0x1.3bd3cc9be45dep+0,  0x1.03c1f081b5ac4p-2,
                          -0x1.55d3c7e3cbffap-6,  0x1.e1f506891ba5cp-11,  -0x1.a6d1f2a2012f9p-16,
                          0x1.f9d38a34dcbd7p-22,  -0x1.b6e24e163c2aap-28, 0x1.20c5d15363bcdp-34,
                          -0x1.29ea6be37bb71p-41, 0x1.e114484d3752ep-49};
  return rounded::polynomial(z, c);
}

/// -2 log(u) for a normal number u in (0, 1], to a few units of the last place; what is less than
/// 2^-60 may be that. u is written as m * 2^e with m from sqrt(1/2) to sqrt(2).
template <class F>
EMBER_HD F minus_two_log(F u) {
  using Bits = decltype(encoded(u));
  constexpr bool kWide = sizeof(F) == 8;
  constexpr auto kRootOfHalf = static_cast<Bits>(kWide ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
  constexpr auto kExponent = static_cast<Bits>(kWide ? 0xfff0000000000000 : 0xff800000);
  const Bits bits = encoded(u);
  // e stays where a number has it: this is e * 2^23, or in the upper word e * 2^20.
  const Bits placed = (bits - kRootOfHalf) & kExponent;
  const auto e = static_cast<F>(static_cast<std::int32_t>(placed >> (8 * sizeof(F) - 32)));
  constexpr auto kLogOfTwo =
      static_cast<F>(kWide ? -0x1.62e42fefa39efp+0 * 0x1p-20 : -0x1.62e430p+0 * 0x1p-23);
  return rounded::fma(e, kLogOfTwo, minus_two_log1p(rounded::add(decoded(bits - placed), F(-1))));
}

/// Two independent normal numbers, by Box and Muller: a radius, from a uniform number, and a
/// direction. Of the bits for the direction, the top one is the half plane (the sign of the radius)
/// and the rest an angle w * pi / 2 with w in (-1, 1).
template <class F, class Bits>
EMBER_HD void normal_pair(F unit, Bits direction, F mean, F deviation, F (&out)[2]) {
  static_assert(sizeof(F) == sizeof(Bits));
  constexpr Bits kTop = Bits{1} << (8 * sizeof(Bits) - 1);
  const F size = rounded::sqrt(minus_two_log(unit));
  const F r = rounded::mul(decoded(encoded(size) ^ (direction & kTop)), deviation);
  const auto turned = static_cast<std::make_signed_t<Bits>>(2 * direction + 1);
  const F w = rounded::mul(static_cast<F>(turned), F(1) / static_cast<F>(kTop));
  const F z = rounded::mul(w, w);
  out[0] = rounded::fma(rounded::mul(r, w), sine(z), mean);
  out[1] = rounded::fma(r, cosine(z), mean);
}

/// The upper 64 bits of a product.
EMBER_HD std::uint64_t mul_high(std::uint64_t x, std::uint64_t y) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(x, y);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(x) * y) >> 64);
#endif
}

}  // namespace draw

/// The parameters of any of the distributions below.
struct DrawParams {
  double a = 0;          ///< uniform: from; normal: mean; exponential: 1 / lambda
  double b = 0;          ///< uniform: to; normal: standard deviation
  std::uint64_t u = 0;   ///< bernoulli: 2^32 p; integers: the number of values, 0 for 2^64
  std::int64_t low = 0;  ///< integers: the smallest
};

/// The distributions as functors (without loops in those of floating types): how many numbers
/// one Philox call gives, of which type, and the numbers. T is the element type.
namespace draw {

/// Lets `draw` place the numbers of a call, kAtOnce each time. By recursion, see
/// rounded::polynomial.
template <int kAtOnce, int i = 0, class Draw, class T, int n>
EMBER_HD void place_all(const Draw& draw, const PhiloxWords& words, T (&out)[n]) {
  draw.place(words, i, out);
  if constexpr (i + kAtOnce < n) place_all<kAtOnce, i + kAtOnce>(draw, words, out);
}

/// How many numbers of type T a call gives where each takes as many bits as T is computed in.
template <class T>
inline constexpr int kNumbersPerCall = sizeof(Compute<T>) == 8 ? 2 : 4;

/// From `a` to below `b`.
template <class T>
struct Uniform {
  using Element = T;
  static constexpr int kNumbers = kNumbersPerCall<T>;
  Compute<T> from, to, range;

  EMBER_HD explicit Uniform(const DrawParams& params)
      : from(T(static_cast<Compute<T>>(params.a))),
        to(T(static_cast<Compute<T>>(params.b))),
        range(to - from) {}
  EMBER_HD void place(const PhiloxWords& words, int i, T (&out)[kNumbers]) const {
    // What is rounded up to the end begins again at the start.
    const T value = T(rounded::fma(unit_of<Compute<T>>(words, i), range, from));
    out[i] = static_cast<Compute<T>>(value) == to ? T(from) : value;
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    place_all<1>(*this, words, out);
  }
};

/// With mean `a` and standard deviation `b`.
template <class T>
struct Normal {
  using Element = T;
  static constexpr int kNumbers = kNumbersPerCall<T>;
  Compute<T> mean, deviation;

  EMBER_HD explicit Normal(const DrawParams& params)
      : mean(static_cast<Compute<T>>(params.a)), deviation(static_cast<Compute<T>>(params.b)) {}
  EMBER_HD void place(const PhiloxWords& words, int i, T (&out)[kNumbers]) const {
    Compute<T> pair[2];
    normal_pair(unit_of<Compute<T>>(words, i), bits_of<Compute<T>>(words, i + 1), mean, deviation,
                pair);
    out[i] = T(pair[0]);
    out[i + 1] = T(pair[1]);
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    place_all<2>(*this, words, out);
  }
};

/// With mean `a`; never zero.
template <class T>
struct Exponential {
  using Element = T;
  static constexpr int kNumbers = kNumbersPerCall<T>;
  Compute<T> half_mean;

  EMBER_HD explicit Exponential(const DrawParams& params)
      : half_mean(static_cast<Compute<T>>(0.5 * params.a)) {}
  EMBER_HD void place(const PhiloxWords& words, int i, T (&out)[kNumbers]) const {
    // The largest uniform number is one, whose logarithm is zero: half a step below it instead.
    constexpr auto tiny = static_cast<Compute<T>>(sizeof(Compute<T>) == 8 ? 0x1p-52 : 0x1p-23);
    const Compute<T> log = minus_two_log(unit_of<Compute<T>>(words, i));
    out[i] = T(rounded::mul(log < tiny ? tiny : log, half_mean));
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    place_all<1>(*this, words, out);
  }
};

/// One with probability u / 2^32, else zero.
template <class T>
struct Bernoulli {
  using Element = T;
  static constexpr int kNumbers = 4;
  std::uint32_t last;  ///< of the words that give one
  T one;

  EMBER_HD explicit Bernoulli(const DrawParams& params)
      : last(static_cast<std::uint32_t>(params.u - 1)), one(convert<T>(params.u != 0)) {}
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    for (int i = 0; i < 4; ++i) out[i] = words.w[i] <= last ? one : convert<T>(0);
  }
};

/// The same with a probability for each element.
template <class T>
struct BernoulliEach {
  using Element = T;
  static constexpr int kNumbers = 4;

  EMBER_HD explicit BernoulliEach(const DrawParams&) {}
  EMBER_HD void operator()(const PhiloxWords& words, const float (&p)[kNumbers],
                           T (&out)[kNumbers]) const {
    for (int i = 0; i < 4; ++i) {
      // A probability of one has a share that does not fit into a word.
      const bool certain = p[i] >= 1;
      const float share = certain ? 0.0F : rounded::mul(p[i], 0x1p32F);
      out[i] = convert<T>(certain | (words.w[i] < static_cast<std::uint32_t>(share)));
    }
  }
};

/// Whole numbers from `low`, `u` of them. A number of `bits` random bits is scaled to the range,
/// so the probabilities of two values differ by a factor of at most 1 + u / 2^bits: 32 bits serve
/// up to 2^16 values and all powers of two, 64 bits up to 2^48 values and 2^64, 128 bits the rest.
template <class T, int bits>
struct Integers {
  using Element = T;
  static constexpr int kNumbers = 128 / bits;
  std::uint64_t range;
  std::int64_t low;

  EMBER_HD explicit Integers(const DrawParams& params) : range(params.u), low(params.low) {}
  EMBER_HD T place(std::uint64_t value) const {
    return convert<T>(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + value));
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    if constexpr (bits == 32) {
      for (int i = 0; i < 4; ++i) out[i] = place((words.w[i] * range) >> 32);
    } else if constexpr (bits == 64) {
      for (int i = 0; i < 2; ++i)
        out[i] = place(range == 0 ? words.pair(i) : mul_high(words.pair(i), range));
    } else {
      const std::uint64_t low_part = mul_high(words.pair(0), range);
      const std::uint64_t product = words.pair(1) * range;
      out[0] = place(mul_high(words.pair(1), range) + (product + low_part < product ? 1U : 0U));
    }
  }
};

template <class T>
using Integers32 = Integers<T, 32>;
template <class T>
using Integers64 = Integers<T, 64>;
template <class T>
using Integers128 = Integers<T, 128>;

/// Whether a distribution has a probability for each element.
template <class Draw>
inline constexpr bool for_each = false;
template <class T>
inline constexpr bool for_each<BernoulliEach<T>> = true;

}  // namespace draw
}  // namespace ember::inline v0
