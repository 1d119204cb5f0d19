#include "ember/ops/index.h"

#include <algorithm>
#include <array>
#include <string>

#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/indexed.h"
#include "ember/ops/recorder.h"

namespace ember::inline v0 {
namespace {

using ops::IndexedMove;

/// A number as elements of a dtype have it. Errors of require_fits().
Scalar as_element(const Scalar& number, Dtype dtype) {
  require_fits(number, dtype);
  return with_type(dtype, [&]<class T>() { return Scalar(number.to<T>()); });
}

/// A tensor as the operations see it: one without dimensions has one.
Tensor with_dims(const Tensor& x) { return x.dim() == 0 ? x.unsqueeze(0) : x; }

void require_integer(const Tensor& index, const char* op) {
  if (index.dtype() != Dtype::int64 && index.dtype() != Dtype::int32)
    throw Error(std::string(op) + "(): Expected dtype int32/int64 for index, but got " +
                legacy_name(index.dtype()));
}
/// Where torch takes no int32.
void require_long(const Tensor& index, const char* op) {
  if (index.dtype() != Dtype::int64)
    throw Error(std::string(op) + "(): Expected a long tensor for index, but got " +
                legacy_name(index.dtype()));
}

/// An index as the kernels want it: int64. It lies where the tensor does: only x.index() and
/// x.index_put_() take indices from the CPU.
Tensor placed(const Tensor& index, Device device, const char* op) {
  require_integer(index, op);
  ops::require_same_device(device, index.device());
  return index.to(Dtype::int64);
}

Tensor placed_long(const Tensor& index, Device device, const char* op) {
  require_long(index, op);
  return placed(index, device, op);
}

/// The same where torch does not look at the dtype of an index without elements.
Tensor placed_unless_empty(const Tensor& index, Device device, const char* op) {
  if (index.numel() > 0) return placed(index, device, op);
  ops::require_same_device(device, index.device());
  return index.to(Dtype::int64);
}

void require_vector(const Tensor& index, const char* op) {
  if (index.dim() > 1)
    throw IndexError(std::string(op) + "(): Index is supposed to be a vector, but got dim: " +
                     std::to_string(index.dim()));
}

void require_same_dtype(const Tensor& self, const Tensor& source, const char* op) {
  if (self.dtype() != source.dtype())
    throw Error(std::string(op) + "(): self (" + legacy_name(self.dtype()) + ") and source (" +
                legacy_name(source.dtype()) + ") must have the same scalar type");
}

/// The strides of a tensor in a grid, whose dimension `dim` an index decides about.
Shape without(const Tensor& x, int dim) {
  Shape strides = x.strides();
  strides[dim] = 0;
  return strides;
}

/// A vector of indices in the grid of a tensor: it varies along one dimension.
Shape along(int dims, int dim, const Tensor& index) {
  Shape strides = Shape::repeat(dims, 0);
  strides[dim] = index.dim() == 0 ? 0 : index.strides()[0];
  return strides;
}

/// One number as a source for all positions.
Tensor as_source(const Operand& value, const Tensor& like, const char* op) {
  if (value.tensor() == nullptr) return full({}, value.number(), {like.dtype(), like.device()});
  const Tensor& tensor = *value.tensor();
  if (tensor.dim() != 0)
    throw Error(std::string(op) +
                " only supports a 0-dimensional value tensor, but got tensor with " +
                std::to_string(tensor.dim()) + " dimension(s).");
  if (tensor.is_cuda()) ops::require_same_device(like.device(), tensor.device());
  return tensor.to({like.dtype(), like.device()}, true);
}

struct Selection {
  Tensor x;
  int dim = 0;
  Tensor index;
  Shape sizes;
};

Selection select_along(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const int at = wrap_dim(dim, x.dim());
  require_vector(index, "index_select");
  if (x.dim() == 0 && index.numel() != 1)
    throw Error("index_select(): Index to scalar can have only 1 value, got " +
                std::to_string(index.numel()) + " value(s)");
  Selection made{with_dims(x), at, placed(index, x.device(), "index_select"), {}};
  made.sizes = made.x.sizes();
  made.sizes[at] = index.numel();
  return made;
}

void run_selection(const Tensor& out, const Selection& what) {
  ops::move_indexed(ops::Reads::index_select,
                    {what.sizes, out, with_dims(out).strides(), what.x, without(what.x, what.dim),
                     what.index, along(what.x.dim(), what.dim, what.index),
                     what.x.sizes()[what.dim], what.x.strides()[what.dim], what.dim, false});
}

/// `out`, or a temporary tensor of the right dtype for it, once its shape is right.
Tensor target_for(Tensor& out, const Tensor& x, const Tensor& index, const Shape& sizes) {
  const std::array<const Tensor*, 2> inputs{&x, &index};
  ops::prepare_output(out, x.device(), sizes, x.dtype(), inputs);
  ops::require_no_internal_overlap(out);
  ops::require_no_overlap(out, x);
  ops::require_no_overlap(out, index);
  return out.dtype() == x.dtype() ? out : empty(sizes, {x.dtype(), x.device()});
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Selection what = select_along(x, dim, index);
  Tensor out = empty(x.dim() == 0 ? Shape() : what.sizes, {x.dtype(), x.device()});
  run_selection(out, what);
  return out;
}

Tensor& index_select_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Selection what = select_along(x, dim, index);
  const Tensor target = target_for(out, x, index, x.dim() == 0 ? Shape() : what.sizes);
  run_selection(target, what);
  if (!target.is(out)) out.copy_(target);
  return out;
}

namespace {

struct Gathering {
  Tensor x;
  int dim = 0;
  Tensor index;
};

Gathering gather_along(const Tensor& x, std::int64_t dim, const Tensor& index) {
  Gathering made{with_dims(x), wrap_dim(dim, x.dim()),
                 with_dims(placed_unless_empty(index, x.device(), "gather"))};
  if (index.numel() == 0) return made;  // nothing is looked up, so any shape will do
  if (made.index.dim() != made.x.dim())
    throw Error("Index tensor must have the same number of dimensions as input tensor");
  for (int d = 0; d < made.x.dim(); ++d)
    if (d != made.dim && made.index.sizes()[d] > made.x.sizes()[d])
      throw Error("Size does not match at dimension " + std::to_string(d) + " expected index " +
                  index.sizes().str() + " to be no larger than self " + x.sizes().str() +
                  " apart from dimension " + std::to_string(made.dim));
  return made;
}

void run_gathering(const Tensor& out, const Gathering& what) {
  if (what.index.numel() == 0) return;
  ops::move_indexed(ops::Reads::gather,
                    {what.index.sizes(), out, with_dims(out).strides(), what.x,
                     without(what.x, what.dim), what.index, what.index.strides(),
                     what.x.sizes()[what.dim], what.x.strides()[what.dim], what.dim, false});
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Gathering what = gather_along(x, dim, index);
  Tensor out = empty(index.sizes(), {x.dtype(), x.device()});
  run_gathering(out, what);
  return out;
}

Tensor& gather_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index) {
  const Gathering what = gather_along(x, dim, index);
  const Tensor target = target_for(out, x, index, index.sizes());
  run_gathering(target, what);
  if (!target.is(out)) out.copy_(target);
  return out;
}

namespace {

struct Along {
  Tensor x;
  int dim = 0;
  Tensor indices;  ///< as gather() takes them
};

Along taken_along(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> dim) {
  ops::require_same_device(x.device(), indices.device());
  if (!dim) return {x.reshape({-1}), 0, indices.reshape({-1})};
  if (indices.dtype() != Dtype::int64)
    throw Error(std::string("torch.take_along_dim(): dtype of indices should be Long but got ") +
                legacy_name(indices.dtype()));
  if (indices.dim() != x.dim())
    throw Error(
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
        "got " +
        std::to_string(x.dim()) + " dimensions for input, and " + std::to_string(indices.dim()) +
        " dimensions for indices");
  if (x.dim() == 0)
    throw IndexError("Dimension specified as " + std::to_string(*dim) +
                     " but tensor has no dimensions");
  const int at = wrap_dim(*dim, x.dim());
  Shape own = x.sizes();
  own[at] = 1;
  Shape asked = indices.sizes();
  asked[at] = 1;
  Shape common = broadcast_shapes(own, asked);
  Shape of_x = common;
  of_x[at] = x.sizes()[at];
  common[at] = indices.sizes()[at];
  const std::int64_t size = x.sizes()[at];
  const Tensor wrapped = size == 0 ? indices : indices.remainder(size);
  return {x.expand(of_x), at, wrapped.expand(common)};
}

}  // namespace

Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<std::int64_t> dim) {
  const Along what = taken_along(x, indices, dim);
  return gather(what.x, what.dim, what.indices);
}
Tensor& take_along_dim_out(Tensor& out, const Tensor& x, const Tensor& indices,
                           std::optional<std::int64_t> dim) {
  const Along what = taken_along(x, indices, dim);
  return gather_out(out, what.x, what.dim, what.indices);
}

