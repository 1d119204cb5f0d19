#include "ember/ops/indexing.h"

#include <cmath>
#include <string>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/indexed.h"
#include "ember/ops/recorder.h"
#include "ember/ops/select.h"

namespace ember::inline v0 {
namespace {

using ops::IndexedMove;

bool is_mask(const Tensor& tensor) {
  return tensor.dtype() == Dtype::bool_ || tensor.dtype() == Dtype::uint8;
}

/// The places where a mask is true: one index vector for each of its dimensions, on `device`. They
/// are looked for where the mask is.
std::vector<Tensor> true_places(const Tensor& mask, Device device) {
  return nonzero(mask).to(device, true).unbind(1);
}

/// A tensor after its integers and slices, with what index tensors there are for its dimensions.
struct Parsed {
  Tensor view;
  std::vector<Tensor> index;  ///< undefined where a dimension is taken whole; int64
  bool advanced = false;
};

int dims_used(const Index& item) {
  switch (item.kind()) {
    case Index::Kind::integer:
    case Index::Kind::slice: return 1;
    case Index::Kind::tensor: return is_mask(item.tensor()) ? item.tensor().dim() : 1;
    default: return 0;
  }
}

class Parser {
 public:
  explicit Parser(const Tensor& x) : original_(x) { made_.view = x.alias(); }

  Parsed parse(std::span<const Index> items) && {
    int used = 0;
    for (const Index& item : items) used += dims_used(item);
    if (used > original_.dim())
      throw IndexError("too many indices for tensor of dimension " +
                       std::to_string(original_.dim()));
    rest_ = original_.dim() - used;
    for (const Index& item : items) apply(item);
    made_.index.resize(static_cast<std::size_t>(made_.view.dim()));
    return std::move(made_);
  }

 private:
  void apply(const Index& item) {
    switch (item.kind()) {
      case Index::Kind::integer: select(item.integer()); return;
      case Index::Kind::boolean: {
        make_dim();
        index_next(item.integer() != 0 ? zeros({1}, Dtype::int64) : empty({0}, Dtype::int64));
        return;
      }
      case Index::Kind::slice: {
        const Slice& slice = item.slice();
        made_.view = made_.view.slice(at_, slice.start, slice.stop, slice.step);
        whole();
        ++real_;
        return;
      }
      case Index::Kind::none:
        make_dim();
        whole();
        return;
      case Index::Kind::ellipsis:
        for (int d = 0; d < rest_; ++d) whole();
        real_ += rest_;
        rest_ = 0;
        return;
      case Index::Kind::tensor: apply_tensor(item.tensor()); return;
    }
  }

  void apply_tensor(const Tensor& tensor) {
    if (tensor.dim() == 0 && is_integral(tensor.dtype(), false) && !is_mask(tensor)) {
      const Scalar place = ops::value_of(tensor);  // wherever it is: a view needs it on the host
      require_fits(place, Dtype::int64);
      return select(place.to<std::int64_t>());
    }
    if (tensor.is_cuda() && tensor.device() != original_.device())
      throw Error("indices should be either on cpu or on the same device as the indexed tensor (" +
                  original_.device().str() + ")");
    if (is_mask(tensor)) {
      if (tensor.dtype() == Dtype::uint8 && tensor.dim() > 0)
        warn(Warning::user,
             "An index of dtype uint8 is taken for a mask, which is deprecated: make it bool.");
      for (int d = 0; d < tensor.dim(); ++d)
        if (tensor.sizes()[d] != made_.view.sizes()[at_ + d])
          throw IndexError("The shape of the mask " + tensor.sizes().str() + " at index " +
                           std::to_string(d) + " does not match the shape of the indexed tensor " +
                           original_.sizes().str() + " at index " + std::to_string(real_ + d));
      if (tensor.dim() == 0) {
        make_dim();
        index_next(tensor.item<bool>() ? zeros({1}, Dtype::int64) : empty({0}, Dtype::int64));
        return;
      }
      for (const Tensor& places : true_places(tensor, original_.device())) index_next(places);
      real_ += tensor.dim();
      return;
    }
    if (tensor.dtype() != Dtype::int64 && tensor.dtype() != Dtype::int32)
      throw IndexError("tensors used as indices must be long, int, byte or bool tensors");
    index_next(tensor);
    ++real_;
  }

