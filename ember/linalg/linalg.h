// Products of matrices and vectors.
//
// Inputs are tensors of one dtype on one device: float16, bfloat16, float32, float64, complex64 and
// complex128, and uint8, int8, int16, int32 and int64, which torch multiplies on the CPU only.
// Nothing is converted, except by addr, and nothing broadcast, except by matmul. float16 and
// bfloat16 are added up in float32; float32 is computed in float32, unless linalg/precision.h says
// otherwise; integers wrap around. Transposed matrices and batches of strided matrices are used as
// they are; inputs whose rows and columns both have gaps are copied. A result without elements to
// add up (k = 0) is zero.
//
// On the CPU and on simulated devices the products come from a BLAS if there is one (see EMBER_BLAS
// in docs/environment.md) and else from loops of ember's own: the same bits on both, but not on
// every machine. On CUDA devices they come from cuBLASLt, opened at the first product:
// AcceleratorError 801 that names the library and where it was looked for if it is missing. Each
// stream that computes products keeps a workspace from the caching allocator (see
// clear_blas_workspaces).
//
// The functions ending in _out write into `out`, which must have the dtype of the result; it may
// have any strides, and may share memory with the inputs. If it has another shape it is resized,
// with a warning unless it is empty; then it may share no memory with them. Nothing blocks on CUDA
// devices.
#pragma once

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

// What cublasHandle_t points to; defined by cuBLAS.
struct cublasContext;

namespace ember::inline v0 {

/// (n x k) times (k x m). Error `mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)`, `self
/// must be a matrix`, `expected m1 and m2 to have the same dtype, but got: float != double`.
EMBER_API Tensor mm(const Tensor& self, const Tensor& mat2);
EMBER_API Tensor& mm_out(Tensor& out, const Tensor& self, const Tensor& mat2);

/// (b x n x k) times (b x k x m). Error `batch1 must be a 3D tensor`, `Expected size for first two
/// dimensions of batch2 tensor to be: [2, 3] but got: [2, 4].`
EMBER_API Tensor bmm(const Tensor& self, const Tensor& mat2);
EMBER_API Tensor& bmm_out(Tensor& out, const Tensor& self, const Tensor& mat2);

/// beta * input + alpha * (mat1 @ mat2); `input` is broadcast to the result's shape, and not looked
/// at if beta is 0. Integers need integer factors.
EMBER_API Tensor addmm(const Tensor& input, const Tensor& mat1, const Tensor& mat2,
                       const Scalar& beta = 1, const Scalar& alpha = 1);
EMBER_API Tensor& addmm_out(Tensor& out, const Tensor& input, const Tensor& mat1,
                            const Tensor& mat2, const Scalar& beta = 1, const Scalar& alpha = 1);

/// The same of batches: (b x n x k) and (b x k x m).
EMBER_API Tensor baddbmm(const Tensor& input, const Tensor& batch1, const Tensor& batch2,
                         const Scalar& beta = 1, const Scalar& alpha = 1);
EMBER_API Tensor& baddbmm_out(Tensor& out, const Tensor& input, const Tensor& batch1,
                              const Tensor& batch2, const Scalar& beta = 1,
                              const Scalar& alpha = 1);

/// beta * input + alpha * (vec1 of n as a column times vec2 of m as a row): n x m, element by
/// element with what that allows of dtypes and outputs (ops/elementwise.h), bools too. `input` is
/// broadcast, and not looked at if beta is 0; in place it must have the result's shape. Error
/// `addr: Expected 1-D argument vec1, but got 2-D`.
EMBER_API Tensor addr(const Tensor& input, const Tensor& vec1, const Tensor& vec2,
                      const Scalar& beta = 1, const Scalar& alpha = 1);
EMBER_API Tensor& addr_out(Tensor& out, const Tensor& input, const Tensor& vec1, const Tensor& vec2,
                           const Scalar& beta = 1, const Scalar& alpha = 1);

/// (n x m) times (m). Error `size mismatch, got input (2), mat (2x3), vec (4)`.
EMBER_API Tensor mv(const Tensor& self, const Tensor& vec);
EMBER_API Tensor& mv_out(Tensor& out, const Tensor& self, const Tensor& vec);

/// The sum of the products of two vectors' elements, without dimensions. Nothing is conjugated.
/// Error `1D tensors expected, but got 2D and 1D tensors`.
EMBER_API Tensor dot(const Tensor& self, const Tensor& other);
EMBER_API Tensor& dot_out(Tensor& out, const Tensor& self, const Tensor& other);

/// By the number of dimensions: two vectors as dot, a matrix and a vector as mv, two matrices as
/// mm; with more, the last two dimensions are matrices and those before are broadcast. A vector on
/// the left counts as a row, one on the right as a column, and that dimension is left out of the
/// result. Error `both arguments to matmul need to be at least 1D, but they are 0D and 1D`.
EMBER_API Tensor matmul(const Tensor& self, const Tensor& other);
EMBER_API Tensor& matmul_out(Tensor& out, const Tensor& self, const Tensor& other);

namespace cuda {

/// Gives the workspaces of matrix products back to the caching allocator; products that are still
/// running are not disturbed. A workspace is 32 MiB on devices of compute capability 9.0, else 8
/// MiB and 128 KiB, or as CUBLAS_WORKSPACE_CONFIG says. Simulated devices have none.
EMBER_API void clear_blas_workspaces();

/// A `cublasHandle_t` for calls of your own: of the calling thread and its current device, set to
/// its current stream, with that stream's workspace (see clear_blas_workspaces) and the settings of
/// linalg/precision.h. A thread gets the same handle for a device again, until the device is reset;
/// no other thread has it meanwhile. When the thread ends, the handle waits for the next thread
/// that asks. Ask again after a change of the stream, of settings, or after clear_blas_workspaces:
/// the handle is set anew then.
///
/// Opens libcublas.so.13 or .12 at the first call and makes a handle at a thread's first, which
/// block for up to a second. Error that names what is missing where there is no such library, and
/// on simulated devices; AcceleratorError when the device is in a fault. Chapter 2.
EMBER_API ::cublasContext* current_blas_handle();

}  // namespace cuda
/// The products of every element of a vector with every one of another: `x[i] * y[j]`. Dtypes are
/// promoted as in x * y. Error unless both have one dimension. Does not block.
EMBER_API Tensor outer(const Tensor& x, const Tensor& y);
EMBER_API Tensor& outer_out(Tensor& out, const Tensor& x, const Tensor& y);

}  // namespace ember::inline v0
