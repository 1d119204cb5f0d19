// From the words of one Philox call to numbers of a distribution, the same bits on every machine:
// every operation below is one that IEEE 754 rounds correctly (+, *, /, fused multiply-add, square
// root, conversions), each is rounded exactly where it is written, and no function of a library is
// called whose last bit differs from machine to machine.
#pragma once

#include "ember/scalar/philox.h"
#include "ember/scalar/types.h"

namespace ember {

/// Arithmetic that no compiler may contract or reassociate.
namespace rounded {
#if defined(__CUDA_ARCH__)
EMBER_HD float mul(float x, float y) { return __fmul_rn(x, y); }
EMBER_HD double mul(double x, double y) { return __dmul_rn(x, y); }
EMBER_HD float add(float x, float y) { return __fadd_rn(x, y); }
EMBER_HD double add(double x, double y) { return __dadd_rn(x, y); }
EMBER_HD float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }
EMBER_HD double fma(double x, double y, double z) { return __fma_rn(x, y, z); }
EMBER_HD double div(double x, double y) { return __ddiv_rn(x, y); }
EMBER_HD float sqrt(float x) { return __fsqrt_rn(x); }
EMBER_HD double sqrt(double x) { return __dsqrt_rn(x); }
#else
// Whoever includes this is compiled with -ffp-contract=off.
EMBER_HD float mul(float x, float y) { return x * y; }
EMBER_HD double mul(double x, double y) { return x * y; }
EMBER_HD float add(float x, float y) { return x + y; }
EMBER_HD double add(double x, double y) { return x + y; }
EMBER_HD float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
EMBER_HD double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
EMBER_HD double div(double x, double y) { return x / y; }
EMBER_HD float sqrt(float x) { return __builtin_sqrtf(x); }
EMBER_HD double sqrt(double x) { return __builtin_sqrt(x); }
#endif

/// c[0] + x * (c[1] + x * (...)). By recursion: a loop in it would keep callers from becoming
/// vectors.
template <int i = 0, class T, int n>
EMBER_HD T polynomial(T x, const T (&c)[n]) {
  if constexpr (i == n - 1)
    return c[i];
  else
    return fma(polynomial<i + 1>(x, c), x, c[i]);
}
}  // namespace rounded

