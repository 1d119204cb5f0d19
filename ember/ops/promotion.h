// Which type an operation computes in, by torch's rules. result_type() in elementwise.h is the
// answer.
#pragma once

#include "ember/tensor/tensor.h"

namespace ember::inline v0::ops {

/// A number or a tensor without dimensions yields to tensors with dimensions of the same kind.
/// Between kinds (integer, floating, complex) the higher one wins.
inline int kind(Dtype dtype) {
  if (dtype == Dtype::bool_) return 0;
  if (is_integral(dtype)) return 1;
  return ember::is_floating_point(dtype) ? 2 : 3;
}

}  // namespace ember::inline v0::ops
