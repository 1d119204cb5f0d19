// From tensors to loops: dimensions that can be walked as one become one, the fastest comes first,
// and what is too large for one loop is cut.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ember/ops/loop.h"
#include "ember/ops/merge.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Runs `kernel` over all elements of `sizes`: operand 0 is written, the others are read. Numbers
/// take their values from `loop`, in order. Nothing happens if there are no elements. `peer`: what
/// lies on another device.
void run_loop(Device device, const driver::Kernel& kernel, const Shape& sizes,
              std::span<const PlanOperand> operands, Loop& loop, driver::PeerMemory peer = {});

/// The dimensions of a plan after merging (merge.h), fastest first. Exposed for tests (property
/// T4).
using Dims = MergedDims<std::array<DimStrides, kLoopOperands>>;
Dims merge_dims(const Shape& sizes, std::span<const PlanOperand> operands);

}  // namespace ember::inline v0::ops
