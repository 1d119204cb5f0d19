// Words through which blocks that run at the same time tell each other how far they are.
#pragma once

#include <cstdint>

namespace ember::inline v0::ops::cuda {

/// What a word says, in its two lowest bits. A word of zeros says nothing yet.
constexpr std::uint64_t kOwn = 1;  ///< of this tile alone
constexpr std::uint64_t kAll = 2;  ///< of this tile and all before it
constexpr std::uint64_t kSays = 3;

/// Neither is kept in registers or in a cache of the SM; neither orders anything else.
__device__ __forceinline__ std::uint64_t load_word(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ __forceinline__ void store_word(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

}  // namespace ember::inline v0::ops::cuda
