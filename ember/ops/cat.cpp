#include "ember/ops/cat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "ember/base/error.h"
#include "ember/driver/extent.h"
#include "ember/driver/kernels.h"
#include "ember/ops/cat_args.h"
#include "ember/ops/checks.h"
#include "ember/ops/factories.h"
#include "ember/ops/plan.h"
#include "ember/ops/run.h"
#include "ember/tensor/views.h"

namespace ember::inline v0 {
namespace ops {
namespace {

template <int unit>
Status cat_host(const driver::Params& params, const driver::HostLaunch& on) {
  const auto& args = params.as<CatArgs>();
  const auto size = [](std::int64_t units) { return static_cast<std::size_t>(units * unit); };
  const CatPart* parts = args.inputs(on);
  const std::int64_t end = parts[args.count - 1].end;
  auto* out = driver::Extent()
                  .add(args.rows, args.pitch)
                  .add(end - args.begin, 1)
                  .place(on, static_cast<std::byte*>(args.out) + size(args.begin), unit);
  if (out == nullptr) return on.fault();
  out -= size(args.begin);
  std::int64_t begin = args.begin;
  for (std::int64_t i = 0; i < args.count; ++i) {
    const CatPart& part = parts[i];
    const std::int64_t length = part.end - begin;
    const std::int64_t own_rows = args.rows * length / part.columns;
    const auto* in = driver::Extent()
                         .add(own_rows, part.pitch)
                         .add(part.columns, 1)
                         .place(on, static_cast<const std::byte*>(part.data), unit);
    if (in == nullptr) return on.fault();
    std::int64_t column = 0;
    for (std::int64_t row = 0; row < args.rows; ++row)
      for (std::int64_t done = 0; done < length;) {
        const std::int64_t run = std::min(length - done, part.columns - column);
        auto* const to = out + size(row * args.pitch + begin + done);
        if (run == 1)  // is no call
          std::memcpy(to, in + size(column), unit);
        else
          std::memcpy(to, in + size(column), size(run));
        done += run;
        column += run;
        if (column == part.columns) {
          in += size(part.pitch);
          column = 0;
        }
      }
    begin = part.end;
  }
  return {};
}

constinit driver::Kernel cat_kernels[] = {
    {"cat.1", &cat_host<1>, nullptr},   {"cat.2", &cat_host<2>, nullptr},
    {"cat.4", &cat_host<4>, nullptr},   {"cat.8", &cat_host<8>, nullptr},
    {"cat.16", &cat_host<16>, nullptr},
};
const driver::kernels::Table cat_table(cat_kernels, driver::arguments<CatArgs>());

/// log2 of the bytes of the widest unit that addresses and a number of bytes are multiples of.
int widest_unit(std::initializer_list<const void*> addresses, std::int64_t bytes) {
  auto all = static_cast<std::uintptr_t>(bytes) | 16U;
  for (const void* address : addresses) all |= reinterpret_cast<std::uintptr_t>(address);
  return std::countr_zero(all);
}

/// The elements of a tensor in their order, as rows of bytes, without an end; none if they lie
/// otherwise.
std::optional<CatPart> rows_of(const Tensor& x) {
  const auto item = static_cast<std::int64_t>(x.element_size());
  if (x.is_contiguous()) return CatPart{x.address(), 0, x.numel() * item, 0};
  const Shape in_order = contiguous_strides(x.sizes());
  const std::array operands{PlanOperand{nullptr, &x.sizes(), &in_order, x.element_size()},
                            memory_of(x)};
  const Dims dims = merge_dims(x.sizes(), operands);
  const auto& stride = dims.stride[1];
  if (dims.count == 1) return CatPart{x.address(), 0, item, stride[0] * item};
  if (dims.count > 2 || stride[0] != 1) return std::nullopt;
  return CatPart{x.address(), 0, dims.size[0] * item, stride[1] * item};
}

/// Collects inputs that lie next to each other in the output, and moves them in few launches.
class Batch {
 public:
  /// Rows of the output, which is contiguous, have `pitch` bytes.
  Batch(const Tensor& out, std::int64_t row_count, std::int64_t pitch)
      : out_(out), rows_(row_count), pitch_(pitch) {}

