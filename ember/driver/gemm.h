// What the kernels of matrix products get: `matmul.<dtype>`, on hosts in linalg/, on real devices
// in linalg/cuda/ and driver/cuda/blas.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {

// Bits of GemmArgs::math: where an implementation has a choice. None of them: float32 is computed
// in float32, and partial sums of 16-bit floats may be rounded to those.
/// Factors of float32 and complex64 may be rounded to TF32.
inline constexpr std::uint8_t kTensorFloat32 = 1;
/// Partial sums of float16, and of bfloat16, are added up in float32.
inline constexpr std::uint8_t kExactHalfSums = 2;
inline constexpr std::uint8_t kExactBFloatSums = 4;
/// Products of float16 are added up in float16.
inline constexpr std::uint8_t kHalfSums = 8;

/// C = alpha * op(A) * op(B) + beta * C, column-major as in every BLAS, `batch` times. op(A) is
/// m x k, op(B) is k x n. C is not read if beta is zero. A and B may be the same in every product
/// (stride 0). No size is zero.
struct GemmArgs {
  void* c = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* workspace = nullptr;  ///< what an implementation asked for, or less, or null
  std::size_t workspace_bytes = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0;                 ///< leading dimensions, in elements
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  ///< between products, in elements
  bool transpose_a = false, transpose_b = false;
  std::uint8_t math = 0;                 ///< the bits above
  std::uint8_t unused[5]{};              ///< so that arguments compare byte by byte
  alignas(16) double alpha[2] = {1, 0};  ///< real and imaginary part; libraries load both at once
  alignas(16) double beta[2] = {0, 0};
  std::int64_t integer_alpha = 1, integer_beta = 0;  ///< the same for integer types

  bool reads_c() const noexcept { return beta[0] != 0 || beta[1] != 0 || integer_beta != 0; }
};
EMBER_ARGUMENTS(GemmArgs, EMBER_FIELD(c), EMBER_FIELD(a), EMBER_FIELD(b), EMBER_FIELD(workspace),
                EMBER_FIELD(workspace_bytes), EMBER_FIELD(m), EMBER_FIELD(n), EMBER_FIELD(k),
                EMBER_FIELD(batch), EMBER_FIELD(lda), EMBER_FIELD(ldb), EMBER_FIELD(ldc),
                EMBER_FIELD(stride_a), EMBER_FIELD(stride_b), EMBER_FIELD(stride_c),
                EMBER_FIELD(alpha), EMBER_FIELD(beta), EMBER_FIELD(integer_alpha),
                EMBER_FIELD(integer_beta), EMBER_FIELD(transpose_a), EMBER_FIELD(transpose_b),
                EMBER_FIELD(math), EMBER_FIELD(unused))
static_assert(KernelArguments<GemmArgs>);

}  // namespace ember::inline v0::driver
