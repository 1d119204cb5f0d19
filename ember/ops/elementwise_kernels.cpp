#include "ember/ops/elementwise_kernels.h"

namespace ember::inline v0::ops {

const driver::Kernel& elementwise_kernel(OpId op, Dtype dtype) noexcept {
  switch (dtype) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return elementwise_kernels<type>()[static_cast<int>(op)];
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

const driver::Kernel& cast_kernel(Dtype from, Dtype to) noexcept {
  switch (from) {
#define EMBER_DTYPE(enumerator, type, name, legacy) \
  case Dtype::enumerator: return cast_kernels<type>()[static_cast<int>(to)];
    EMBER_FOR_EACH_DTYPE(EMBER_DTYPE)
#undef EMBER_DTYPE
  }
  __builtin_unreachable();
}

}  // namespace ember::inline v0::ops
