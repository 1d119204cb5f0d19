// Matrix products by cuBLASLt.
#pragma once

#include <cstdint>

#include "ember/base/status.h"
#include "ember/driver/gemm.h"

namespace ember::inline v0::driver::cuda {

/// Element types that the library knows.
enum class Element : std::uint8_t { f16, bf16, f32, f64, c64, c128 };

/// Computes `args` on the launch's stream; the device is current. Opens the library at the first
/// call, which may block for a second; not_supported, naming the library and where it was looked
/// for, if that fails. Thread-safe.
Status gemm(Element element, const GemmArgs& args, const CudaLaunch& on) noexcept;

/// Forgets what belongs to a device's context, which is gone.
void forget_blas(int device) noexcept;

}  // namespace ember::inline v0::driver::cuda
