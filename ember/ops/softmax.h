// Softmax along a dimension.
#pragma once

#include <cstdint>
#include <optional>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// exp(x) / sum of exp(x) along a dimension (IndexError outside the range), without overflow;
/// log_softmax is its logarithm. Floating types only (NotImplementedError `"softmax" not
/// implemented for 'Long'`), unless `dtype` says what to convert to first. float16 and bfloat16 are
/// computed in float. Rows with NaN, with +inf, or of nothing but -inf become NaN. Nothing blocks
/// on CUDA devices. Also as methods of Tensor; `name_out` writes into a given tensor of the
/// result's dtype (Error `Expected out tensor to have dtype float32, but got float64 instead`).
EMBER_API Tensor softmax(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype = {});
EMBER_API Tensor log_softmax(const Tensor& x, std::int64_t dim, std::optional<Dtype> dtype = {});
EMBER_API Tensor& softmax_out(Tensor& out, const Tensor& x, std::int64_t dim,
                              std::optional<Dtype> dtype = {});
EMBER_API Tensor& log_softmax_out(Tensor& out, const Tensor& x, std::int64_t dim,
                                  std::optional<Dtype> dtype = {});

/// The logarithm of the sum of exp(x) over dimensions, without overflow; integers are converted to
/// float32. Of complex numbers those with the largest real part count as the largest.
EMBER_API Tensor logsumexp(const Tensor& x, const DimList& dims, bool keepdim = false);
EMBER_API Tensor& logsumexp_out(Tensor& out, const Tensor& x, const DimList& dims,
                                bool keepdim = false);

}  // namespace ember::inline v0
