#include "ember/reduce/count.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/ops/cat.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/index.h"
#include "ember/ops/scan.h"
#include "ember/ops/select.h"
#include "ember/ops/sort.h"
#include "ember/reduce/reduce.h"

namespace ember::inline v0 {
namespace {

using UniqueElements = std::tuple<Tensor, Tensor, Tensor>;

void require_real(const Tensor& x, const char* name) {
  if (x.is_complex()) ops::throw_not_implemented(name, x.dtype());
}

/// Where an element of a row, or a row of a matrix, differs from the one before, the first one
/// included.
Tensor begins(const Tensor& rows) {
  const std::int64_t size = rows.sizes()[0];
  Tensor made = ones({size}, {Dtype::bool_, rows.device()});
  if (size > 1) {
    const Tensor differ = ne(rows.narrow(0, 1, size - 1), rows.narrow(0, 0, size - 1));
    made.narrow(0, 1, size - 1).copy_(rows.dim() == 1 ? differ : differ.any(1));
  }
  return made;
}

/// What belongs to the elements of a row in order, where these were before.
Tensor put_back(const Tensor& in_order, const Tensor& indices) {
  Tensor made = empty_like(indices);
  made.scatter_(0, indices, in_order);
  return made;
}

/// Of runs that begin where `first` is true, and have `elements`: these, which run each place is
/// in, and the lengths.
UniqueElements runs(const Tensor& first, Tensor elements, bool return_inverse, bool return_counts) {
  const Options indices(Dtype::int64, first.device());
  UniqueElements made{std::move(elements), empty({0}, indices), empty({0}, indices)};
  if (return_inverse) std::get<1>(made) = first.cumsum(0).sub_(1);
  if (return_counts) {
    const Tensor from = first.nonzero().view({-1});
    const Tensor size = full({1}, first.numel(), indices);
    const Tensor to = cat({from, size}).narrow(0, from.numel() > 0 ? 1 : 0, from.numel());
    std::get<2>(made) = to - from;
  }
  return made;
}
UniqueElements runs(const Tensor& row, bool return_inverse, bool return_counts) {
  const Tensor first = begins(row);
  return runs(first, row.masked_select(first), return_inverse, return_counts);
}

void check_repeats_dtype(const Tensor& repeats) {
  if (repeats.dtype() != Dtype::int32 && repeats.dtype() != Dtype::int64)
    ops::throw_not_implemented("repeat_interleave", repeats.dtype());
}

/// For each of the repeated, where it comes from. A device whose output's size is known is not
/// waited for: repeats that do not add up to it are indices out of range there.
Tensor sources(const Tensor& repeats, std::optional<std::int64_t> output_size) {
  if (repeats.dim() > 1) throw Error("repeats must be 0-dim or 1-dim tensor");
  check_repeats_dtype(repeats);
  const Options indices(Dtype::int64, repeats.device());
  if (repeats.numel() == 0) {
    if (output_size.value_or(0) != 0) throw Error("allocated size does not match required size");
    return empty({0}, indices);
  }
  const bool known = output_size && repeats.is_cuda();
  if (known && *output_size < 0)
    throw Error("repeat_interleave: Invalid output_size, expected none below 0 but got " +
                std::to_string(*output_size));
  const Tensor ends = repeats.to(Dtype::int64).cumsum(0);
  // A sum of what is not negative is so where it passes 2^63 first.
  if (!known && (repeats.lt(0) | ends.lt(0)).any().item<bool>())
    throw Error(repeats.lt(0).any().item<bool>()
                    ? "repeats can not be negative"
                    : "repeat_interleave: the repeats are 2^63 or more together");
  const std::int64_t total = known ? *output_size : ends.select(0, -1).item<std::int64_t>();
  if (total == std::numeric_limits<std::int64_t>::max())
    throw Error("repeat_interleave: more elements than there can be, " + std::to_string(total));
  if (output_size.value_or(total) != total)
    throw Error("allocated size does not match required size: got an output_size of " +
                std::to_string(*output_size) + ", expected " + std::to_string(total));
  // One step up wherever one ends; steps behind the last element count for none.
  Tensor steps = zeros({total + 1}, indices);
  steps.scatter_add_(0, ends, ones_like(ends));
  return steps.narrow(0, 0, total).cumsum(0);
}

int dimension_of(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0)
    throw IndexError("Dimension specified as " + std::to_string(dim) +
                     " but tensor has no dimensions");
  return wrap_dim(dim, x.dim());
}

/// The slices along a dimension as rows of a matrix. Without elements they cannot be told apart.
Tensor rows_of(const Tensor& x, int along) {
  const auto zeros = std::count(x.sizes().begin(), x.sizes().end(), 0);
  if (x.sizes()[along] == 0 && zeros > 1)
    throw Error("Number of zero sized dimensions is more than one, so unique cannot be applied ");
  if (x.sizes()[along] != 0 && zeros > 0)
    throw Error(
        "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const std::int64_t count = x.sizes()[along];
  return x.movedim(along, 0).reshape({count, count == 0 ? 0 : x.numel() / count});
}

/// The place of each element of a row among those that differ, in order.
Tensor ranks_in(const Tensor& row) {
  const ValuesAndIndices ordered = sort(row);
  return put_back(begins(ordered.values).cumsum(0).sub_(1), ordered.indices);
}

/// The same of the rows of a matrix, in the order of their first elements, then of their second
/// ones and so on.
Tensor ranks(const Tensor& rows) {
  const std::int64_t count = rows.sizes()[0];
  Tensor made = zeros({count}, {Dtype::int64, rows.device()});
  for (std::int64_t column = 0; column < rows.sizes()[1]; ++column) {
    made = ranks_in(made * count + ranks_in(rows.select(1, column)));
    if (made.max().item<std::int64_t>() + 1 == count) break;  // all differ
  }
  return made;
}

/// Some of the slices along a dimension. They lie one behind the other, as torch has them.
Tensor chosen_slices(const Tensor& x, int along, const Tensor& which) {
  return x.movedim(along, 0).contiguous().index_select(0, which).movedim(0, along);
}

/// unique of the slices along a dimension.
UniqueElements unique_slices(const Tensor& x, bool return_inverse, bool return_counts,
                             std::int64_t dim) {
  const int along = dimension_of(x, dim);
  Tensor places = ranks(rows_of(x, along));
  const ValuesAndIndices ordered = sort(places, 0, false, true);
  const Tensor first = begins(ordered.values);
  UniqueElements made = runs(first, chosen_slices(x, along, ordered.indices.masked_select(first)),
                             false, return_counts);
  if (return_inverse) std::get<1>(made) = std::move(places);
  return made;
}

UniqueElements runs_of_slices(const Tensor& x, bool return_inverse, bool return_counts,
                              std::int64_t dim) {
  const int along = dimension_of(x, dim);
  const Tensor first = begins(rows_of(x, along));
  return runs(first, chosen_slices(x, along, first.nonzero().view({-1})), return_inverse,
              return_counts);
}

}  // namespace

Tensor bincount(const Tensor& x, const Tensor& weights, std::int64_t minlength) {
  if (!is_integral(x.dtype()) || x.dtype() == Dtype::bool_)
    ops::throw_not_implemented(x.is_cuda() ? "bincount_cuda" : "bincount_cpu", x.dtype());
  if (minlength < 0) throw Error("minlength should be >= 0");
  constexpr const char* kOnly = "bincount only supports 1-d non-negative integral inputs.";
  if (x.dim() != 1) throw Error(kOnly);
  // Of nothing it counts nothing, whatever the weights.
  if (x.numel() == 0) return zeros({minlength}, {Dtype::int64, x.device()});
  const bool weighted = weights.defined();
  if (weighted && weights.sizes() != x.sizes())
    throw Error("weights should be 1-d and have the same length as input");
  if (weighted) ops::require_same_device(x.device(), weights.device());
  const Dtype dtype = !weighted                           ? Dtype::int64
                      : weights.dtype() == Dtype::float32 ? Dtype::float32
                                                          : Dtype::float64;
  const Tensor places = x.to(Dtype::int64);
  if (places.min().item<std::int64_t>() < 0) throw Error(kOnly);
  const std::int64_t size = std::max(places.max().item<std::int64_t>() + 1, minlength);
  Tensor made = zeros({size}, {dtype, x.device()});
  made.scatter_add_(0, places, weighted ? weights.to(dtype) : ones_like(places));
  return made;
}

UniqueElements unique(const Tensor& x, bool return_inverse, bool return_counts,
                      std::optional<std::int64_t> dim) {
  require_real(x, dim ? "unique_dim" : "unique");
  if (dim) return unique_slices(x, return_inverse, return_counts, *dim);
  const ValuesAndIndices ordered = sort(x.reshape({-1}));
  UniqueElements made = runs(ordered.values, return_inverse, return_counts);
  if (return_inverse)
    std::get<1>(made) = put_back(std::get<1>(made), ordered.indices).view(x.sizes());
  return made;
}

UniqueElements unique_consecutive(const Tensor& x, bool return_inverse, bool return_counts,
                                  std::optional<std::int64_t> dim) {
  require_real(x, dim ? "unique_dim" : "unique_consecutive");
  if (dim) return runs_of_slices(x, return_inverse, return_counts, *dim);
  UniqueElements made = runs(x.reshape({-1}), return_inverse, return_counts);
  if (return_inverse) std::get<1>(made) = std::get<1>(made).view(x.sizes());
  return made;
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> dim,
                         std::optional<std::int64_t> output_size) {
  if (repeats < 0) throw Error("Repeats must be non-negative");
  const Tensor given = dim ? x : x.reshape({-1});
  const int along = dimension_of(given, dim.value_or(0));
  Shape sizes;
  for (int i = 0; i < given.dim(); ++i) {
    sizes.push_back(given.sizes()[i]);
    if (i == along) sizes.push_back(repeats);
  }
  const Tensor all = given.unsqueeze(along + 1).expand(sizes);
  Shape result = given.sizes();
  if (__builtin_mul_overflow(result[along], repeats, &result[along]))
    throw ValueError("repeat_interleave: more than 2^63 elements along dimension " +
                     std::to_string(along));
  if (output_size.value_or(result[along]) != result[along])
    throw Error("repeat_interleave: Invalid output_size, expected " +
                std::to_string(result[along]) + " but got " + std::to_string(*output_size));
  Tensor made = empty(result, {x.dtype(), x.device()});
  made.view(sizes).copy_(all);
  return made;
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> dim,
                         std::optional<std::int64_t> output_size) {
  ops::require_same_device(x.device(), repeats.device());
  const Tensor given = dim ? x : x.reshape({-1});
  const int along = dimension_of(given, dim.value_or(0));
  const std::int64_t size = given.sizes()[along];
  const bool one = repeats.dim() == 0 || (repeats.dim() == 1 && repeats.numel() == 1);
  if (!one && repeats.dim() == 1 && repeats.numel() != size)
    throw Error("repeats must have the same size as input along dim, but got repeats.size(0) = " +
                std::to_string(repeats.numel()) + " and input.size(" + std::to_string(along) +
                ") = " + std::to_string(size));
  return given.index_select(
      along, sources(one ? repeats.reshape({1}).expand({size}) : repeats, output_size));
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<std::int64_t> output_size) {
  check_repeats_dtype(repeats);
  if (repeats.dim() != 1) throw Error("repeat_interleave only accepts 1D vector as repeat");
  return sources(repeats, output_size);
}

Tensor Tensor::bincount(const Tensor& weights, std::int64_t minlength) const {
  return ember::bincount(*this, weights, minlength);
}
Tensor Tensor::repeat_interleave(std::int64_t repeats, std::optional<std::int64_t> dim) const {
  return ember::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<std::int64_t> dim,
                                 std::optional<std::int64_t> output_size) const {
  return ember::repeat_interleave(*this, repeats, dim, output_size);
}

}  // namespace ember::inline v0
