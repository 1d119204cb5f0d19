// What the kernels of permutations get.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/random/philox_args.h"
#include "ember/scalar/permutation.h"

namespace ember::inline v0::random {

struct PermutationArgs {
  void* out;  ///< contiguous
  std::int64_t count;
  PhiloxSource source;
};
EMBER_ARGUMENTS(PermutationArgs, EMBER_FIELD(out), EMBER_FIELD(count), EMBER_FIELD(source))

// Every element type of permutations: EMBER_KERNEL(dtype, C++ type).
#define EMBER_FOR_EACH_PERMUTED(EMBER_KERNEL) \
  EMBER_KERNEL(uint8, std::uint8_t)           \
  EMBER_KERNEL(int8, std::int8_t)             \
  EMBER_KERNEL(int16, std::int16_t)           \
  EMBER_KERNEL(int32, std::int32_t)           \
  EMBER_KERNEL(int64, std::int64_t)           \
  EMBER_KERNEL(float16, ::ember::Half)        \
  EMBER_KERNEL(bfloat16, ::ember::BFloat16)   \
  EMBER_KERNEL(float32, float)                \
  EMBER_KERNEL(float64, double)

}  // namespace ember::inline v0::random
