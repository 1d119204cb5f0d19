// The rows of all element-wise kernels for one element type. Each type is a file of its own, which
// the build makes from elementwise.cpp.in, so that they compile beside each other.
#pragma once

#include "ember/ops/host/elementwise_loop.h"
#include "ember/ops/host/narrow.h"
#include "ember/ops/rows.h"

namespace ember::ops::host {

/// The host column of an operation for elements of type T; null where the operation does not exist.
template <OpId op, class Op, class T>
constexpr driver::HostColumn column_of() {
  if constexpr (!contains(Op::info.dtypes, dtype_of<T>))
    return nullptr;
  else if constexpr (!std::is_same_v<T, Compute<T>>)
    return &narrow_column<op, Op, T>;
  else
    return &column<Apply<Op, T>>;
}

}  // namespace ember::ops::host
