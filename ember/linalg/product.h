// From tensors to calls of a BLAS: which strides it understands, what has to be copied, and how
// many calls a batch takes.
#pragma once

#include <cstdint>

#include "ember/driver/gemm.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::linalg {

/// alpha and beta of a product.
struct Factors {
  Scalar beta = 0;
  Scalar alpha = 1;
};

/// out = alpha * (a @ b) + beta * out, where the last two dimensions are matrices and those before,
/// the same in all three (expanded with stride 0 in a and b if need be), count the products. The
/// shapes fit, the dtypes and devices are the same, and `out` shares no memory with a and b.
/// `name` is how torch calls the operation in `"..." not implemented for 'Bool'`.
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Factors& factors,
              const char* name);

/// The settings of precision.h as the bits of GemmArgs::math.
std::uint8_t precision_bits() noexcept;

/// The kernel of a dtype, for tests: its host implementation is null for bool.
const driver::Kernel& product_kernel(Dtype dtype) noexcept;

}  // namespace ember::inline v0::linalg