  /// The input fills `length` bytes from `begin` of each row of the output. False if it has to be
  /// copied, once what came before has been moved.
  bool add(const Tensor& input, std::int64_t begin, std::int64_t length) {
    if (input.dtype() != out_.dtype()) return false;
    std::optional<CatPart> part = rows_of(input);
    // A copy takes a launch of its own, but is faster at many short rows.
    constexpr std::int64_t kShort = 16;
    constexpr std::int64_t kFewBytes = 1 << 20;
    if (!part || (part->columns < kShort && rows_ * length > kFewBytes)) return false;
    if (inputs_.empty()) begin_ = begin;
    part->end = begin + length;
    inputs_.push_back(&input);
    parts_.push_back(*part);
    return true;
  }

  /// Moves what was collected. The inputs must still live.
  void flush() {
    if (parts_.empty()) return;
    // The widest unit that fits everything.
    auto all = reinterpret_cast<std::uintptr_t>(out_.address()) | 16U;
    all |= static_cast<std::uintptr_t>(begin_);
    if (rows_ > 1) all |= static_cast<std::uintptr_t>(pitch_);
    for (const CatPart& part : parts_)
      all |= reinterpret_cast<std::uintptr_t>(part.data) |
             static_cast<std::uintptr_t>(part.end | part.columns | part.pitch);
    const int shift = std::countr_zero(all);
    const std::int64_t unit = std::int64_t{1} << shift;
    for (CatPart& part : parts_) {
      part.end /= unit;
      part.columns /= unit;
      part.pitch /= unit;
    }
    const auto count = static_cast<std::int64_t>(parts_.size());
    CatArgs args{out_.address(), rows_, pitch_ / unit, begin_ / unit, count, {}};
    if (count <= kCatParts) {
      std::copy_n(parts_.begin(), count, args.parts);
      launch(cat_kernels[shift], args);
    } else {
      driver::Kernel kernel = cat_kernels[shift];
      kernel.context = make_ref<CatTable>(std::move(parts_));
      launch(kernel, args);
    }
    inputs_.clear();
    parts_.clear();
  }

 private:
  void launch(const driver::Kernel& kernel, const CatArgs& args) {
    const Site site = at(out_);
    for (const Tensor* input : inputs_) require_same_epoch(site, *input);
    if (!cuda::accesses_wanted()) {
      run(site, kernel, args);
      return;
    }
    std::vector<cuda::Access> accesses{writes_output(out_)};
    for (const Tensor* input : inputs_) accesses.push_back(reads(*input, "tensors"));
    run(site, kernel, args, accesses);
  }

  const Tensor& out_;
  std::int64_t rows_;
  std::int64_t pitch_;
  std::int64_t begin_ = 0;
  std::vector<const Tensor*> inputs_;
  std::vector<CatPart> parts_;
};

/// What cat is going to make.
struct Plan {
  int dim = 0;
  Shape sizes;
  Dtype dtype = Dtype::float32;
  Device device{Device::Type::cpu};
};

bool left_out(const Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; }

Plan plan(std::span<const Tensor> tensors, std::int64_t dim) {
  if (tensors.empty()) throw ValueError("torch.cat(): expected a non-empty list of Tensors");
  Plan made;
  made.device = tensors[0].device();
  made.dtype = tensors[0].dtype();
  const Tensor* pattern = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (tensor.dim() == 0)
      throw Error("zero-dimensional tensor (at position " + std::to_string(i) +
                  ") cannot be concatenated");
    require_same_device(made.device, tensor.device());
    made.dtype = promote_types(made.dtype, tensor.dtype());
    if (pattern == nullptr && !left_out(tensor)) pattern = &tensor;
  }
  // Rows without elements fit in wherever they are put, and alone make one more of them.
  made.dim = pattern == nullptr ? 0 : wrap_dim(dim, pattern->dim());
  if (pattern == nullptr) pattern = &tensors[0];
  made.sizes = pattern->sizes();
  std::int64_t length = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Shape& sizes = tensors[i].sizes();
    if (left_out(tensors[i])) continue;
    if (sizes.size() != made.sizes.size())
      throw Error("Tensors must have same number of dimensions: got " +
                  std::to_string(made.sizes.size()) + " and " + std::to_string(sizes.size()));
    for (int d = 0; d < sizes.size(); ++d)
      if (d != made.dim && sizes[d] != made.sizes[d])
        throw Error("Sizes of tensors must match except in dimension " + std::to_string(made.dim) +
                    ". Expected size " + std::to_string(made.sizes[d]) + " but got size " +
                    std::to_string(sizes[d]) + " for tensor number " + std::to_string(i) +
                    " in the list.");
    if (__builtin_add_overflow(length, sizes[made.dim], &length))
      throw ValueError("torch.cat(): more than 2^63 elements along dimension " +
                       std::to_string(made.dim));
  }
  made.sizes[made.dim] = length;
  return made;
}

void fill(const Tensor& out, std::span<const Tensor> tensors, int dim) {
  if (out.numel() == 0) return;
  std::int64_t row_count = 1;
  for (int d = 0; d < dim; ++d) row_count *= out.sizes()[d];
  auto inner = static_cast<std::int64_t>(out.element_size());
  for (int d = dim + 1; d < out.dim(); ++d) inner *= out.sizes()[d];
  const bool whole = out.is_contiguous();
  Batch batch(out, row_count, inner * out.sizes()[dim]);
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    if (left_out(tensor)) continue;
    const std::int64_t length = tensor.sizes()[dim];
    if (length == 0) continue;
    if (!whole || !batch.add(tensor, at * inner, length * inner)) {
      batch.flush();
      out.narrow(dim, at, length).copy_(tensor);
    }
    at += length;
  }
  batch.flush();
}

}  // namespace

