// NVRTC, which compiles kernels while the program runs. It needs no device.
#pragma once

#include <string>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda {

/// driver::cuda_compiler and driver::cuda_compile (driver/compiled.h).
Status nvrtc_identity(std::string& identity) noexcept;
Status nvrtc_compile(const std::string& source, int capability, std::string& image,
                     std::string& log, bool contract) noexcept;

}  // namespace ember::inline v0::driver::cuda