Tensor take(const Tensor& x, const Tensor& index) {
  const Tensor at = placed_long(index, x.device(), "take");
  const Tensor row = x.reshape({-1});
  if (row.numel() == 0 && index.numel() > 0)
    throw IndexError("take(): tried to take from an empty tensor");
  Tensor out = empty(index.sizes(), {x.dtype(), x.device()});
  ops::move_indexed(ops::Reads::take,
                    {at.sizes(), out, out.strides(), row, Shape::repeat(at.dim(), 0), at,
                     at.strides(), row.numel(), row.strides()[0], 0, true});
  return out;
}

namespace {

/// What scatter_ and scatter_add_ ask of their arguments.
struct Scattering {
  Tensor self;
  int dim = 0;
  Tensor index;
  Tensor source;
  Shape source_strides;

  IndexedMove move() const {
    return {index.sizes(),
            self,
            without(self, dim),
            source,
            source_strides,
            index,
            index.strides(),
            self.sizes()[dim],
            self.strides()[dim],
            dim,
            false};
  }
};

Scattering scatter_along(const Tensor& self, std::int64_t dim, const Tensor& index,
                         const Operand& source, const char* op) {
  Scattering made;
  made.self = with_dims(self);
  made.dim = wrap_dim(dim, self.dim());
  made.index = with_dims(placed_unless_empty(index, self.device(), op));
  const bool tensor = source.tensor() != nullptr;
  if (tensor) {
    ops::require_same_device(self.device(), source.tensor()->device());
    if (source.tensor()->dtype() != self.dtype())
      throw Error(std::string(op) + "(): Expected self.dtype to be equal to src.dtype");
    made.source = with_dims(*source.tensor());
    made.source_strides = made.source.strides();
  }
  ops::require_no_internal_overlap(self);
  if (index.numel() == 0) return made;
  if (made.index.dim() != made.self.dim())
    throw Error("Index tensor must have the same number of dimensions as self tensor");
  if (tensor && made.index.dim() != made.source.dim())
    throw Error("Index tensor must have the same number of dimensions as src tensor");
  bool fits = true;
  for (int d = 0; d < made.self.dim(); ++d) {
    fits = fits && (d == made.dim || made.index.sizes()[d] <= made.self.sizes()[d]);
    fits = fits && (!tensor || made.index.sizes()[d] <= made.source.sizes()[d]);
  }
  if (!fits)
    throw Error("Expected index " + index.sizes().str() + " to be no larger than self " +
                self.sizes().str() + " apart from dimension " + std::to_string(made.dim) +
                (tensor ? " and to be no larger size than src " + source.tensor()->sizes().str()
                        : std::string()));
  ops::require_no_overlap(self, index);
  if (tensor) {
    ops::require_no_overlap(self, *source.tensor());
  } else {
    made.source = as_source(source, self, op);
    made.source_strides = Shape::repeat(made.index.dim(), 0);
  }
  return made;
}

}  // namespace

Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Operand& source) const {
  const Scattering what = scatter_along(*this, dim, index, source, "scatter");
  if (index.numel() > 0) ops::move_indexed(ops::Writes::scatter, what.move());
  return self();
}

