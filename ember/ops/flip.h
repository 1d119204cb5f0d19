// The order reversed along dimensions: what flip is made of.
#pragma once

#include <cstdint>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Copies `in` to `out`, a tensor of its sizes, dtype and device that shares no memory with it and
/// whose elements share none with each other. Dimensions whose bit in `dims` is set go backwards.
void copy_flipped(const Tensor& out, const Tensor& in, const DimSet& dims);

}  // namespace ember::inline v0::ops
