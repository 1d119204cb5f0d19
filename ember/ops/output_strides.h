// How new outputs of element-wise operations lie in memory.
#pragma once

#include <span>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// The strides of a new output, as torch has them: without gaps, its dimensions in the order in
/// which the inputs have theirs; those of the inputs if they are all alike without gaps. Inputs
/// that are numbers tell nothing.
Shape output_strides(const Shape& sizes, std::span<const Operand* const> inputs);

}  // namespace ember::inline v0::ops
