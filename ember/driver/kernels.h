// The kernels that ship with the core. Their CUDA columns live in the CUDA object and are bound to
// the rows when it is opened, before anything can be launched.
#pragma once

#include <cstdint>
#include <span>

#include "ember/driver/kernel.h"

namespace ember::driver::kernels {

/// Spins for a number of clock cycles (on simulated devices: at 1 GHz, so nanoseconds).
struct SleepArgs {
  std::uint64_t cycles = 0;
};
extern Kernel sleep;

/// All rows, for binding.
std::span<Kernel* const> all() noexcept;

}  // namespace ember::driver::kernels
