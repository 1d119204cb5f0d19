// All element-wise kernels for one element type: elementwise_type.cpp, which is compiled once for
// each, so that they compile beside each other.
#pragma once

#include "ember/ops/elementwise_kernels.h"
#include "ember/ops/host/elementwise_loop.h"
#include "ember/ops/host/narrow.h"

namespace ember::inline v0::ops::host {

/// The host implementation of an operation for elements of type T; null where the operation does
/// not exist.
template <OpId op, class Op, class T>
constexpr driver::HostImplementation implementation_of() {
  if constexpr (!contains(Op::info.dtypes, dtype_of<T>))
    return nullptr;
  else if constexpr (!is_complex<T> && !std::is_same_v<T, Compute<T>> && computes_as_float<Op>)
    return &narrow_implementation<op, Op, T>;
  else
    return &implementation<Apply<Op, T>>;
}

}  // namespace ember::inline v0::ops::host