  void select(std::int64_t index) {
    const std::int64_t size = made_.view.sizes()[at_];
    if (index < -size || index >= size)
      throw IndexError("index " + std::to_string(index) + " is out of bounds for dimension " +
                       std::to_string(real_) + " with size " + std::to_string(size));
    made_.view = made_.view.select(at_, index);
    ++real_;
  }

  void make_dim() { made_.view = made_.view.unsqueeze(at_); }
  void whole() {
    made_.index.emplace_back();
    ++at_;
  }
  void index_next(const Tensor& index) {
    // From ordinary memory of the host it is a copy that blocks, as chapter 16 has it.
    const bool non_blocking = index.is_cuda() || index.is_pinned();
    made_.index.push_back(index.to({Dtype::int64, original_.device()}, non_blocking));
    made_.advanced = true;
    ++at_;
  }

  const Tensor& original_;
  Parsed made_;
  int rest_ = 0;  ///< dimensions that an ellipsis stands for
  int at_ = 0;    ///< the view's next dimension
  int real_ = 0;  ///< the dimension of the original that it is
};

/// An index with tensors as one move between a view and a tensor of the result's shape.
struct Advanced {
  Tensor view;       ///< its indexed dimensions are beside each other
  int first = 0;     ///< where they begin
  int count = 0;     ///< how many they are
  Shape common;      ///< of the index tensors; at least one dimension
  Shape sizes;       ///< of the result
  IndexedMove move;  ///< all but target and source, between which `grid` strides lie

