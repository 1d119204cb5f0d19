// Tensors side by side. Results live on the device of the inputs, which must be one. Nothing blocks
// on CUDA devices.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The tensors, one behind the other along a dimension. Their other sizes must agree; tensors of
/// shape [0] are left out, whatever the shape of the others. The dtype is the promotion of all.
/// Errors: `torch.cat(): expected a non-empty list of Tensors`, `Sizes of tensors must match except
/// in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list.`, and so on.
EMBER_API Tensor cat(std::span<const Tensor> tensors, std::int64_t dim = 0);
inline Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return cat(std::span(tensors.begin(), tensors.size()), dim);
}
inline Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0) {
  return cat(std::span<const Tensor>(tensors), dim);
}
/// Into `out`, which must have a dtype that can hold the result and share no memory with an input.
/// One of another shape is resized, with a warning unless it has no elements.
EMBER_API Tensor& cat_out(Tensor& out, std::span<const Tensor> tensors, std::int64_t dim = 0);

/// The tensors, all of one shape, along a new dimension.
EMBER_API Tensor stack(std::span<const Tensor> tensors, std::int64_t dim = 0);
inline Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t dim = 0) {
  return stack(std::span(tensors.begin(), tensors.size()), dim);
}
inline Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0) {
  return stack(std::span<const Tensor>(tensors), dim);
}
EMBER_API Tensor& stack_out(Tensor& out, std::span<const Tensor> tensors, std::int64_t dim = 0);

/// Beside each other: along the second dimension, vectors and numbers along their one.
EMBER_API Tensor hstack(std::span<const Tensor> tensors);
inline Tensor hstack(std::initializer_list<Tensor> tensors) {
  return hstack(std::span(tensors.begin(), tensors.size()));
}
inline Tensor hstack(const std::vector<Tensor>& tensors) {
  return hstack(std::span<const Tensor>(tensors));
}
/// Below each other: along the first dimension, vectors and numbers as rows.
EMBER_API Tensor vstack(std::span<const Tensor> tensors);
inline Tensor vstack(std::initializer_list<Tensor> tensors) {
  return vstack(std::span(tensors.begin(), tensors.size()));
}
inline Tensor vstack(const std::vector<Tensor>& tensors) {
  return vstack(std::span<const Tensor>(tensors));
}
/// Behind each other: along the third dimension, with what atleast_3d makes of each.
EMBER_API Tensor dstack(std::span<const Tensor> tensors);
inline Tensor dstack(std::initializer_list<Tensor> tensors) {
  return dstack(std::span(tensors.begin(), tensors.size()));
}
inline Tensor dstack(const std::vector<Tensor>& tensors) {
  return dstack(std::span<const Tensor>(tensors));
}
/// Beside each other, vectors and numbers as columns.
EMBER_API Tensor column_stack(std::span<const Tensor> tensors);
inline Tensor column_stack(std::initializer_list<Tensor> tensors) {
  return column_stack(std::span(tensors.begin(), tensors.size()));
}
inline Tensor column_stack(const std::vector<Tensor>& tensors) {
  return column_stack(std::span<const Tensor>(tensors));
}
EMBER_API Tensor& dstack_out(Tensor& out, std::span<const Tensor> tensors);
EMBER_API Tensor& column_stack_out(Tensor& out, std::span<const Tensor> tensors);
EMBER_API Tensor& hstack_out(Tensor& out, std::span<const Tensor> tensors);
EMBER_API Tensor& vstack_out(Tensor& out, std::span<const Tensor> tensors);

namespace ops {

/// The elements of the tensors, which have one dtype and one device, as one vector: those of the
/// first in the order of its dimensions, then those of the second, and so on.
EMBER_API Tensor flat_cat(std::span<const Tensor* const> tensors);

/// Moves the bytes of one tensor to another of as many, by one kernel on the target's device and
/// its current stream; the source may lie on a peer. Neither has gaps. Orders nothing.
EMBER_API void move_bytes(const Tensor& target, const Tensor& source);

}  // namespace ops
}  // namespace ember::inline v0
