#include "ember/ops/host/vector.h"

namespace ember::inline v0::ops::host {

#if EMBER_HOST_AVX2 && defined(__clang__)
// clang has no name for f16c; whatever has AVX2 has it.
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#elif EMBER_HOST_AVX2
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("f16c");
#endif
#if EMBER_HOST_AVX2
const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw");
#endif

}  // namespace ember::inline v0::ops::host
