// From tensors to transforms: how results lie, what has to be copied, how many plans it takes.
#pragma once

#include <cstdint>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::fft {

/// By what a transform of n elements is divided.
enum class Norm : std::uint8_t { none, by_root_n, by_n };

/// Error if there are no transforms of such elements there: of bfloat16 nowhere, of float16 and
/// complex32 on the CPU.
void require_transformable(Dtype dtype, Device device);

// Inputs are transformable, and real or complex as the names say. `dims` are different dimensions
// of the input, counted from the front, without empty ones among them; those of float16 and
// complex32 have to be powers of two (Error). Results are new. Where they have gaps or another
// order than the sizes is torch's way: the transformed dimensions last, the others before them,
// both in the order of the input's strides.

/// Complex to complex. Without dimensions a copy.
Tensor c2c(const Tensor& in, const Shape& dims, Norm norm, bool forward);
/// Real to complex, forward. `onesided`: only the first half along the last of `dims`; if not,
/// there is one dimension.
Tensor r2c(const Tensor& in, const Shape& dims, Norm norm, bool onesided);
/// Complex to real, backward: `in` is the first half of a Hermitian signal that has `last` elements
/// along the last of `dims`.
Tensor c2r(const Tensor& in, const Shape& dims, Norm norm, std::int64_t last);

}  // namespace ember::inline v0::fft
