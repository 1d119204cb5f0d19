// The two 16-bit floating-point types. They only store: arithmetic is done in float (see
// Compute<T> in types.h), with one rounding at the end, to nearest, ties to even.
#pragma once

#include "ember/scalar/config.h"

namespace ember::inline v0 {

namespace detail {

EMBER_HD std::uint32_t float_bits(float value) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
EMBER_HD float float_from_bits(std::uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#if defined(__CUDA_ARCH__)
template <bool half>
EMBER_HD std::uint16_t rounded(float value) {
#if defined(EMBER_ROUNDS_BETWEEN_STEPS)
  // The instruction that rounds two numbers has four times the rate of the one for a single number.
  std::uint32_t pair;
  if constexpr (half)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0F), "f"(value));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0F), "f"(value));
  return static_cast<std::uint16_t>(pair);
#else
  // Of two that are stored side by side the compiler makes one instruction.
  std::uint16_t bits;
  if constexpr (half)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
#endif

EMBER_HD float half_to_float(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  // Moved into place, a half's exponent is 112 too small; the multiplication repairs that, and
  // makes subnormal halves normal on the way. What was infinite or NaN gets the largest exponent
  // back.
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t rest = (bits & 0x7fffU) << 13;
  const float scaled = float_from_bits(rest) * 0x1p112F;
  const std::uint32_t out = (bits & 0x7c00U) == 0x7c00U ? 0x7f800000U | rest : float_bits(scaled);
  return float_from_bits(out | sign);
#endif
}

EMBER_HD std::uint16_t float_to_half(float value) {
#if defined(__CUDA_ARCH__)
  return rounded<true>(value);
#else
  const std::uint32_t all = float_bits(value);
  const std::uint32_t sign = (all >> 16) & 0x8000U;
  const std::uint32_t magnitude = all & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7fff;  // NaN, as hardware makes it: without a sign
  std::uint32_t out = 0;
  if (magnitude >= 0x47800000U) {  // 65536 and more
    out = 0x7c00U;
  } else if (magnitude < 0x38800000U) {
    // Subnormal as a half: adding 0.5 aligns the bits and rounds them as the hardware does.
    out = float_bits(float_from_bits(magnitude) + 0.5F) - 0x3f000000U;
  } else {
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    out = (magnitude + 0xc8000fffU + odd) >> 13;  // the exponent's bias, and half of the last place
  }
  return static_cast<std::uint16_t>(out | sign);
#endif
}

EMBER_HD float bfloat16_to_float(std::uint16_t bits) {
  return float_from_bits(static_cast<std::uint32_t>(bits) << 16);
}

EMBER_HD std::uint16_t float_to_bfloat16(float value) {
#if defined(__CUDA_ARCH__)
  return rounded<false>(value);
#else
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fffU : rounded);
#endif
}

}  // namespace detail

/// IEEE binary16.
struct Half {
  std::uint16_t bits;

  Half() = default;
  EMBER_HD explicit Half(float value) : bits(detail::float_to_half(value)) {}
  EMBER_HD operator float() const { return detail::half_to_float(bits); }
};

/// The upper half of a float.
struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  EMBER_HD explicit BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  EMBER_HD operator float() const { return detail::bfloat16_to_float(bits); }
};

}  // namespace ember::inline v0
