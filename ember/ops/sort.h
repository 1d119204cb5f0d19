// Sorting, and the largest elements. Chapter 24 of the documents.
//
// Along one dimension of tensors of any shape and strides; of all element types but complex ones.
// NaN counts as larger than every number; -0.0 and 0.0 are equal, and so are all NaNs. Equal
// elements keep their order, also in topk, where the lower index wins: results are the same on
// every kind of device, and every time. Indices are int64. Tensors without dimensions are taken as
// one element.
//
// The *_out forms write into given tensors: Error unless they are on the same device and have the
// right dtypes. Those of another shape are resized, with a warning unless they have no elements.
// The results of other functions are contiguous. Errors: IndexError `Dimension out of range ...`.
// Nothing blocks on CUDA devices.
#pragma once

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The k largest (or smallest) elements and where they were, in order (whatever `sorted`). Error
/// `selected index k out of range` unless 0 <= k <= size(dim).
EMBER_API ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim = -1,
                                bool largest = true, bool sorted = true);
EMBER_API void topk_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t k,
                        std::int64_t dim = -1, bool largest = true, bool sorted = true);

/// All elements in order, and where they were. It is always stable. Error `Sort does not support
/// complex dtypes on CPU`. On CUDA devices rows have less than 2^32 elements.
EMBER_API ValuesAndIndices sort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                                bool stable = false);
EMBER_API void sort_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim = -1,
                        bool descending = false, bool stable = false);

/// The indices of sort() alone.
EMBER_API Tensor argsort(const Tensor& x, std::int64_t dim = -1, bool descending = false,
                         bool stable = false);
EMBER_API Tensor& argsort_out(Tensor& out, const Tensor& x, std::int64_t dim = -1,
                              bool descending = false, bool stable = false);

}  // namespace ember::inline v0