  /// A tensor of the result's shape in the grid: the common dimensions are one.
  Shape grid(const Tensor& result) const {
    Shape strides;
    for (int d = 0; d < first; ++d) strides.push_back(result.strides()[d]);
    strides.push_back(result.strides()[first + common.size() - 1]);
    for (int d = first + common.size(); d < result.dim(); ++d)
      strides.push_back(result.strides()[d]);
    return strides;
  }
};

std::string shapes_of(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) text += (text.empty() ? "" : ", ") + tensor.sizes().str();
  return text;
}

Shape common_shape(const std::vector<Tensor>& index) {
  Shape common;
  bool any = false;
  for (const Tensor& tensor : index) {
    if (!tensor.defined()) continue;
    try {
      common = any ? broadcast_shapes(common, tensor.sizes()) : tensor.sizes();
    } catch (const Error&) {
      throw IndexError(
          "shape mismatch: indexing tensors could not be broadcast together with shapes " +
          shapes_of(index));
    }
    any = true;
  }
  return common;
}

Advanced prepare(const Parsed& parsed) {
  Advanced made;
  made.common = common_shape(parsed.index);
  // The dimensions with index tensors: in their place if they lie beside each other, else first.
  Shape indexed;
  Shape others;
  for (int d = 0; d < parsed.view.dim(); ++d)
    (parsed.index[static_cast<std::size_t>(d)].defined() ? indexed : others).push_back(d);
  made.count = indexed.size();
  const bool beside = indexed.back() - indexed[0] + 1 == made.count;
  made.first = beside ? static_cast<int>(indexed[0]) : 0;
  Shape order;
  for (int i = 0; i < made.first; ++i) order.push_back(others[i]);
  for (const std::int64_t d : indexed) order.push_back(d);
  for (int i = made.first; i < others.size(); ++i) order.push_back(others[i]);
  made.view = parsed.view.permute(order);

  // The result's shape, and the grid's, in which all common dimensions are one.
  Shape grid;
  Shape strides;
  for (int i = 0; i < others.size() + 1; ++i) {
    if (i == made.first) {
      for (const std::int64_t size : made.common) made.sizes.push_back(size);
      grid.push_back(element_count(made.common));
      strides.push_back(0);
    }
    if (i == others.size()) break;
    const int d = static_cast<int>(others[i]);
    made.sizes.push_back(parsed.view.sizes()[d]);
    grid.push_back(parsed.view.sizes()[d]);
    strides.push_back(parsed.view.strides()[d]);
  }
  IndexedMove& move = made.move;
  move.sizes = grid;
  move.target_strides = move.source_strides = strides;  // of the view; the caller replaces one
  move.index_strides = Shape::repeat(grid.size(), 0);
  move.index_strides[made.first] = 1;

  const auto at = [&](int i) {
    return parsed.index[static_cast<std::size_t>(indexed[i])].contiguous();
  };
  const auto size = [&](int i) { return made.view.sizes()[made.first + i]; };
  const auto stride = [&](int i) { return made.view.strides()[made.first + i]; };
  if (element_count(made.common) > 0)
    for (int i = 0; i < made.count; ++i)
      if (size(i) == 0) throw IndexError("index is out of bounds for dimension with size 0");
  move.dim = static_cast<int>(indexed[0]);
  if (made.count == 1) {
    move.index = at(0);
    move.limit = size(0);
    move.step = stride(0);
    move.wrap = true;
    return made;
  }
  // Several indices become one, in elements from the first.
  move.limit = 1;
  move.step = 1;
  for (int i = 0; i < made.count; ++i) {
    const Tensor offsets =
        ops::index_offsets(at(i), size(i), stride(i), static_cast<int>(indexed[i]));
    move.index = i == 0 ? offsets : move.index.add(offsets);
    move.limit += (size(i) - 1) * stride(i);
  }
  move.index = move.index.expand(made.common).contiguous();
  return made;
}

/// Whether one mask chooses, and nothing else does.
bool one_mask_chooses(std::span<const Index> items) {
  bool found = false;
  for (const Index& item : items) {
    if (item.kind() != Index::Kind::tensor) continue;
    if (found || !is_mask(item.tensor())) return false;
    found = true;
  }
  return found;
}

/// The value to write, as a tensor that broadcasts to the result; its dtype is the target's.
/// Behind a mask a single element is a number, which gets the dtype as in masked_fill_.
Tensor as_values(const Operand& value, const Tensor& self, std::span<const Index> items) {
  if (value.tensor() == nullptr || (value.tensor()->numel() == 1 && one_mask_chooses(items)))
    return ops::one_value(value, self);
  const Tensor& tensor = *value.tensor();
  if (tensor.dtype() != self.dtype())
    throw Error(std::string("Index put requires the source and destination dtypes match, got ") +
                legacy_name(self.dtype()) + " for the destination and " +
                legacy_name(tensor.dtype()) + " for the source.");
  if (tensor.dim() > 0 || tensor.is_cuda())
    ops::require_same_device(self.device(), tensor.device());
  return tensor.to(self.device(), true);
}

/// A mask of the tensor's shape and nothing else: null if the index is anything else.
const Tensor* only_mask(const Tensor& self, std::span<const Index> items) {
  if (items.size() != 1 || items[0].kind() != Index::Kind::tensor) return nullptr;
  const Tensor& mask = items[0].tensor();
  const bool near = !mask.is_cuda() || mask.device() == self.device();
  return near && mask.dtype() == Dtype::bool_ && mask.sizes() == self.sizes() ? &mask : nullptr;
}

/// A number that is assigned to 16-bit floats is infinite if it is too large for them, as in torch;
/// fill_() refuses it, and so do other dtypes.
Scalar assigned(const Scalar& number, Dtype dtype) {
  const bool half = dtype == Dtype::float16 || dtype == Dtype::bfloat16;
  if (!half || is_complex_dtype(number.dtype())) return number;
  const auto wide = number.to<double>();
  const double stored = dtype == Dtype::float16 ? convert<double>(convert<Half>(wide))
                                                : convert<double>(convert<BFloat16>(wide));
  return std::isinf(stored) ? Scalar(stored) : number;
}

}  // namespace

