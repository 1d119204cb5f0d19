// From a tensor and a set of dimensions to the arguments of one reduction kernel.
#pragma once

#include "ember/reduce/args.h"
#include "ember/reduce/kernels.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::reduce {

/// The dimensions that go. IndexError outside the range; Error if one appears twice.
DimSet gone_dims(const DimList& dims, int count);
/// The shape of the result.
Shape reduced_sizes(const Shape& sizes, const DimSet& gone, bool keepdim);
/// How many elements go into one of the result.
std::int64_t reduced_count(const Shape& sizes, const DimSet& gone);

/// What to run, and where the results go: contiguous tensors of the reduced shape, or none.
struct Reduction {
  ReduceOp op;
  ReduceMode mode = ReduceMode::plain;
  double number = 0;
  const Tensor* out = nullptr;
  const Tensor* indices = nullptr;
};

/// Runs the kernel on the device of `x`. The operation must exist for its dtype.
void run_reduction(const Tensor& x, const DimSet& gone, const Reduction& reduction);

}  // namespace ember::inline v0::reduce