Tensor& Tensor::scatter_(std::int64_t dim, const Tensor& index, const Operand& source,
                         std::string_view reduce) const {
  if (reduce != "add" && reduce != "multiply")
    throw Error("reduce argument must be either add or multiply, got '" + std::string(reduce) +
                "'");
  const Scattering what = scatter_along(*this, dim, index, source, "scatter");
  if (index.numel() == 0) return self();
  ops::move_indexed(reduce == "add" ? ops::Combines::scatter_add : ops::Combines::scatter_multiply,
                    what.move());
  return self();
}

Tensor& Tensor::scatter_add_(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  const Scattering what = scatter_along(*this, dim, index, source, "scatter_add");
  if (index.numel() > 0) ops::move_indexed(ops::Combines::scatter_add, what.move());
  return self();
}

namespace {

/// The move of index_add_, index_copy_ and index_fill_: slices of self along a dimension, and a
/// source of the same shape but for as many slices as there are indices.
IndexedMove slices(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                   const Shape& sizes, const Shape& source_strides, bool wrap) {
  const Tensor x = with_dims(self);
  return {sizes,
          x,
          without(x, dim),
          source,
          source_strides,
          index,
          along(x.dim(), dim, index),
          x.sizes()[dim],
          x.strides()[dim],
          dim,
          wrap};
}

/// The sizes of a tensor's slices along a dimension.
Shape slice_sizes(const Tensor& x, int dim) {
  Shape sizes;
  for (int d = 0; d < x.dim(); ++d)
    if (d != dim) sizes.push_back(x.sizes()[d]);
  return sizes;
}

/// torch's checks of index_add_, in its order. They are other ones than those of index_copy_.
void require_addable(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  require_vector(index, "index_add_");
  require_integer(index, "index_add_");
  require_same_dtype(self, source, "index_add_");
  if (dim > 0 && dim >= source.dim())
    throw Error("index_add_(): Indexing dim " + std::to_string(dim) +
                " is out of bounds of the source tensor with dim " + std::to_string(source.dim()));
  const std::int64_t given = source.dim() == 0 ? 1 : source.sizes()[dim];
  if (given != index.numel()) {
    if (source.dim() == 0)
      throw IndexError("Dimension specified as 0 but tensor has no dimensions");
    throw Error("index_add_(): Number of indices (" + std::to_string(index.numel()) +
                ") should be equal to source.size(dim): (" + std::to_string(given) +
                "), for dim: " + std::to_string(dim));
  }
  const bool sliced = self.dim() > 0 && source.dim() > 0;
  if (sliced ? slice_sizes(self, dim) != slice_sizes(source, dim) : self.sizes() != source.sizes())
    throw Error(
        "source tensor shape must match self tensor shape, excluding the specified dimension. "
        "Got self.shape = " +
        self.sizes().str() + " source.shape = " + source.sizes().str());
}

void require_copyable(const Tensor& self, int dim, const Tensor& index, const Tensor& source) {
  if (index.dim() > 1)
    throw IndexError("index_copy_(): Index should have dimension 1 or 0 (got " +
                     std::to_string(index.dim()) + ")");
  if (source.dim() == 0 && index.numel() != 1)
    throw IndexError("index_copy_(): When source is scalar, index should have one element (got " +
                     std::to_string(index.numel()) + ")");
  if (source.dim() != self.dim() && source.dim() != 0 && self.dim() != 0)
    throw IndexError(
        "index_copy_(): When source and destination are not scalars, their dimensionality must "
        "match. Source dimensionality (" +
        std::to_string(source.dim()) + "), destination dimensionality (" +
        std::to_string(self.dim()) + ")");
  require_long(index, "index_copy_");
  require_same_dtype(self, source, "index_copy_");
  if (slice_sizes(self, dim) != slice_sizes(source, dim))
    throw Error("index_copy_(): Source/destination tensor must have same slice shapes. Got " +
                self.sizes().str() + " and " + source.sizes().str() + " at dimension " +
                std::to_string(dim));
  if (source.dim() > 0 && source.sizes()[dim] != index.numel())
    throw IndexError("index_copy_(): Number of indices (" + std::to_string(index.numel()) +
                     ") should be equal to source.size(dim) (" +
                     std::to_string(source.sizes()[dim]) + ")");
}

IndexedMove slices_from(const Tensor& self, int dim, const Tensor& index, const Tensor& given,
                        const char* op) {
  ops::require_same_device(self.device(), given.device());
  const Tensor source = with_dims(given);
  const Tensor places = placed(index, self.device(), op);
  ops::require_no_internal_overlap(self);
  ops::require_no_overlap(self, index);
  ops::require_no_overlap(self, given);
  return slices(self, dim, places, source, source.sizes(), source.strides(), false);
}

}  // namespace

