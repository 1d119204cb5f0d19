#pragma once

namespace ember::inline v0::cuda::detail {

/// The same as watch_as_asked() (runtime.h) for EMBER_SIM_EXPLORE. In explore/, which lies above.
void explore_as_asked();

}  // namespace ember::inline v0::cuda::detail
