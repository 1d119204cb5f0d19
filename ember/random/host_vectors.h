// Host implementations come twice, for any x86-64 and for one with wide vectors and fused
// multiply-add: the same operations in two encodings, so the results are equal by definition.
#pragma once

/// On a function whose callees are all EMBER_HD.
#define EMBER_WIDE_VECTORS __attribute__((target("avx2,fma")))

namespace ember::inline v0::random {

inline bool has_wide_vectors() noexcept {
  static const bool wide =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return wide;
}

}  // namespace ember::inline v0::random
