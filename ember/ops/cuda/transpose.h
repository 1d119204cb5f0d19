// Copies whose output is fastest in another dimension than their input.
#pragma once

#include <cstddef>

#include "ember/driver/kernel.h"
#include "ember/ops/loop.h"

namespace ember::inline v0::ops::cuda {

/// Whether a copy of one input is a transposition that is worth tiles: its output has adjacent
/// elements in dimension 0, its input in another one, and both are long enough.
bool transposes(const Loop& loop) noexcept;

/// Copies elements of 1, 2, 4, 8 or 16 bytes by tiles through shared memory.
Status transpose(const Loop& loop, const driver::CudaLaunch& on, std::size_t item);

}  // namespace ember::inline v0::ops::cuda
