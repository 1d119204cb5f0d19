#include "ember/ops/sort.h"

#include <algorithm>
#include <array>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/run.h"
#include "ember/ops/sort_args.h"
#include "ember/ops/sort_kernels.h"

namespace ember::inline v0 {
namespace {

/// Where results go: the caller's tensors or new ones, and what lies between if those cannot be
/// written in rows.
class Results {
 public:
  Results(const Tensor& x, int dim, const Shape& sizes, Tensor* values, Tensor* indices)
      : dim_(dim), values_(values), indices_(indices) {
    if (values != nullptr) {
      ops::require_dtype(*values, x.dtype());
      ops::require_dtype(*indices, Dtype::int64);
      ops::require_same_device(x.device(), indices->device());
      ops::require_apart(*values, *indices);
      const std::array<const Tensor*, 1> inputs{&x};
      ops::require_output(*indices, x.device(), sizes, Dtype::int64, inputs);
      ops::prepare_output(*values, x.device(), sizes, x.dtype(), inputs);
      ops::prepare_output(*indices, x.device(), sizes, Dtype::int64, inputs);
      ops::require_no_internal_overlap(*values);
      ops::require_no_internal_overlap(*indices);
    } else {
      made_ = {empty(sizes, {x.dtype(), x.device()}), empty(sizes, {Dtype::int64, x.device()})};
      values_ = &made_.values;
      indices_ = &made_.indices;
    }
    row_values = place(*values_, x);
    row_indices = place(*indices_, x);
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  Tensor row_values;  ///< contiguous, with the dimension last
  Tensor row_indices;

  /// Moves what was written where it belongs.
  void finish() {
    put(*values_, row_values);
    put(*indices_, row_indices);
  }
  ValuesAndIndices made() const { return made_; }

 private:
  Tensor place(const Tensor& out, const Tensor& x) const {
    const bool last = dim_ + 1 >= out.dim();
    if (last && out.is_contiguous() && out.storage() != x.storage()) return out;
    const Tensor turned = last ? out : out.transpose(dim_, -1);
    return empty(turned.sizes(), {out.dtype(), out.device()});
  }
  void put(Tensor& out, const Tensor& rows) const {
    if (rows.is(out)) return;
    out.copy_(dim_ + 1 >= out.dim() ? rows : rows.transpose(dim_, -1));
  }

  int dim_;
  Tensor* values_;
  Tensor* indices_;
  ValuesAndIndices made_;
};

/// The tensor in rows along a dimension, without gaps.
Tensor in_rows(const Tensor& x, int dim) {
  return (dim + 1 >= x.dim() ? x : x.transpose(dim, -1)).contiguous();
}

/// Sorts contiguous rows of n elements.
void sort_rows(const Tensor& values, const Tensor& indices, const Tensor& in, std::int64_t n,
               bool descending) {
  const std::size_t width = in.element_size();
  const std::int64_t rows = in.numel() / n;
  ops::SortArgs args{in.address(),
                     values.address(),
                     indices.address<std::int64_t>(),
                     nullptr,
                     rows,
                     n,
                     ops::key_order(in.dtype(), width, descending)};
  const driver::Kernel& kernel = *ops::sort_kernel(in.dtype());
  const std::array<cuda::Access, 3> accesses{ops::reads(in, "self"), ops::writes_output(values),
                                             ops::writes_output(indices)};
  // As many rows at once as one launch takes.
  const std::int64_t at_once = std::clamp<std::int64_t>(ops::kMaxSorted / n, 1, rows);
  args.rows = at_once;
  const ops::Site site = ops::at(in, values, indices);
  const Tensor scratch = ops::scratch_for(site, kernel, args);
  if (scratch.defined()) args.scratch = scratch.address();
  for (std::int64_t first = 0; first < rows; first += at_once) {
    const auto offset = static_cast<std::size_t>(first * n);
    args.in = static_cast<const std::byte*>(in.address()) + offset * width;
    args.values = static_cast<std::byte*>(values.address()) + offset * width;
    args.indices = indices.address<std::int64_t>() + offset;
    args.rows = std::min(at_once, rows - first);
    ops::run(site, kernel, args, accesses);
  }
}

void topk_rows(const Tensor& values, const Tensor& indices, const Tensor& in, std::int64_t n,
               std::int64_t k, bool largest) {
  if (in.is_cuda() && k > ops::kMaxChosen) {
    const Tensor all_values = empty(in.sizes(), {in.dtype(), in.device()});
    const Tensor all_indices = empty(in.sizes(), {Dtype::int64, in.device()});
    sort_rows(all_values, all_indices, in, n, largest);
    Tensor(values).copy_(all_values.narrow(-1, 0, k));
    Tensor(indices).copy_(all_indices.narrow(-1, 0, k));
    return;
  }
  const std::int64_t rows = in.numel() / n;
  ops::TopkArgs args{in.address(),
                     values.address(),
                     indices.address<std::int64_t>(),
                     nullptr,
                     rows,
                     n,
                     k,
                     ops::key_order(in.dtype(), in.element_size(), largest)};
  const driver::Kernel& kernel = *ops::topk_kernel(in.dtype());
  const ops::Site site = ops::at(in, values, indices);
  const Tensor scratch = ops::scratch_for(site, kernel, args);
  if (scratch.defined()) args.scratch = scratch.address();
  const std::array<cuda::Access, 3> accesses{ops::reads(in, "self"), ops::writes_output(values),
                                             ops::writes_output(indices)};
  ops::run(site, kernel, args, accesses);
}

ValuesAndIndices topk_into(Tensor* values, Tensor* indices, const Tensor& x, std::int64_t k,
                           std::int64_t dim, bool largest) {
  const int along = wrap_dim(dim, x.dim());
  const std::int64_t n = x.dim() == 0 ? 1 : x.sizes()[along];
  if (k < 0 || k > n) throw Error("selected index k out of range");
  if (ops::topk_kernel(x.dtype()) == nullptr) ops::throw_not_implemented("topk", x.dtype());
  Shape sizes = x.sizes();
  if (x.dim() > 0) sizes[along] = k;
  if (x.dim() == 0) k = 1;
  Results results(x, along, sizes, values, indices);
  if (results.row_values.numel() > 0)
    topk_rows(results.row_values, results.row_indices, in_rows(x, along), n, k, largest);
  results.finish();
  return results.made();
}

ValuesAndIndices sort_into(Tensor* values, Tensor* indices, const Tensor& x, std::int64_t dim,
                           bool descending) {
  const int along = wrap_dim(dim, x.dim());
  if (is_unsigned_wide(x.dtype())) ops::throw_not_implemented("sort", x.dtype());
  if (ops::sort_kernel(x.dtype()) == nullptr)
    throw Error(std::string("Sort does not support complex dtypes on ") +
                (x.is_cuda() ? "CUDA" : "CPU"));
  Results results(x, along, x.sizes(), values, indices);
  if (x.numel() > 0)
    sort_rows(results.row_values, results.row_indices, in_rows(x, along),
              x.dim() == 0 ? 1 : x.sizes()[along], descending);
  results.finish();
  return results.made();
}

}  // namespace

ValuesAndIndices topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest, bool) {
  return topk_into(nullptr, nullptr, x, k, dim, largest);
}
void topk_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t k, std::int64_t dim,
              bool largest, bool) {
  static_cast<void>(topk_into(&values, &indices, x, k, dim, largest));
}

