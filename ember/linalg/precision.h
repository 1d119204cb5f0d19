// How exactly products of matrices are computed where the hardware offers a choice: on CUDA
// devices, by cuBLASLt and by the handle of current_blas_handle(). On the CPU and on simulated
// devices the settings are kept and change nothing.
//
// They hold for the whole process, for products that are asked for afterwards; all functions may be
// called by any thread at any time, and none blocks. Small products of float32 are exact in any
// case.
#pragma once

#include <string>

#include "ember/base/export.h"

namespace ember::inline v0 {

/// "highest" (the default): products of float32 and complex64 in float32. "high" and "medium":
/// their factors may be rounded to TF32, 10 bits instead of 23, which is several times as fast.
/// Anything else is a warning and changes nothing.
EMBER_API void set_float32_matmul_precision(const std::string& precision);
/// What was set, or what a setting below means: "high" where TF32 is allowed, else "highest".
EMBER_API std::string get_float32_matmul_precision();

namespace backends::cuda::matmul {

/// Whether factors of float32 may be rounded to TF32: the same setting as a yes or no. False by
/// default.
EMBER_API bool allow_tf32() noexcept;
EMBER_API void set_allow_tf32(bool allow) noexcept;

/// The same setting by another name: "none" (the default) and "ieee" mean float32, "tf32" TF32.
/// Error `Unknown precision: ...` for anything else.
EMBER_API std::string fp32_precision();
EMBER_API void set_fp32_precision(const std::string& precision);

/// Whether partial sums of products of float16 may be added up in float16. True by default.
EMBER_API bool allow_fp16_reduced_precision_reduction() noexcept;
EMBER_API void set_allow_fp16_reduced_precision_reduction(bool allow) noexcept;
/// The same for bfloat16.
EMBER_API bool allow_bf16_reduced_precision_reduction() noexcept;
EMBER_API void set_allow_bf16_reduced_precision_reduction(bool allow) noexcept;

/// Whether products of float16 may be added up in float16 all the way, which some GPUs do in half
/// of the time: sums beyond 65504 are infinite then, and long ones lose places. False by default.
/// The handle of current_blas_handle() has no such switch: its calls state the type themselves.
EMBER_API bool allow_fp16_accumulation() noexcept;
EMBER_API void set_allow_fp16_accumulation(bool allow) noexcept;

}  // namespace backends::cuda::matmul

}  // namespace ember::inline v0
