// Views, as functions: `transpose(x, 0, 1)` is x.transpose(0, 1). What they mean, and their errors,
// stand at the methods (tensor.h), where there is one. They share memory with x; nothing blocks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

inline Tensor as_strided(const Tensor& x, const Shape& sizes, const Shape& strides,
                         std::optional<std::int64_t> offset = {}) {
  return x.as_strided(sizes, strides, offset);
}
/// A copy where no view can be, as flatten.
inline Tensor reshape(const Tensor& x, const Shape& sizes) { return x.reshape(sizes); }
inline Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1) {
  return x.flatten(start, end);
}
inline Tensor transpose(const Tensor& x, std::int64_t dim0, std::int64_t dim1) {
  return x.transpose(dim0, dim1);
}
inline Tensor t(const Tensor& x) { return x.t(); }
inline Tensor adjoint(const Tensor& x) { return x.adjoint(); }
inline Tensor permute(const Tensor& x, const Shape& dims) { return x.permute(dims); }
inline Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination) {
  return x.movedim(source, destination);
}
inline Tensor ravel(const Tensor& x) { return x.ravel(); }
inline Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes) {
  return x.unflatten(dim, sizes);
}
inline Tensor broadcast_to(const Tensor& x, const Shape& sizes) { return x.broadcast_to(sizes); }
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, std::int64_t dim) { return x.squeeze(dim); }
inline Tensor squeeze(const Tensor& x, const Shape& dims) { return x.squeeze(dims); }
inline Tensor unsqueeze(const Tensor& x, std::int64_t dim) { return x.unsqueeze(dim); }
inline Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return x.select(dim, index);
}
inline Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  return x.narrow(dim, start, length);
}
[[nodiscard]] inline std::vector<Tensor> chunk(const Tensor& x, std::int64_t count,
                                               std::int64_t dim = 0) {
  return x.chunk(count, dim);
}
[[nodiscard]] inline std::vector<Tensor> split(const Tensor& x, std::int64_t size,
                                               std::int64_t dim = 0) {
  return x.split(size, dim);
}
[[nodiscard]] inline std::vector<Tensor> split(const Tensor& x,
                                               const std::vector<std::int64_t>& sizes,
                                               std::int64_t dim = 0) {
  return x.split(sizes, dim);
}
[[nodiscard]] inline std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0) {
  return x.unbind(dim);
}
inline Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim0 = 0,
                       std::int64_t dim1 = 1) {
  return x.diagonal(offset, dim0, dim1);
}
inline Tensor view_as_real(const Tensor& x) { return x.view_as_real(); }
inline Tensor view_as_complex(const Tensor& x) { return x.view_as_complex(); }

/// With one, two or three dimensions at least: a number gets them all, a vector is a row of a
/// matrix (and of the middle dimension of three), and a matrix gets a last one. Of several tensors
/// each.
EMBER_API Tensor atleast_1d(const Tensor& x);
EMBER_API Tensor atleast_2d(const Tensor& x);
EMBER_API Tensor atleast_3d(const Tensor& x);
[[nodiscard]] EMBER_API std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors);
[[nodiscard]] EMBER_API std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors);
[[nodiscard]] EMBER_API std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors);

/// All in the sizes that they have together, as broadcast_to. Error as broadcast_shapes.
[[nodiscard]] EMBER_API std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors);
[[nodiscard]] inline std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors) {
  return broadcast_tensors(std::span(tensors.begin(), tensors.size()));
}

/// The sizes that tensors of these sizes have together; none of none. ValueError for a negative
/// size, Error where they do not agree: both name it.
EMBER_API Shape broadcast_shapes(std::span<const Shape> shapes);

/// Windows of `size` elements along a dimension, which begin `step` elements apart: their number
/// takes the dimension's place, and what is in them is a last dimension. Windows that overlap share
/// memory. Of a number without dimensions there is one of size 1 or 0. Error for a size below zero
/// or beyond the dimension's, and unless step is positive.
EMBER_API Tensor unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step);

/// So many pieces along a dimension, of which the first ones have one element more where it is no
/// multiple of their number; Error unless that is positive, and without dimensions.
[[nodiscard]] EMBER_API std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections,
                                                         std::int64_t dim = 0);
/// Pieces that end, and begin, at these indices, which are moved into the range as Python does.
[[nodiscard]] EMBER_API std::vector<Tensor> tensor_split(const Tensor& x,
                                                         const std::vector<std::int64_t>& indices,
                                                         std::int64_t dim = 0);
/// So that `{2}` is one index, and not two sections.
[[nodiscard]] inline std::vector<Tensor> tensor_split(const Tensor& x,
                                                      std::initializer_list<std::int64_t> indices,
                                                      std::int64_t dim = 0) {
  return tensor_split(x, std::vector<std::int64_t>(indices), dim);
}
/// The same with a tensor of the CPU, of int64: a number of pieces without dimensions, and indices
/// of one. Error for others.
[[nodiscard]] EMBER_API std::vector<Tensor> tensor_split(const Tensor& x,
                                                         const Tensor& indices_or_sections,
                                                         std::int64_t dim = 0);
/// tensor_split along the columns (dimension 1, and 0 of a single one), the rows (0, of at least
/// two dimensions) and dimension 2 (of at least three). Error where a number of pieces does not
/// divide the dimension.
[[nodiscard]] EMBER_API std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
[[nodiscard]] EMBER_API std::vector<Tensor> hsplit(const Tensor& x,
                                                   const std::vector<std::int64_t>& indices);
[[nodiscard]] inline std::vector<Tensor> hsplit(const Tensor& x,
                                                std::initializer_list<std::int64_t> indices) {
  return hsplit(x, std::vector<std::int64_t>(indices));
}
[[nodiscard]] EMBER_API std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);
[[nodiscard]] EMBER_API std::vector<Tensor> vsplit(const Tensor& x,
                                                   const std::vector<std::int64_t>& indices);
[[nodiscard]] inline std::vector<Tensor> vsplit(const Tensor& x,
                                                std::initializer_list<std::int64_t> indices) {
  return vsplit(x, std::vector<std::int64_t>(indices));
}
[[nodiscard]] EMBER_API std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections);
[[nodiscard]] EMBER_API std::vector<Tensor> dsplit(const Tensor& x,
                                                   const std::vector<std::int64_t>& indices);
[[nodiscard]] inline std::vector<Tensor> dsplit(const Tensor& x,
                                                std::initializer_list<std::int64_t> indices) {
  return dsplit(x, std::vector<std::int64_t>(indices));
}

}  // namespace ember::inline v0
