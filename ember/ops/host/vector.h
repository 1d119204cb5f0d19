// Loops as vectors, and what they have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define EMBER_HOST_AVX2 1
#endif

namespace ember::inline v0::ops::host {

// Note [Vector instructions]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// The innermost loops exist twice: with AVX2, as vectors, and for any x86-64 as plain loops, which
// are small. Which of them runs is decided once, by what the processor has. Both give the same
// bits: nothing is contracted or reordered (-ffp-contract=off, no -ffast-math). The attribute
// names instructions rather than an architecture, so that the always-inline functions of scalar/
// can become part of either. What does much with each float exists a third time, with AVX-512,
// whose vectors are twice as wide; what only waits for memory would gain nothing.
#if EMBER_HOST_AVX2
#define EMBER_VECTOR_CODE __attribute__((target("avx,avx2,bmi,bmi2,f16c,lzcnt,popcnt")))
/// Whether this processor runs the loops with AVX2.
extern const bool has_avx2;
/// The same for those with AVX-512.
extern const bool has_avx512;
#if defined(__clang__)
#define EMBER_WIDE_VECTOR_CODE                                                  \
  __attribute__((                                                               \
      target("avx512f,avx512dq,avx512vl,avx512bw,avx,avx2,bmi,bmi2,f16c,lzcnt," \
             "popcnt")))
#else  // which would otherwise keep to half the width
#define EMBER_WIDE_VECTOR_CODE                                                         \
  __attribute__((                                                                      \
      target("avx512f,avx512dq,avx512vl,avx512bw,avx,avx2,bmi,bmi2,f16c,lzcnt,popcnt," \
             "prefer-vector-width=512")))
#endif
#else
#define EMBER_VECTOR_CODE
#define EMBER_WIDE_VECTOR_CODE
inline constexpr bool has_avx512 = false;
inline constexpr bool has_avx2 = true;
#endif

// Before a loop whose output may lie exactly on an input, but never beside it.
#if defined(__clang__)
#define EMBER_NO_ALIAS _Pragma("clang loop vectorize(assume_safety)")
#else
#define EMBER_NO_ALIAS _Pragma("GCC ivdep")
#endif

/// Keeps the compiler from making vectors of a loop that is rarely used.
inline __attribute__((always_inline)) void plain() {
#if EMBER_HOST_AVX2
  asm volatile("");
#endif
}

template <class T>
EMBER_VECTOR_CODE void every_second(T* out, const T* in, std::int64_t count) {
  EMBER_NO_ALIAS
  for (std::int64_t i = 0; i < count - 1; ++i) out[i] = in[2 * i];
  if (count > 0) out[count - 1] = in[2 * (count - 1)];  // there may be nothing beside the last
}

/// Brings elements at a stride together.
template <class T>
void gather(T* out, const T* in, std::ptrdiff_t stride, std::int64_t count) {
  if (stride == 2 && has_avx2) return every_second(out, in, count);
  for (std::int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
}

}  // namespace ember::inline v0::ops::host