Tensor flat_cat(std::span<const Tensor* const> tensors) {
  if (tensors.empty()) throw Error("flat_cat: expected a non-empty list of Tensors");
  const Dtype dtype = tensors[0]->dtype();
  const Device device = tensors[0]->device();
  std::int64_t total = 0;
  for (const Tensor* tensor : tensors) {
    require_same_device(device, tensor->device());
    if (tensor->dtype() != dtype)
      throw TypeError(std::string("flat_cat: expected tensors of one dtype, but got ") +
                      dtype_name(dtype) + " and " + dtype_name(tensor->dtype()));
    if (__builtin_add_overflow(total, tensor->numel(), &total))
      throw ValueError("flat_cat: more than 2^63 elements");
  }
  Tensor out = empty({total}, {dtype, device});
  if (total == 0) return out;
  const auto item = static_cast<std::int64_t>(out.element_size());
  Batch batch(out, 1, total * item);
  std::int64_t at = 0;
  for (const Tensor* tensor : tensors) {
    if (tensor->numel() == 0) continue;
    if (!batch.add(*tensor, at * item, tensor->numel() * item)) {
      batch.flush();
      out.narrow(0, at, tensor->numel()).view(tensor->sizes()).copy_(*tensor);
    }
    at += tensor->numel();
  }
  batch.flush();
  return out;
}

void move_bytes(const Tensor& target, const Tensor& source) {
  if (target.numel() == 0) return;
  const auto bytes = static_cast<std::int64_t>(target.nbytes());
  const int shift = widest_unit({target.address(), source.address()}, bytes);
  const std::int64_t units = bytes >> shift;
  CatArgs args{target.address(), 1, units, 0, 1, {}};
  args.parts[0] = {source.address(), units, units, 0};
  if (cuda::accesses_wanted()) [[unlikely]]
    run(at_with_peer(target, source), cat_kernels[shift], args,
        std::array{writes(target), reads(source)});
  else
    run(at_with_peer(target, source), cat_kernels[shift], args);
}

}  // namespace ops

Tensor cat(std::span<const Tensor> tensors, std::int64_t dim) {
  const ops::Plan plan = ops::plan(tensors, dim);
  Tensor out = empty(plan.sizes, {plan.dtype, plan.device});
  ops::fill(out, tensors, plan.dim);
  return out;
}

