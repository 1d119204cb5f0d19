// Rows of half-precision numbers made from floats, by the instructions for it.
#pragma once

#include "ember/ops/host/vector.h"
#include "ember/scalar/half.h"

#if EMBER_HOST_AVX2
#include <immintrin.h>
#endif

namespace ember::inline v0::ops::host {

/// The same bits as Half(x) gives, of which the instruction gives other ones for NaN.
EMBER_VECTOR_CODE inline void halves_of(Half* out, const float* in, std::int64_t count) {
  std::int64_t i = 0;
#if EMBER_HOST_AVX2
  const __m128i nan = _mm_set1_epi16(0x7fff);
  for (; i + 8 <= count; i += 8) {
    const __m256 x = _mm256_loadu_ps(in + i);
    const __m256i unordered = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m128i where =
        _mm_packs_epi32(_mm256_castsi256_si128(unordered), _mm256_extracti128_si256(unordered, 1));
    const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_blendv_epi8(halves, nan, where));
  }
#endif
  for (; i < count; ++i) out[i] = Half(in[i]);
}

}  // namespace ember::inline v0::ops::host
