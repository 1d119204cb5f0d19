#include "ember/ops/output_strides.h"

#include "ember/tensor/dense_strides.h"

namespace ember::inline v0::ops {
namespace {

using Inputs = std::span<const Operand* const>;

/// How far apart the elements of an input lie along a dimension of the result; zero where it is
/// repeated.
std::int64_t step_along(const Tensor& input, const Shape& sizes, int dim) {
  const int own = dim - (sizes.size() - input.dim());
  if (own < 0 || (input.sizes()[own] == 1 && sizes[dim] != 1)) return 0;
  return input.strides()[own];
}

/// Whether dimension `a` of the result belongs outside of `b`, by the first input that tells them
/// apart: positive if it does, negative if not, zero if none does.
int order_of(int a, int b, const Shape& sizes, Inputs inputs) {
  for (const Operand* input : inputs) {
    if (input->tensor() == nullptr) continue;
    const int found = order_of_steps(step_along(*input->tensor(), sizes, a),
                                     step_along(*input->tensor(), sizes, b), sizes[a], sizes[b]);
    if (found != 0) return found;
  }
  return 0;
}

}  // namespace

Shape output_strides(const Shape& sizes, Inputs inputs) {
  bool same = true;
  bool contiguous = true;
  const Tensor* pattern = nullptr;
  for (const Operand* input : inputs) {
    const Tensor* tensor = input->tensor();
    same = same && tensor != nullptr && tensor->sizes() == sizes &&
           (pattern == nullptr || pattern->strides() == tensor->strides());
    if (tensor == nullptr || tensor->dim() == 0) continue;
    contiguous = contiguous && tensor->is_contiguous() && tensor->sizes() == sizes;
    pattern = tensor;
  }
  if (pattern == nullptr || contiguous) return contiguous_strides(sizes);
  if (same && is_dense(sizes, pattern->strides())) return pattern->strides();
  return strides_in_order(sizes, [&](int a, int b) { return order_of(a, b, sizes, inputs); });
}

}  // namespace ember::inline v0::ops
