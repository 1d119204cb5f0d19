// How often elements occur, or are to occur: the sizes of what comes out depend on what goes in. So
// all of these block until the device has computed them, unless a comment says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// How often each number from zero on occurs in a vector of integers (int64), or the sum of the
/// weights at the places where it does (float32 for float32, else float64); for at least
/// `minlength` numbers. Error for negative numbers and for weights of another shape;
/// NotImplementedError for other dtypes than integers.
EMBER_API Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t minlength = 0);

/// The elements that occur, each once, in ascending order; then, if asked for, where each element
/// of x is among them, in x's shape, and how often each occurs (int64), else tensors without
/// elements. NaNs are no two the same. Real types and bool only. With `dim` of the slices along
/// that dimension, in the order of their first elements, then of their second ones and so on; at
/// most two sorts for each element of a slice, and one. Then Error where slices have no elements,
/// and IndexError for a tensor without dimensions. Waits for a device.
EMBER_API std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, bool return_inverse = false,
                                                    bool return_counts = false,
                                                    std::optional<std::int64_t> dim = {});
/// The same of elements, or slices, that follow each other: in x's order, one of each row of equal
/// ones.
EMBER_API std::tuple<Tensor, Tensor, Tensor> unique_consecutive(
    const Tensor& x, bool return_inverse = false, bool return_counts = false,
    std::optional<std::int64_t> dim = {});

/// Each element, or each slice along a dimension, so many times in a row; without a dimension x is
/// one row. With a number nothing blocks, nor, on a device, with an `output_size` (how many slices
/// come out: there other repeats are indices out of range). `repeats` of int32 or int64 has one
/// element, or one for each slice. Error for others, negative ones and another `output_size`.
EMBER_API Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                                   std::optional<std::int64_t> dim = {},
                                   std::optional<std::int64_t> output_size = {});
EMBER_API Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                                   std::optional<std::int64_t> dim = {},
                                   std::optional<std::int64_t> output_size = {});
/// 0 repeats[0] times, 1 repeats[1] times, and so on.
EMBER_API Tensor repeat_interleave(const Tensor& repeats,
                                   std::optional<std::int64_t> output_size = {});

}  // namespace ember::inline v0