Tensor& Tensor::index_add_(std::int64_t dim, const Tensor& index, const Tensor& source,
                           const Scalar& alpha) const {
  const int at = wrap_dim(dim, this->dim());
  require_addable(*this, at, index, source);
  IndexedMove move = slices_from(*this, at, index, source, "index_add_");
  if (alpha.dtype() != Dtype::int64 || alpha.to<std::int64_t>() != 1) {
    if (!can_cast(alpha.dtype(), dtype()) && dtype() != Dtype::bool_)
      throw Error(
          "For integral input tensors, argument alpha must not be a floating point number.");
    move.source = move.source.mul(as_element(alpha, dtype()));
    move.source_strides = move.source.strides();
  }
  ops::move_indexed(ops::Combines::index_add, move);
  return self();
}

Tensor& Tensor::index_copy_(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  const int at = wrap_dim(dim, this->dim());
  require_copyable(*this, at, index, source);
  ops::move_indexed(ops::Writes::index_copy, slices_from(*this, at, index, source, "index_copy_"));
  return self();
}

Tensor& Tensor::index_fill_(std::int64_t dim, const Tensor& index, const Operand& value) const {
  if (value.tensor() != nullptr && value.tensor()->dim() != 0)
    throw Error("index_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                std::to_string(value.tensor()->dim()) + " dimension(s).");
  if (is_complex_dtype(ops::operand_dtype(value)) && !is_complex())
    throw Error("index_fill_(): Converting complex Scalar to non-complex type is not supported");
  const int at = wrap_dim(dim, this->dim());
  if (index.dim() > 1)
    throw Error("index_fill_(): Index has to be a vector/scalar, but got dim: " +
                std::to_string(index.dim()));
  if (index.dtype() != Dtype::int64)
    throw IndexError("index_fill_(): Expected dtype int64 for index.");
  const Tensor places = placed(index, device(), "index_fill_");
  ops::require_no_internal_overlap(*this);
  ops::require_no_overlap(*this, index);
  const Tensor source = ops::one_value(value, *this);
  Shape sizes = with_dims(*this).sizes();
  sizes[at] = index.numel();
  ops::move_indexed(ops::Writes::index_fill,
                    slices(*this, at, places, source, sizes, Shape::repeat(sizes.size(), 0), true));
  return self();
}

Tensor& Tensor::put_(const Tensor& index, const Tensor& source, bool accumulate) const {
  require_same_dtype(*this, source, "put_");
  ops::require_same_device(device(), source.device());
  const Tensor places = placed_long(index, device(), "put_");
  if (index.numel() != source.numel())
    throw IndexError(
        "put_(): Expected source and index to have the same number of elements, but got "
        "source.numel() = " +
        std::to_string(source.numel()) + ", index.numel() = " + std::to_string(index.numel()));
  ops::require_no_internal_overlap(*this);
  ops::require_no_overlap(*this, index);
  ops::require_no_overlap(*this, source);
  // One row over all elements: a copy where there is no such view.
  const Tensor row = is_contiguous() ? view({-1}) : contiguous().view({-1});
  const Tensor at = places.reshape({-1});
  const Tensor from = source.reshape({-1});
  const IndexedMove move{at.sizes(),  row, {0}, from, from.strides(), at, at.strides(),
                         row.numel(), 1,   0,   true};
  if (accumulate)
    ops::move_indexed(ops::Combines::put, move);
  else
    ops::move_indexed(ops::Writes::put, move);
  if (!is_contiguous()) copy_(row.view(sizes()));
  return self();
}

namespace {

/// x with the value where the mask is true, into `out`.
void fill_masked(Tensor& out, const Tensor& x, const Tensor& mask, const Operand& value) {
  if (mask.dtype() != Dtype::bool_)
    throw Error(std::string("masked_fill_ only supports boolean masks, but got mask with dtype ") +
                legacy_name(mask.dtype()));
  if (value.tensor() != nullptr && value.tensor()->dim() != 0)
    throw Error("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                std::to_string(value.tensor()->dim()) + " dimension(s).");
  ops::require_same_device(x.device(), mask.device());
  const Tensor chosen = mask.expand(out.sizes());
  if (value.tensor() != nullptr && value.tensor()->is_cuda()) {
    where_out(out, chosen, ops::one_value(value, x), x);
    return;
  }
  // A number needs no memory.
  const Scalar number = value.tensor() == nullptr ? value.number() : ops::value_of(*value.tensor());
  where_out(out, chosen, as_element(number, x.dtype()), x);
}

}  // namespace

Tensor& Tensor::masked_fill_(const Tensor& mask, const Operand& value) const {
  ops::require_no_internal_overlap(*this);
  fill_masked(self(), *this, mask, value);
  return self();
}

Tensor ops::one_value(const Operand& value, const Tensor& like) {
  const Options options{like.dtype(), like.device()};
  const Tensor* tensor = value.tensor();
  if (tensor == nullptr || !tensor->is_cuda()) {
    const Scalar number = tensor == nullptr ? value.number() : ops::value_of(*tensor);
    require_fits(number, like.dtype());
    return full({}, number, options);
  }
  require_same_device(like.device(), tensor->device());
  if (tensor->is_complex() && !like.is_complex() && like.dtype() != Dtype::bool_)
    throw Error(std::string("value: expected a real number for a tensor of ") +
                dtype_name(like.dtype()) +
                ", but got a complex tensor on a device, whose number is not looked at");
  // An element of `like` itself may be about to change.
  return tensor->reshape({}).to(options, true, tensor->storage() == like.storage());
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& source) {
  return x.clone().scatter_(dim, index, source);
}
Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& source,
               std::string_view reduce) {
  return x.clone().scatter_(dim, index, source, reduce);
}
Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return x.clone().scatter_add_(dim, index, source);
}
Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                 const Scalar& alpha) {
  return x.clone().index_add_(dim, index, source, alpha);
}
Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  return x.clone().index_copy_(dim, index, source);
}
namespace {

/// Puts a result of x's dtype into an output that shares no memory with an index or a source.
template <class Result>
Tensor& put_apart(Tensor& out, const Tensor& x, const Tensor& index, const Tensor* source,
                  const Result& result) {
  ops::require_dtype(out, x.dtype());
  ops::require_no_overlap(out, index);
  if (source != nullptr) ops::require_no_overlap(out, *source);
  return ops::put_result(out, result());
}

}  // namespace

