// Comparisons with a tolerance, and of whole tensors.
#pragma once

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// Where |x - y| <= atol + rtol * |y|, or the two are equal, which infinite numbers may be; NaN is
/// close to NaN if `equal_nan` says so. Shapes are broadcast. Error unless both have one dtype:
/// `Long did not match Float`, and for negative tolerances. Does not block.
EMBER_API Tensor isclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
                         bool equal_nan = false);
/// Whether all elements are close. Blocks.
EMBER_API bool allclose(const Tensor& x, const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
                        bool equal_nan = false);

/// Whether both have the same sizes and equal elements, whatever their dtypes. Blocks. Error if
/// they are on two devices.
EMBER_API bool equal(const Tensor& x, const Tensor& y);

}  // namespace ember::inline v0
