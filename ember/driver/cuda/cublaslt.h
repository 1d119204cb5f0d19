// cuBLASLt as a table of function pointers, filled at the first product.
#pragma once

#include <cublasLt.h>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda {

#define EMBER_CUBLASLT_CALLS(CALL)           \
  CALL(cublasLtCreate)                       \
  CALL(cublasLtGetStatusName)                \
  CALL(cublasLtMatmul)                       \
  CALL(cublasLtMatmulAlgoGetHeuristic)       \
  CALL(cublasLtMatmulDescCreate)             \
  CALL(cublasLtMatmulDescSetAttribute)       \
  CALL(cublasLtMatmulDescDestroy)            \
  CALL(cublasLtMatrixLayoutCreate)           \
  CALL(cublasLtMatrixLayoutSetAttribute)     \
  CALL(cublasLtMatrixLayoutDestroy)          \
  CALL(cublasLtMatmulPreferenceCreate)       \
  CALL(cublasLtMatmulPreferenceSetAttribute) \
  CALL(cublasLtMatmulPreferenceDestroy)

struct Lt {
#define EMBER_CUBLASLT_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_CUBLASLT_CALLS(EMBER_CUBLASLT_POINTER)
#undef EMBER_CUBLASLT_POINTER
};

struct LoadedLt {
  Lt lt;
  Status status;
};

/// Opens the library at the first call, which may block for a second. Thread-safe.
const LoadedLt& lt();

}  // namespace ember::inline v0::driver::cuda