Tensor& cat_out(Tensor& out, std::span<const Tensor> tensors, std::int64_t dim) {
  const ops::Plan plan = ops::plan(tensors, dim);
  if (!can_cast(plan.dtype, out.dtype()))
    throw TypeError("torch.cat(): input types can't be cast to the desired output type " +
                    std::string(legacy_name(out.dtype())));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (ops::overlap(out, tensors[i]))
      throw Error(
          "unsupported operation: the input tensors cannot refer to any of the output memory "
          "locations. Found overlap in input tensor " +
          std::to_string(i));
  // An output that is one of the inputs has no elements to give, but may soon have some.
  std::vector<Tensor> others;
  const bool is_input = std::any_of(tensors.begin(), tensors.end(),
                                    [&](const Tensor& tensor) { return tensor.is(out); });
  if (is_input)
    std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(others),
                 [&](const Tensor& tensor) { return !tensor.is(out); });
  const std::span<const Tensor> given = is_input ? std::span<const Tensor>(others) : tensors;
  if (out.sizes() == plan.sizes) {
    ops::require_output(out, plan.device, plan.sizes, plan.dtype);
  } else {
    std::vector<const Tensor*> inputs;
    for (const Tensor& tensor : given) inputs.push_back(&tensor);
    ops::prepare_output(out, plan.device, plan.sizes, plan.dtype, inputs);
  }
  ops::require_no_internal_overlap(out);
  ops::fill(out, given, plan.dim);
  return out;
}

namespace {

std::vector<Tensor> unsqueezed(std::span<const Tensor> tensors, std::int64_t dim) {
  if (tensors.empty()) throw Error("stack expects a non-empty TensorList");
  const int at = wrap_dim(dim, tensors[0].dim() + 1);
  std::vector<Tensor> made;
  made.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].sizes() != tensors[0].sizes())
      throw Error("stack expects each tensor to be equal size, but got " +
                  tensors[0].sizes().str() + " at entry 0 and " + tensors[i].sizes().str() +
                  " at entry " + std::to_string(i));
    made.push_back(tensors[i].unsqueeze(at));
  }
  return made;
}

}  // namespace

Tensor stack(std::span<const Tensor> tensors, std::int64_t dim) {
  const std::vector<Tensor> parts = unsqueezed(tensors, dim);
  return cat(parts, wrap_dim(dim, tensors[0].dim() + 1));
}

Tensor& stack_out(Tensor& out, std::span<const Tensor> tensors, std::int64_t dim) {
  const std::vector<Tensor> parts = unsqueezed(tensors, dim);
  return cat_out(out, parts, wrap_dim(dim, tensors[0].dim() + 1));
}

namespace {

/// The tensors with so many dimensions at least: a vector is a row.
std::vector<Tensor> at_least(int dims, std::span<const Tensor> tensors, const char* name) {
  if (tensors.empty()) throw Error(std::string(name) + " expects a non-empty TensorList");
  std::vector<Tensor> made;
  made.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    Tensor view = tensor;
    while (view.dim() < dims) view = view.unsqueeze(0);
    made.push_back(std::move(view));
  }
  return made;
}
std::int64_t beside(const std::vector<Tensor>& tensors) { return tensors[0].dim() == 1 ? 0 : 1; }

}  // namespace

Tensor hstack(std::span<const Tensor> tensors) {
  const std::vector<Tensor> parts = at_least(1, tensors, "hstack");
  return cat(parts, beside(parts));
}
Tensor& hstack_out(Tensor& out, std::span<const Tensor> tensors) {
  const std::vector<Tensor> parts = at_least(1, tensors, "hstack");
  return cat_out(out, parts, beside(parts));
}
Tensor vstack(std::span<const Tensor> tensors) { return cat(at_least(2, tensors, "vstack")); }
Tensor& vstack_out(Tensor& out, std::span<const Tensor> tensors) {
  return cat_out(out, at_least(2, tensors, "vstack"));
}

namespace {

std::vector<Tensor> in_depth(std::span<const Tensor> tensors) {
  if (tensors.empty()) throw Error("dstack expects a non-empty TensorList");
  return atleast_3d(tensors);
}
std::vector<Tensor> columns(std::span<const Tensor> tensors) {
  if (tensors.empty()) throw Error("column_stack expects a non-empty TensorList");
  std::vector<Tensor> made;
  made.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    made.push_back(tensor.dim() > 1 ? tensor : tensor.reshape({tensor.numel(), 1}));
  return made;
}

}  // namespace

Tensor dstack(std::span<const Tensor> tensors) { return cat(in_depth(tensors), 2); }
Tensor& dstack_out(Tensor& out, std::span<const Tensor> tensors) {
  return cat_out(out, in_depth(tensors), 2);
}
Tensor column_stack(std::span<const Tensor> tensors) { return cat(columns(tensors), 1); }
Tensor& column_stack_out(Tensor& out, std::span<const Tensor> tensors) {
  return cat_out(out, columns(tensors), 1);
}

}  // namespace ember::inline v0