Tensor Tensor::index(std::span<const Index> items) const {
  const Tensor* mask = only_mask(*this, items);
  if (mask != nullptr && mask->device() == device()) return masked_select(*mask);
  const Parsed parsed = Parser(*this).parse(items);
  if (!parsed.advanced) return parsed.view;
  Advanced what = prepare(parsed);
  Tensor out = empty(what.sizes, {dtype(), device()});
  what.move.target = out;
  what.move.target_strides = what.grid(out);
  what.move.source = what.view;
  ops::move_indexed(ops::Reads::index, what.move);
  return out;
}

Tensor& Tensor::index_put_(std::span<const Index> items, const Operand& given,
                           bool accumulate) const {
  const Operand value =
      given.tensor() != nullptr || accumulate ? given : Operand(assigned(given.number(), dtype()));
  // A single bool: nothing, or everything behind a new dimension, which is a view.
  if (items.size() == 1 && items[0].kind() == Index::Kind::boolean) {
    if (items[0].integer() != 0) return index_put_({None}, value, accumulate);
    if (value.tensor() == nullptr) static_cast<void>(ops::one_value(value, *this));
    return self();
  }
  const Tensor* mask = only_mask(*this, items);
  const bool one = value.tensor() == nullptr || value.tensor()->numel() == 1;
  if (mask != nullptr && one && !accumulate)
    return masked_fill_(mask->to(device(), true),
                        value.tensor() == nullptr ? value : Operand(ops::one_value(value, *this)));
  Parsed parsed = Parser(*this).parse(items);
  if (!parsed.advanced) {
    if (accumulate) {
      parsed.view.add_(value);
    } else if (value.tensor() == nullptr) {
      ops::require_no_internal_overlap(parsed.view);  // fill_() allows it, assignment never does
      parsed.view.fill_(value.number());
    } else {
      // Leading dimensions of one are no reason to refuse a value.
      Tensor source = *value.tensor();
      while (source.dim() > parsed.view.dim() && source.sizes()[0] == 1) source = source.squeeze(0);
      // A part of the target for all of it: the part may be written before it is read.
      if (source.sizes() != parsed.view.sizes() && ops::overlap(parsed.view, source))
        source = source.clone();
      parsed.view.copy_(source);
    }
    return self();
  }
  Tensor values = as_values(value, *this, items);
  ops::require_no_internal_overlap(*this);
  if (value.tensor() != nullptr) ops::require_no_overlap(*this, *value.tensor());
  for (const Index& item : items)
    if (item.kind() == Index::Kind::tensor) ops::require_no_overlap(*this, item.tensor());
  Advanced what = prepare(parsed);
  while (values.dim() > what.sizes.size() && values.sizes()[0] == 1) values = values.squeeze(0);
  try {
    values = values.expand(what.sizes);
  } catch (const Error&) {
    throw Error("shape mismatch: value tensor of shape " + values.sizes().str() +
                " cannot be broadcast to indexing result of shape " + what.sizes.str());
  }
  // The common dimensions are one of the grid: a value that has no such view is copied.
  Shape flat;
  for (int d = 0; d < what.first; ++d) flat.push_back(what.sizes[d]);
  flat.push_back(element_count(what.common));
  for (int d = what.first + what.common.size(); d < what.sizes.size(); ++d)
    flat.push_back(what.sizes[d]);
  if (element_count(flat) == 0) return self();
  values = values.reshape(flat);
  what.move.target = what.view;
  what.move.source = values;
  what.move.source_strides = values.strides();
  if (accumulate)
    ops::move_indexed(ops::Combines::index_put, what.move);
  else
    ops::move_indexed(ops::Writes::index_put, what.move);
  return self();
}

std::vector<Tensor> where(const Tensor& condition) {
  return nonzero(condition.dim() == 0 ? condition.unsqueeze(0) : condition).unbind(1);
}

Tensor Tensor::index(std::initializer_list<Index> items) const {
  return index(std::span(items.begin(), items.size()));
}
Tensor& Tensor::index_put_(std::initializer_list<Index> items, const Operand& value,
                           bool accumulate) const {
  return index_put_(std::span(items.begin(), items.size()), value, accumulate);
}

}  // namespace ember::inline v0
