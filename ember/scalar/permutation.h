// Random permutations of 0, 1, ... n - 1 without sorting and without memory: every element of one
// is computed on its own, so it is the same on every machine.
#pragma once

#include "ember/scalar/philox.h"
#include "ember/scalar/types.h"

namespace ember::inline v0 {

/// Note [Random permutations]
/// Up to kRankedPermutation numbers: number i has a key of 128 random bits, and the permutation is
/// the order of the keys. All permutations are equally likely, but for ties, which come once in
/// 2^107 permutations and are broken by i.
///
/// Beyond, ordering would mean a sort over device memory. Instead a Feistel network permutes the
/// numbers of as many bits as n - 1 has: the number is cut into two halves, and in every round one
/// half is changed by exclusive or with a random function of the other, which can be undone
/// whatever the function is. A result that is n or more is permuted again until it is not (at most
/// once on average): that leaves a permutation of the numbers below n. It is one of 2^768 keyed
/// ones and not any of n!, which nothing computable could be from a seed of 64 bits, and which
/// tests can't tell. Networks on their own are even permutations; one random bit exchanges two
/// elements, so that odd ones occur as often.
inline constexpr std::int64_t kRankedPermutation = 2048;

/// The key of number i.
struct ShuffleKey {
  std::uint64_t high;
  std::uint64_t low;
};
EMBER_HD ShuffleKey shuffle_key(std::uint64_t seed, std::uint64_t step, std::uint64_t i) {
  const PhiloxWords words = philox_at(seed, i, step);
  return {words.pair(0), words.pair(1)};
}
/// Whether number i comes before number j.
EMBER_HD bool comes_before(const ShuffleKey& a, std::uint64_t i, const ShuffleKey& b,
                           std::uint64_t j) {
  if (a.high != b.high) return a.high < b.high;
  if (a.low != b.low) return a.low < b.low;
  return i < j;
}

/// The random words that a network is made of.
struct FeistelKeys {
  static constexpr int kRounds = 12;
  static constexpr int kCalls = kRounds / 2 + 1;  ///< of Philox, that give them
  std::uint32_t w[4 * kCalls];

  /// Part `call` of them.
  EMBER_HD void draw(std::uint64_t seed, std::uint64_t step, int call) {
    const PhiloxWords words = philox_at(seed, static_cast<std::uint64_t>(call), step);
    for (int i = 0; i < 4; ++i) w[4 * call + i] = words.w[i];
  }
};

/// A permutation of the numbers below n, which must be at least 3.
class Feistel {
 public:
  EMBER_HD explicit Feistel(std::uint64_t n) : right_bits_(1) {
    unsigned bits = 1;
    while (bits < 64 && (n - 1) >> bits != 0) ++bits;
    right_bits_ = (bits + 1) / 2;
    left_mask_ = mask(bits - right_bits_);
    right_mask_ = mask(right_bits_);
  }

  /// The two elements whose places a random bit exchanges.
  EMBER_HD static std::uint64_t exchanged(const FeistelKeys& keys, std::uint64_t i) {
    return i < 2 ? i ^ (keys.w[4 * FeistelKeys::kCalls - 1] & 1U) : i;
  }

  /// One pass through the network. Number is wide enough for all numbers of as many bits as n - 1.
  template <class Number>
  EMBER_HD Number pass(const FeistelKeys& keys, Number i) const {
    auto left = static_cast<std::uint32_t>(i >> right_bits_);
    std::uint32_t right = static_cast<std::uint32_t>(i) & right_mask_;
    rounds<0>(keys, left, right);
    return static_cast<Number>(static_cast<Number>(left) << right_bits_ | right);
  }

 private:
  EMBER_HD static std::uint32_t mask(unsigned bits) {
    return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
  }
  /// A random function of 32 bits: multiplications carry upwards, shifts bring that back down.
  EMBER_HD static std::uint32_t scramble(std::uint32_t x, std::uint32_t a, std::uint32_t b) {
    x = (x ^ a) * 0x9E3779B1U;
    x = ((x ^ x >> 15) + b) * 0x85EBCA77U;
    x = (x ^ x >> 13) * 0xC2B2AE3DU;
    return x ^ x >> 16;
  }
  // By recursion instead of a loop, for the sake of vectors.
  template <int round>
  EMBER_HD void rounds(const FeistelKeys& keys, std::uint32_t& left, std::uint32_t& right) const {
    if constexpr (round < FeistelKeys::kRounds) {
      constexpr int at = 2 * round;
      const std::uint32_t a = keys.w[at];
      const std::uint32_t b = keys.w[at + 1];
      if constexpr (round % 2 == 0)
        left ^= scramble(right, a, b) & left_mask_;
      else
        right ^= scramble(left, a, b) & right_mask_;
      rounds<round + 1>(keys, left, right);
    }
  }

  unsigned right_bits_;
  std::uint32_t left_mask_;
  std::uint32_t right_mask_;
};

}  // namespace ember::inline v0
