// Fourier transforms on the CPU and on simulated devices.
#pragma once

#include "ember/base/status.h"
#include "ember/driver/fft.h"
#include "ember/scalar/half.h"

namespace ember::inline v0::fft::host {

/// Whether there are any: not_supported, naming what this build was made without, if not.
Status available() noexcept;

/// Computes a transform of elements of T (float, double or Half), at places that the host may
/// touch, with up to `threads` threads of ember's. The bits depend on none of where it is computed,
/// the number of threads and the strides. out_of_memory if there is none for buffers. Those of Half
/// are computed as float, rounded, and not scaled.
template <class T>
Status transform(const driver::FftArgs& args, int threads) noexcept;
template <>
Status transform<Half>(const driver::FftArgs& args, int threads) noexcept;

}  // namespace ember::inline v0::fft::host
