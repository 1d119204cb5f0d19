// The kernels of Fourier transforms; what they get is in driver/fft.h.
#pragma once

#include "ember/driver/fft.h"
#include "ember/driver/kernel.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::fft {

/// A transform: `fft_c2c.float32` and so on, named by its real numbers. The host implementation,
/// which needs no plan, asks for what it is made of before it is launched.
const driver::Kernel& transform_kernel(const driver::FftGeometry& geometry) noexcept;
/// `fft_mirror.complex64` and so on; of complex dtypes.
const driver::Kernel& mirror_kernel(Dtype dtype) noexcept;
/// `fft_plan`, which has nothing to do on hosts.
const driver::Kernel& plan_kernel() noexcept;

}  // namespace ember::inline v0::fft
