// cuFFT as a table of function pointers, and transforms by it.
#pragma once

#include "ember/base/status.h"
#include "ember/driver/fft.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::cuda {

/// Makes a plan of a geometry, on the device of the launch, which is current. Opens the library at
/// the first call, which may block for a second; not_supported, naming the library and where it was
/// looked for, if that fails; out_of_memory where the plan's tables find none. Thread-safe.
Status make_fft_plan(const FftGeometry& geometry, const CudaLaunch& on,
                     FftPlanState& state) noexcept;
/// Destroys it: no transform of it may be in progress, and its device must be current.
Status destroy_fft_plan(FftPlanState& state) noexcept;

/// Enqueues a transform, with a plan of the same geometry, on the launch's stream. The scale is not
/// applied. Several threads may use one plan.
Status transform(const FftArgs& args, const CudaLaunch& on) noexcept;

}  // namespace ember::inline v0::driver::cuda
