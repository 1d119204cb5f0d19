// Running sums and products along one dimension. Chapter 24 of the documents.
//
// Integers and bool give int64 (and wrap around), other types themselves, unless a dtype is asked
// for: the elements are converted to it first. float16 and bfloat16 are summed in float, a copy of
// complex32 in complex64, and on the CPU and simulated devices float32 in double. The order of
// additions depends on shapes only: the same input gives the same bits on the same kind of device.
//
// The *_out forms write into a given tensor, whose dtype is the one asked for if none is given:
// Error unless it has the dtype asked for (`Expected out tensor to have dtype ...`) and is on the
// same device. One of another shape is resized, with a warning unless it has no elements. Errors:
// IndexError `Dimension out of range ...`, NotImplementedError `"cumsum" not implemented for
// 'Bool'` when bool is asked for. Nothing blocks on CUDA devices.
#pragma once

#include <optional>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// The sum of each element and those before it.
EMBER_API Tensor cumsum(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype = {});
EMBER_API Tensor& cumsum_out(Tensor& out, const Tensor& x, std::int64_t dim,
                             std::optional<Dtype> dtype = {});

/// The product of each element and those before it.
EMBER_API Tensor cumprod(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype = {});
EMBER_API Tensor& cumprod_out(Tensor& out, const Tensor& x, std::int64_t dim,
                              std::optional<Dtype> dtype = {});

}  // namespace ember::inline v0
