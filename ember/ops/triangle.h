// One side of a diagonal, and zeros on the other: what tril and triu are made of.
#pragma once

#include <cstdint>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// Copies `in`, matrices in its last two dimensions, to `out`, a contiguous tensor of its sizes,
/// dtype and device, with zeros above (lower) or below a diagonal of each. `out` is `in`, or shares
/// no memory with it.
void copy_triangle(const Tensor& out, const Tensor& in, std::int64_t diagonal, bool lower);

}  // namespace ember::inline v0::ops
