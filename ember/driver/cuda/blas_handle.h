// Handles of cuBLAS for users' own calls. The library's products do not use them: blas.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/base/status.h"
#include "ember/driver/cuda/device.h"

namespace ember::inline v0::driver::cuda {

/// Driver::blas_handle on a device that was entered. Opens the library at the first call, and makes
/// a handle at a thread's first call for the device in its epoch, unless one is left of a thread
/// that has ended; both may block for a second.
Status blas_handle(Device& device, CUstream stream, std::uint8_t math, void* workspace,
                   std::size_t bytes, void*& out) noexcept;

/// Forgets the handles of a device's context, which is gone.
void forget_blas_handles(int device) noexcept;

}  // namespace ember::inline v0::driver::cuda
