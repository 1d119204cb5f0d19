// Matrix products on the CPU without a library.
#pragma once

#include "ember/base/status.h"
#include "ember/driver/gemm.h"

namespace ember::inline v0::linalg::host {

/// One product with elements of type T: any but bool. 16-bit floating-point numbers are added up as
/// float and rounded once; integers wrap around. out_of_memory if there is none for its buffers.
/// The result depends on nothing but the arguments and the machine. Thread-safe.
template <class T>
Status own_gemm(const driver::GemmArgs& args, const T* a, const T* b, T* c) noexcept;

}  // namespace ember::inline v0::linalg::host
