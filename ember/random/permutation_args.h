// What the kernels of permutations get.
#pragma once

#include <cstdint>

#include "ember/scalar/permutation.h"

namespace ember::random {

struct PermutationArgs {
  void* out;  ///< contiguous
  std::int64_t count;
  std::uint64_t seed;
  std::uint64_t offset;  ///< a multiple of four
};

// Every element type of permutations: EMBER_ROW(dtype, C++ type).
#define EMBER_FOR_EACH_PERMUTED(EMBER_ROW) \
  EMBER_ROW(uint8, std::uint8_t)           \
  EMBER_ROW(int8, std::int8_t)             \
  EMBER_ROW(int16, std::int16_t)           \
  EMBER_ROW(int32, std::int32_t)           \
  EMBER_ROW(int64, std::int64_t)           \
  EMBER_ROW(float16, ::ember::Half)        \
  EMBER_ROW(bfloat16, ::ember::BFloat16)   \
  EMBER_ROW(float32, float)                \
  EMBER_ROW(float64, double)

}  // namespace ember::random