ValuesAndIndices sort(const Tensor& x, std::int64_t dim, bool descending, bool) {
  return sort_into(nullptr, nullptr, x, dim, descending);
}
void sort_out(Tensor& values, Tensor& indices, const Tensor& x, std::int64_t dim, bool descending,
              bool) {
  static_cast<void>(sort_into(&values, &indices, x, dim, descending));
}

Tensor argsort(const Tensor& x, std::int64_t dim, bool descending, bool stable) {
  return sort(x, dim, descending, stable).indices;
}
Tensor& argsort_out(Tensor& out, const Tensor& x, std::int64_t dim, bool descending, bool) {
  Tensor values = empty({0}, {x.dtype(), x.device()});
  static_cast<void>(sort_into(&values, &out, x, dim, descending));
  return out;
}

ValuesAndIndices Tensor::topk(std::int64_t k, std::int64_t dim, bool largest, bool sorted) const {
  return ember::topk(*this, k, dim, largest, sorted);
}
ValuesAndIndices Tensor::sort(std::int64_t dim, bool descending, bool stable) const {
  return ember::sort(*this, dim, descending, stable);
}
Tensor Tensor::argsort(std::int64_t dim, bool descending, bool stable) const {
  return ember::argsort(*this, dim, descending, stable);
}

}  // namespace ember::inline v0
