// Philox4x32-10, the counter-based random number generator of Salmon et al. ("Parallel random
// numbers: as easy as 1, 2, 3"): a mixing of 128 bits of counter by 64 bits of key. There is no
// state to carry from number to number, so any element of a tensor can be drawn on its own, on any
// machine, with the same result.
#pragma once

#include "ember/scalar/config.h"

namespace ember::inline v0 {

/// A seed, and an offset in its numbers.
struct PhiloxState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  ///< a multiple of four

  /// The first step of a draw.
  EMBER_HD std::uint64_t step() const { return offset / 4; }
  friend bool operator==(const PhiloxState&, const PhiloxState&) = default;
};

/// Where an operation's kernel has seed and offset from: by value, or, in a graph, from device
/// memory that every replay writes before the kernel reads it, with `own.offset` counted from
/// there.
struct PhiloxSource {
  PhiloxState own;
  const PhiloxState* replayed = nullptr;

  /// For a kernel that may read the memory.
  EMBER_HD PhiloxState state() const {
    if (replayed == nullptr) return own;
    return {replayed->seed, replayed->offset + own.offset};
  }
};

/// What one call gives: 128 bits.
struct PhiloxWords {
  std::uint32_t w[4];

  /// Two words as one, the first one low.
  EMBER_HD std::uint64_t pair(int i) const {
    const int at = i == 0 ? 0 : 2;
    return w[at] | std::uint64_t{w[at + 1]} << 32;
  }
  friend EMBER_HD bool operator==(const PhiloxWords& a, const PhiloxWords& b) {
    return a.w[0] == b.w[0] && a.w[1] == b.w[1] && a.w[2] == b.w[2] && a.w[3] == b.w[3];
  }
};

namespace detail {
/// Both halves of a product.
EMBER_HD void wide_product(std::uint32_t x, std::uint32_t y, std::uint32_t& low,
                           std::uint32_t& high) {
#if defined(__CUDA_ARCH__)
  // One instruction; from 64-bit arithmetic the compiler makes several.
  asm("{ .reg .u64 product; mul.wide.u32 product, %2, %3; mov.b64 {%0, %1}, product; }"
      : "=r"(low), "=r"(high)
      : "r"(x), "r"(y));
#else
  const std::uint64_t product = std::uint64_t{x} * y;
  low = static_cast<std::uint32_t>(product);
  high = static_cast<std::uint32_t>(product >> 32);
#endif
}
}  // namespace detail

/// The ten rounds.
EMBER_HD PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t c0 = counter.w[0], c1 = counter.w[1], c2 = counter.w[2], c3 = counter.w[3];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    std::uint32_t low0 = 0, high0 = 0, low2 = 0, high2 = 0;
    detail::wide_product(c0, 0xD2511F53U, low0, high0);
    detail::wide_product(c2, 0xCD9E8D57U, low2, high2);
    c0 = high2 ^ c1 ^ key0;
    c1 = low2;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

/// The words at a place of a subsequence: `step` counts calls, four words each.
EMBER_HD PhiloxWords philox_at(std::uint64_t seed, std::uint64_t subsequence, std::uint64_t step) {
  return philox(
      {{static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
        static_cast<std::uint32_t>(subsequence), static_cast<std::uint32_t>(subsequence >> 32)}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// The same as a stream of 32-bit numbers, one after the other.
class PhiloxEngine {
 public:
  /// `offset` counts steps of four numbers.
  EMBER_HD explicit PhiloxEngine(std::uint64_t seed = 67280421310721ULL,
                                 std::uint64_t subsequence = 0, std::uint64_t offset = 0)
      : seed_(seed), subsequence_(subsequence), step_(offset) {}

  /// The next number.
  EMBER_HD std::uint32_t operator()() {
    if (used_ == 4) {
      words_ = philox_at(seed_, subsequence_, step_);
      skip(1);
      used_ = 0;
    }
    return words_.w[used_++ & 3];
  }
  /// Goes on by steps of four numbers; what is left of the current four stays to be drawn. Behind
  /// the last step of a subsequence comes the first one of the next.
  EMBER_HD void skip(std::uint64_t steps) {
    step_ += steps;
    if (step_ < steps) ++subsequence_;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t subsequence_;
  std::uint64_t step_;
  PhiloxWords words_{};
  int used_ = 4;
};

}  // namespace ember::inline v0