namespace draw {

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

/// -2 log(u) for a normal number u in (0, 1], to a few units of the last place. u is written as
/// m * 2^e with m from sqrt(1/2) to sqrt(2), and log(m) is a polynomial of m - 1 (minimax).
EMBER_HD float minus_two_log(float u) {
  constexpr float c[] = {-0x1.000000p+1F, 0x1.fffffep-1F,  -0x1.555796p-1F,
                         0x1.00038cp-1F,  -0x1.98b290p-2F, 0x1.53846ep-2F,
                         -0x1.32bcb8p-2F, 0x1.243c02p-2F,  -0x1.5d8646p-3F};
  const auto bits = static_cast<std::int32_t>(detail::float_bits(u));
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;
  // The exponent is at most zero; shifting it as an unsigned number is defined.
  const std::uint32_t placed = static_cast<std::uint32_t>(exponent) << 23;
  const float m = detail::float_from_bits(static_cast<std::uint32_t>(bits) - placed);
  const float f = rounded::add(m, -1.0F);
  return rounded::fma(static_cast<float>(exponent), -0x1.62e430p+0F,
                      rounded::mul(f, rounded::polynomial(f, c)));
}
/// The same through log(m) = 2 artanh(s), s = (m - 1) / (m + 1).
EMBER_HD double minus_two_log(double u) {
  constexpr double c[] = {-0x1.0000000000000p+2, -0x1.55555555555aep+0, -0x1.999999997aeaap-1,
                          -0x1.2492494513f76p-1, -0x1.c71c50004ffddp-2, -0x1.7466994f20a7cp-2,
                          -0x1.3999bf614de60p-2, -0x1.2f4d88c4fad06p-2};
  std::int64_t bits = 0;
  memcpy(&bits, &u, sizeof bits);
  const std::int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;
  bits -= static_cast<std::int64_t>(static_cast<std::uint64_t>(exponent) << 52);
  double m = 0;
  memcpy(&m, &bits, sizeof m);
  const double s = rounded::div(rounded::add(m, -1.0), rounded::add(m, 1.0));
  return rounded::fma(static_cast<double>(static_cast<std::int32_t>(exponent)),
                      -0x1.62e42fefa39efp+0,
                      rounded::mul(s, rounded::polynomial(rounded::mul(s, s), c)));
}

/// Two independent standard normal numbers, by Box and Muller: a radius and a direction. Of the
/// word for the direction, the top bit is the half plane (the sign of the radius) and the rest an
/// angle w * pi / 2 with w in (-1, 1).
EMBER_HD void normal_pair(std::uint32_t radius, std::uint32_t direction, float (&out)[2]) {
  constexpr float sine[] = {0x1.921fb6p+0F, -0x1.4abbc4p-1F, 0x1.4668f0p-4F, -0x1.32531ep-8F,
                            0x1.3e1420p-13F};
  constexpr float cosine[] = {0x1.fffffep-1F, -0x1.3bd3a6p+0F, 0x1.03bd00p-2F, -0x1.54f5a0p-6F,
                              0x1.c1e8dcp-11F};
  const float size = rounded::sqrt(minus_two_log(unit(radius)));
  const float r = detail::float_from_bits(detail::float_bits(size) ^ (direction & 0x80000000U));
  const auto turned = static_cast<std::int32_t>(2 * direction + 1);
  const float w = rounded::mul(static_cast<float>(turned), 0x1p-31F);
  const float z = rounded::mul(w, w);
  out[0] = rounded::mul(r, rounded::mul(w, rounded::polynomial(z, sine)));
  out[1] = rounded::mul(r, rounded::polynomial(z, cosine));
}
EMBER_HD void normal_pair(const PhiloxWords& words, double (&out)[2]) {
  constexpr double sine[] = {0x1.921fb54442d18p+0,  -0x1.4abbce625be53p-1,  0x1.466bc6775aae2p-4,
                             -0x1.32d2cce62bd57p-8, 0x1.50783487ec19ap-13,  -0x1.e3074fdc520eap-19,
                             0x1.e8f4338e03a66p-25, -0x1.6fad488852625p-31, 0x1.aabbe3815eb60p-38,
                             -0x1.7ed4cd7222586p-45};
  constexpr double cosine[] = {
      0x1.0000000000000p+0,  -0x1.3bd3cc9be45dep+0,  0x1.03c1f081b5ac4p-2,  -0x1.55d3c7e3cbffap-6,
      0x1.e1f506891ba5cp-11, -0x1.a6d1f2a2012f9p-16, 0x1.f9d38a34dcbd7p-22, -0x1.b6e24e163c2aap-28,
      0x1.20c5d15363bcdp-34, -0x1.29ea6be37bb71p-41, 0x1.e114484d3752ep-49};
  const double size = rounded::sqrt(minus_two_log(unit(words.w[0], words.w[1])));
  const std::uint64_t direction = words.pair(1);
  const double r = (direction >> 63) != 0 ? -size : size;
  const auto turned = static_cast<std::int64_t>(2 * direction + 1);
  const double w = rounded::mul(static_cast<double>(turned), 0x1p-63);
  const double z = rounded::mul(w, w);
  out[0] = rounded::mul(r, rounded::mul(w, rounded::polynomial(z, sine)));
  out[1] = rounded::mul(r, rounded::polynomial(z, cosine));
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

/// The distributions as functors (without loops in them, see rounded::polynomial): how many numbers
/// one Philox call gives, of which type, and the numbers. T is the element type.
namespace draw {

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
  EMBER_HD T place(Compute<T> unit) const {
    // What is rounded up to the end begins again at the start.
    const T value = T(rounded::fma(unit, range, from));
    return static_cast<Compute<T>>(value) == to ? T(from) : value;
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    if constexpr (kNumbers == 2) {
      out[0] = place(unit(words.w[0], words.w[1]));
      out[1] = place(unit(words.w[2], words.w[3]));
    } else {
      out[0] = place(unit(words.w[0]));
      out[1] = place(unit(words.w[1]));
      out[2] = place(unit(words.w[2]));
      out[3] = place(unit(words.w[3]));
    }
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
  EMBER_HD T place(Compute<T> normal) const { return T(rounded::fma(normal, deviation, mean)); }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    Compute<T> pair[2];
    if constexpr (kNumbers == 2) {
      normal_pair(words, pair);
      out[0] = place(pair[0]);
      out[1] = place(pair[1]);
    } else {
      normal_pair(words.w[0], words.w[1], pair);
      out[0] = place(pair[0]);
      out[1] = place(pair[1]);
      normal_pair(words.w[2], words.w[3], pair);
      out[2] = place(pair[0]);
      out[3] = place(pair[1]);
    }
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
  EMBER_HD T place(Compute<T> unit) const {
    // The largest uniform number is one, whose logarithm is zero: half a step below it instead.
    constexpr auto tiny = static_cast<Compute<T>>(sizeof(Compute<T>) == 8 ? 0x1p-52 : 0x1p-23);
    const Compute<T> log = minus_two_log(unit);
    return T(rounded::mul(log < tiny ? tiny : log, half_mean));
  }
  EMBER_HD void operator()(const PhiloxWords& words, T (&out)[kNumbers]) const {
    if constexpr (kNumbers == 2) {
      out[0] = place(unit(words.w[0], words.w[1]));
      out[1] = place(unit(words.w[2], words.w[3]));
    } else {
      out[0] = place(unit(words.w[0]));
      out[1] = place(unit(words.w[1]));
      out[2] = place(unit(words.w[2]));
      out[3] = place(unit(words.w[3]));
    }
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
}  // namespace ember