Tensor& take_out(Tensor& out, const Tensor& x, const Tensor& index) {
  return put_apart(out, x, index, &x, [&] { return take(x, index); });
}
Tensor& scatter_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                    const Operand& source) {
  return put_apart(out, x, index, source.tensor(), [&] { return scatter(x, dim, index, source); });
}
Tensor& scatter_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                    const Operand& source, std::string_view reduce) {
  return put_apart(out, x, index, source.tensor(),
                   [&] { return scatter(x, dim, index, source, reduce); });
}
Tensor& scatter_add_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                        const Tensor& source) {
  return put_apart(out, x, index, &source, [&] { return scatter_add(x, dim, index, source); });
}
Tensor& index_add_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                      const Tensor& source, const Scalar& alpha) {
  return put_apart(out, x, index, &source, [&] { return index_add(x, dim, index, source, alpha); });
}
Tensor& index_copy_out(Tensor& out, const Tensor& x, std::int64_t dim, const Tensor& index,
                       const Tensor& source) {
  return put_apart(out, x, index, &source, [&] { return index_copy(x, dim, index, source); });
}

Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, const Operand& value) {
  return x.clone().index_fill_(dim, index, value);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  const Shape sizes = broadcast_shapes(x.sizes(), mask.sizes());
  // Contiguous, whatever x is, as torch has it.
  Tensor made = empty(sizes, {x.dtype(), x.device()});
  fill_masked(made, x, mask, value);
  return made;
}

Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return ember::index_select(*this, dim, index);
}
Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const {
  return ember::gather(*this, dim, index);
}
Tensor Tensor::take(const Tensor& index) const { return ember::take(*this, index); }
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, const Operand& source) const {
  return ember::scatter(*this, dim, index, source);
}
Tensor Tensor::scatter(std::int64_t dim, const Tensor& index, const Operand& source,
                       std::string_view reduce) const {
  return ember::scatter(*this, dim, index, source, reduce);
}
Tensor Tensor::scatter_add(std::int64_t dim, const Tensor& index, const Tensor& source) const {
  return ember::scatter_add(*this, dim, index, source);
}
Tensor Tensor::masked_fill(const Tensor& mask, const Operand& value) const {
  return ember::masked_fill(*this, mask, value);
}

}  // namespace ember::inline v0
