// How far the elements of a tensor reach.
#pragma once

#include <cstdint>

#include "ember/tensor/tensor.h"

namespace ember::inline v0::cuda::detail {

/// How many elements lie from the first to the last one.
inline std::int64_t extent_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int d = 0; d < tensor.dim(); ++d) last += (tensor.sizes()[d] - 1) * tensor.strides()[d];
  return last + 1;
}

}  // namespace ember::inline v0::cuda::detail
