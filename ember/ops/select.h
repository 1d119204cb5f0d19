// Elements chosen by a mask, and where they are. Chapter 24 of the documents.
//
// How many there are is known only when the mask has been read: on CUDA devices these functions
// wait for the current stream of the tensor's device. Results are in the order of the elements.
#pragma once

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The coordinates of all elements that are not zero (NaN is not), as int64 [how many, x.dim()].
/// The *_out form writes into a given int64 tensor: Error `Expected out tensor to have dtype int64,
/// ...` unless it is one and on the same device; it is resized where it has another shape, with a
/// warning unless it has no elements.
EMBER_API Tensor nonzero(const Tensor& x);
EMBER_API Tensor& nonzero_out(Tensor& out, const Tensor& x);
/// The same, by another name.
inline Tensor argwhere(const Tensor& x) { return nonzero(x); }

/// The elements of x where the mask is true, in one dimension. Both are broadcast to one shape.
/// Error `masked_select: expected BoolTensor for mask`, and those of broadcasting. The *_out form
/// as above, with x's dtype.
EMBER_API Tensor masked_select(const Tensor& x, const Tensor& mask);
EMBER_API Tensor& masked_select_out(Tensor& out, const Tensor& x, const Tensor& mask);

}  // namespace ember::inline v0
