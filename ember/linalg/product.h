// From tensors to calls of a BLAS: which strides it understands, what has to be copied, and how
// many calls a batch takes.
#pragma once

#include <cstdint>

#include "ember/driver/gemm.h"
#include "ember/runtime/observer.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::linalg {

/// alpha and beta of a product.
struct Factors {
  Scalar beta = 0;
  Scalar alpha = 1;
};

/// A product in words. Literals.
struct ProductNames {
  const char* cpu;  ///< what torch calls it in `"..." not implemented for 'Bool'`, on the CPU
  const char* cuda;
  const char* left;  ///< arguments, as its schema has them: for what observers are told
  const char* right;
  const char* out = ember::cuda::kOutputArgument;

  const char* on(const Tensor& tensor) const { return tensor.is_cuda() ? cuda : cpu; }
};

/// out = alpha * (a @ b) + beta * out, where the last two dimensions are matrices and those before,
/// the same in all three (expanded with stride 0 in a and b if need be), count the products. The
/// shapes fit, the dtypes and devices are the same, and `out` shares no memory with a and b.
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, const Factors& factors,
              const ProductNames& names);

/// The settings of precision.h as the bits of GemmArgs::math.
std::uint8_t precision_bits() noexcept;

/// The kernel of a dtype, for tests: its host implementation is null for bool.
const driver::Kernel& product_kernel(Dtype dtype) noexcept;

}  // namespace ember::inline v0::linalg
