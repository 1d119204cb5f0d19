// Checking that kernels touch what their launches declare. What observers are told of a launch is
// all that the sanitizer has on real devices; on simulated ones every place that a kernel asks for
// (HostLaunch::at) is compared with it.
#pragma once

#include <atomic>
#include <span>

#include "ember/driver/kernel.h"
#include "ember/driver/rebinding.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::cuda {

namespace detail {
extern std::atomic<bool> checking_accesses;
}

/// Whether launches are checked. Does not change once there is a driver.
inline bool checks_accesses() noexcept {
  return detail::checking_accesses.load(std::memory_order_relaxed);
}

/// For the moment in which a driver is made: simulated devices are checked as
/// EMBER_SIM_CHECK_ACCESSES says or, where that is not set, if a seed decides.
void check_accesses_as_asked(bool simulated);

/// A kernel that does what `kernel` does and faults, naming what was touched and what was declared,
/// when that asks for memory beyond `accesses`, which are copied. Reading what is declared as
/// written is no fault.
driver::Kernel checked(const driver::Kernel& kernel, std::span<const Access> accesses);
/// A kernel for a launch in which some memory stands for other memory: if it was made by checked(),
/// its accesses do, too.
driver::Kernel with_rebound_accesses(const driver::Kernel& kernel,
                                     std::span<const driver::Rebound> memory);

}  // namespace ember::inline v0::cuda
