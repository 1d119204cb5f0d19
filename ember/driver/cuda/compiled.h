// Kernels that were compiled while the program runs: what other parts of this object ask of them.
#pragma once

#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

/// After a reset, which took the functions of all loaded code on the device away.
void forget_compiled(int device) noexcept;

}  // namespace ember::inline v0::driver::cuda
