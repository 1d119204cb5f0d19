// The management library: what can be known of the machine's GPUs without initialising CUDA.
#pragma once

namespace ember::inline v0::driver::cuda {

/// How many devices CUDA would show under the present CUDA_VISIBLE_DEVICES; -1 when NVML cannot
/// tell. CUDA is not touched, so that the process may still fork.
int count_without_cuda() noexcept;

/// Whether NVML has told already: then counting asks it nothing any more.
bool devices_are_known() noexcept;

}  // namespace ember::inline v0::driver::cuda
