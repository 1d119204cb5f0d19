#include "ember/reduce/median.h"

#include <array>
#include <limits>
#include <string>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/sort.h"
#include "ember/reduce/reduce.h"

namespace ember::inline v0 {
namespace {

void require_numbers(const Tensor& x) {
  if (x.dtype() == Dtype::bool_ || x.is_complex()) ops::throw_not_implemented("median", x.dtype());
}

}  // namespace

ValuesAndIndices median(const Tensor& x, std::int64_t dim, bool keepdim) {
  require_numbers(x);
  const Tensor rows = x.dim() == 0 ? x.view({1}) : x;
  const int along = wrap_dim(dim, rows.dim());
  const std::int64_t size = rows.sizes()[along];
  if (size == 0)
    throw IndexError("median(): Expected reduction dim " + std::to_string(along) +
                     " to have non-zero size.");
  const ValuesAndIndices sorted = sort(rows, along);
  ValuesAndIndices made{sorted.values.narrow(along, (size - 1) / 2, 1),
                        sorted.indices.narrow(along, (size - 1) / 2, 1)};
  if (x.is_floating_point()) {
    // NaN comes last in order, and counts as the largest.
    const ValuesAndIndices largest = max(rows, along, true);
    const Tensor nan = largest.values.isnan();
    made.values = where(nan, largest.values, made.values);
    made.indices = where(nan, largest.indices, made.indices);
  }
  for (Tensor* part : {&made.values, &made.indices})
    *part = keepdim && x.dim() > 0 ? part->clone() : part->squeeze(along).clone();
  return made;
}

void median_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim, bool keepdim) {
  ops::require_apart(values, indices);
  ops::require_dtype(values, x.dtype());
  ops::require_dtype(indices, Dtype::int64);
  const ValuesAndIndices made = median(x, dim, keepdim);
  const std::array<const Tensor*, 1> inputs{&x};
  for (const Tensor* out : {&values, &indices}) {
    ops::require_output(*out, x.device(), made.values.sizes(), out->dtype(), inputs);
    ops::require_no_internal_overlap(*out);
  }
  ops::put_result(values, made.values);
  ops::put_result(indices, made.indices);
}

Tensor median(const Tensor& x) {
  require_numbers(x);
  if (x.numel() > 0) return median(x.reshape({-1}), 0).values;
  if (!x.is_floating_point()) return full({}, std::int64_t{0}, {x.dtype(), x.device()});
  return full({}, std::numeric_limits<double>::quiet_NaN(), {x.dtype(), x.device()});
}

}  // namespace ember::inline v0
