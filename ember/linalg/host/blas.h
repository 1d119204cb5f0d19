// A BLAS on the CPU, if this machine has one: opened at the first matrix product, so that the
// library itself depends on none.
#pragma once

#include <string>

#include "ember/base/status.h"
#include "ember/driver/gemm.h"

namespace ember::inline v0::linalg::host {

/// The functions of cblas.h that are used, with 32-bit sizes.
struct Blas {
  template <class T>
  using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                        const void* a, int lda, const void* b, int ldb, T beta, void* c, int ldc);
  template <class T>
  using Gemv = void (*)(int order, int transpose, int m, int n, T alpha, const void* a, int lda,
                        const void* x, int incx, T beta, void* y, int incy);
  template <class T>
  using Dot = T (*)(int n, const T* x, int incx, const T* y, int incy);
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  Gemm<const void*> cgemm = nullptr, zgemm = nullptr;
  Gemv<float> sgemv = nullptr;
  Gemv<double> dgemv = nullptr;
  Gemv<const void*> cgemv = nullptr, zgemv = nullptr;
  Dot<float> sdot = nullptr;
  Dot<double> ddot = nullptr;
  std::string name;  ///< what was opened
};

/// The library, or null: then products are computed by the loops in gemm.h. Looked for once: what
/// EMBER_BLAS names (`none` for nothing), else libopenblas.so.0, else libcblas.so.3 or libblas.so.3
/// if that is a fast one. Failure only if EMBER_BLAS names something that cannot be used.
/// Thread-safe; may block while the library is read.
Status find_blas(const Blas*& out) noexcept;

/// One product with elements of type T (float, double and the complex types) by the library. False
/// if its 32-bit sizes are too narrow.
template <class T>
bool blas_gemm(const Blas& blas, const driver::GemmArgs& args, const T* a, const T* b,
               T* c) noexcept;

}  // namespace ember::inline v0::linalg::host
