// Reductions: many elements become one. Everything here also exists as a method of Tensor, and as
// `name_out`, which writes into a given tensor. If that has another shape it is resized, with a
// warning unless it is empty. Its
// dtype must be that of the result for amax, amin, max and min along a dimension, positions, and
// wherever a dtype is given (Error `Expected out tensor to have dtype float32, but got float64
// instead`), bool or uint8 for any and all; the others take any dtype that can hold the result
// (else Error `result type Float can't be cast ...`).
//
// `dims` are the dimensions that go: one, a list, or none for all of them. Negative ones count from
// the end. IndexError outside the range; Error `dim 0 appears multiple times in the list of dims`.
// With `keepdim` they stay, with size one. `dtype` converts the elements first. Reducing nothing
// gives the neutral element (sum 0, product 1, mean and variance NaN), or an error where there is
// none. NaN is the largest and the smallest number; of equal elements the first one counts.
//
// float16 and bfloat16 are added up in float, a copy of complex32 in complex64. The order of
// additions depends on shapes and strides only, so that results are the same every time; it differs
// between the CPU (and simulated devices) and CUDA. Nothing blocks on CUDA devices.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// Integers and bools add up (and multiply) to int64, unless a dtype is given.
EMBER_API Tensor sum(const Tensor& x, const DimList& dims = {}, bool keepdim = false,
                     std::optional<Dtype> dtype = {});
EMBER_API Tensor& sum_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                          bool keepdim = false, std::optional<Dtype> dtype = {});
EMBER_API Tensor prod(const Tensor& x, const DimList& dims = {}, bool keepdim = false,
                      std::optional<Dtype> dtype = {});
EMBER_API Tensor& prod_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                           bool keepdim = false, std::optional<Dtype> dtype = {});

/// Floating and complex types only: Error `mean(): could not infer output dtype. ...`. A real
/// output has the mean of the real parts.
EMBER_API Tensor mean(const Tensor& x, const DimList& dims = {}, bool keepdim = false,
                      std::optional<Dtype> dtype = {});
EMBER_API Tensor& mean_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                           bool keepdim = false, std::optional<Dtype> dtype = {});

/// The squared distance from the mean, summed up and divided by the count less `correction`
/// (where that is not positive: by zero). Real for complex numbers. Floating and complex types
/// only: Error `std and var only support floating point and complex dtypes`.
EMBER_API Tensor var(const Tensor& x, const DimList& dims = {}, double correction = 1,
                     bool keepdim = false);
EMBER_API Tensor& var_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                          double correction = 1, bool keepdim = false);
/// The square root of the variance.
EMBER_API Tensor std(const Tensor& x, const DimList& dims = {}, double correction = 1,
                     bool keepdim = false);
EMBER_API Tensor& std_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                          double correction = 1, bool keepdim = false);

/// Both, and the mean. Errors as var, under their own names.
[[nodiscard]] EMBER_API std::pair<Tensor, Tensor> var_mean(const Tensor& x,
                                                           const DimList& dims = {},
                                                           double correction = 1,
                                                           bool keepdim = false);
[[nodiscard]] EMBER_API std::pair<Tensor, Tensor> std_mean(const Tensor& x,
                                                           const DimList& dims = {},
                                                           double correction = 1,
                                                           bool keepdim = false);

/// The largest and the smallest of all elements. Real types only. Error `max(): Expected reduction
/// dim to be specified for input.numel() == 0. ...` if there are none.
EMBER_API Tensor max(const Tensor& x);
EMBER_API Tensor min(const Tensor& x);
/// The larger, or the smaller, of two elements: maximum() and minimum().
EMBER_API Tensor max(const Tensor& x, const Tensor& y);
EMBER_API Tensor min(const Tensor& x, const Tensor& y);
EMBER_API Tensor& max_out(Tensor& out, const Tensor& x);
EMBER_API Tensor& min_out(Tensor& out, const Tensor& x);
/// Along one dimension, with their positions in it (int64). IndexError `max(): Expected reduction
/// dim 0 to have non-zero size.`
EMBER_API ValuesAndIndices max(const Tensor& x, std::int64_t dim, bool keepdim = false);
EMBER_API ValuesAndIndices min(const Tensor& x, std::int64_t dim, bool keepdim = false);
EMBER_API void max_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim,
                       bool keepdim = false);
EMBER_API void min_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim,
                       bool keepdim = false);
/// Over any dimensions, without positions. Errors as max.
EMBER_API Tensor amax(const Tensor& x, const DimList& dims = {}, bool keepdim = false);
EMBER_API Tensor amin(const Tensor& x, const DimList& dims = {}, bool keepdim = false);
EMBER_API Tensor& amax_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                           bool keepdim = false);
EMBER_API Tensor& amin_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                           bool keepdim = false);
/// Both, the smallest first, over one dimension or all. Errors as amax.
[[nodiscard]] EMBER_API std::pair<Tensor, Tensor> aminmax(const Tensor& x,
                                                          std::optional<std::int64_t> dim = {},
                                                          bool keepdim = false);
/// Into two outputs, which share no memory with each other or with x.
EMBER_API void aminmax_out(Tensor& min, Tensor& max, const Tensor& x,
                           std::optional<std::int64_t> dim = {}, bool keepdim = false);
/// Where the largest and the smallest element are (int64): along a dimension, or, without one,
/// among all elements in the order of the dimensions. IndexErrors as max; Error `"argmax" not
/// implemented for 'Bool'`.
EMBER_API Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim = {},
                        bool keepdim = false);
EMBER_API Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim = {},
                        bool keepdim = false);
EMBER_API Tensor& argmax_out(Tensor& out, const Tensor& x, std::optional<std::int64_t> dim = {},
                             bool keepdim = false);
EMBER_API Tensor& argmin_out(Tensor& out, const Tensor& x, std::optional<std::int64_t> dim = {},
                             bool keepdim = false);

/// Whether any, or all, elements are not zero: bool, but uint8 for uint8, as torch has it. NaN is
/// not zero. Nothing: false, and true.
EMBER_API Tensor any(const Tensor& x, const DimList& dims = {}, bool keepdim = false);
EMBER_API Tensor all(const Tensor& x, const DimList& dims = {}, bool keepdim = false);
EMBER_API Tensor& any_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                          bool keepdim = false);
EMBER_API Tensor& all_out(Tensor& out, const Tensor& x, const DimList& dims = {},
                          bool keepdim = false);
/// The sum of the main diagonal of a matrix. Error unless there are two dimensions.
EMBER_API Tensor trace(const Tensor& x);
/// How many elements are not zero: int64.
EMBER_API Tensor count_nonzero(const Tensor& x, const DimList& dims = {});
EMBER_API Tensor& count_nonzero_out(Tensor& out, const Tensor& x, const DimList& dims = {});

/// (sum of |x|^p)^(1/p); p = infinity: the largest |x|, -infinity: the smallest, 0: how many are
/// not zero. Real for complex numbers. Floating and complex types only: Error `linalg.vector_norm:
/// Expected a floating point or complex tensor as input. Got Long`; so are the infinite norms of
/// nothing, and a `dtype` that is of another kind than x, or narrower.
EMBER_API Tensor norm(const Tensor& x, double p = 2, const DimList& dims = {}, bool keepdim = false,
                      std::optional<Dtype> dtype = {});
EMBER_API Tensor& norm_out(Tensor& out, const Tensor& x, double p = 2, const DimList& dims = {},
                           bool keepdim = false, std::optional<Dtype> dtype = {});

}  // namespace ember::inline v0
