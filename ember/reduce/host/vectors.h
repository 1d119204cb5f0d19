// What the loops of reductions have in common: vectors of lanes, and the size of a block.
#pragma once

#include <algorithm>
#include <cstring>

#include "ember/ops/host/vector.h"
#include "ember/reduce/functors.h"

namespace ember::inline v0::reduce::host {

using ops::host::has_avx2;
using ops::host::plain;

inline constexpr int kBlock = 512;

// Blocks and columns are inlined into a function with AVX2 and one without: Note [Vector
// instructions]. The order of additions does not depend on the width, so neither do the bits.
#define EMBER_REDUCE_BODY [[gnu::always_inline]] inline

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

/// A truth value as wide as T, so that vectors of both go together.
template <class T>
using Mask = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

}  // namespace ember::inline v0::reduce::host
