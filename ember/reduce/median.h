// The element in the middle.
#pragma once

#include <cstdint>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The element in the middle of all in order, the lower of two; NaN if there is one. NaN of
/// nothing. NotImplementedError for bool and complex types.
EMBER_API Tensor median(const Tensor& x);
/// The same along a dimension, and where it was. IndexError for a dimension without elements.
EMBER_API ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim = false);
/// The same into two tensors, of x's dtype and of int64, that are not one; they get the right
/// shape.
EMBER_API void median_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim,
                          bool keepdim = false);

}  // namespace ember::inline v0
