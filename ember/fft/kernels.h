// The kernels of Fourier transforms; what they get is in driver/fft.h.
#pragma once

#include "ember/driver/fft.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::fft {

/// A transform: `fft_c2c.float32` and so on. The host implementation, which needs no plan, asks for
/// what it is made of before it is launched.
const driver::Kernel& transform_kernel(driver::FftKind kind, bool wide) noexcept;
/// `fft_mirror.complex64` and `fft_mirror.complex128`.
const driver::Kernel& mirror_kernel(bool wide) noexcept;
/// `fft_plan`, which has nothing to do on hosts.
const driver::Kernel& plan_kernel() noexcept;

}  // namespace ember::inline v0::fft
