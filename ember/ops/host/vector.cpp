#include "ember/ops/host/elementwise_loop.h"

namespace ember::ops::host {

#if EMBER_HOST_AVX2
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
#if !defined(__clang__)  // which has no name for it; whatever has AVX2 has it
                      __builtin_cpu_supports("f16c") &&
#endif
                      true;
#endif

}  // namespace ember::ops::host
