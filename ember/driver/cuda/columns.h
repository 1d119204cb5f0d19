// The CUDA columns of the kernels that the core knows by name (driver/kernels.h).
#pragma once

#include "ember/driver/kernel.h"

namespace ember::driver::cuda {

/// Null when there is no kernel of this name.
CudaColumn column(const char* kernel) noexcept;

}  // namespace ember::driver::cuda
