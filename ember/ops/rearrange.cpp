#include "ember/ops/rearrange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/ops/cat.h"
#include "ember/ops/checks.h"
#include "ember/ops/elementwise.h"
#include "ember/ops/factories.h"
#include "ember/ops/flip.h"
#include "ember/ops/run.h"
#include "ember/ops/triangle.h"

namespace ember::inline v0 {
namespace {

/// x moved along one dimension by 0 < shift < size places: what leaves at its end comes first.
Tensor rolled(const Tensor& x, std::int64_t shift, int dim) {
  const std::int64_t kept = x.sizes()[dim] - shift;
  const Tensor first = x.narrow(dim, kept, shift);
  const Tensor second = x.narrow(dim, 0, kept);
  // Two copies are a launch more, but move many elements faster where the rows are not aligned.
  constexpr std::int64_t kFewBytes = 1 << 20;
  if (x.numel() * static_cast<std::int64_t>(x.element_size()) <= kFewBytes)
    return cat({first, second}, dim);
  Tensor out = empty(x.sizes(), {x.dtype(), x.device()});
  out.narrow(dim, 0, shift).copy_(first);
  out.narrow(dim, shift, kept).copy_(second);
  return out;
}

void require_matrices(const Tensor& x, const char* name) {
  if (x.dim() < 2)
    throw Error(std::string(name) + ": input tensor must have at least 2 dimensions");
}

/// x on one side of a diagonal, and zero on the other.
Tensor triangle(const Tensor& x, std::int64_t diagonal, bool lower, const char* name) {
  require_matrices(x, name);
  Tensor made = empty(x.sizes(), {x.dtype(), x.device()});
  ops::copy_triangle(made, x, diagonal, lower);
  return made;
}

/// Whether `out` is contiguous and like x, and either x itself or apart from it.
bool takes_triangle(const Tensor& out, const Tensor& x) {
  if (out.dtype() != x.dtype() || out.device() != x.device() || out.sizes() != x.sizes() ||
      !out.is_contiguous())
    return false;
  if (out.address() == x.address() && x.is_contiguous()) return true;
  // Not only of one storage: others may have been given the same memory.
  const cuda::Access a = ops::writes(out);
  const cuda::Access b = ops::reads(x);
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.address);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.address);
  return a_begin + a.bytes <= b_begin || b_begin + b.bytes <= a_begin;
}

Tensor& triangle_into(Tensor& out, const Tensor& x, std::int64_t diagonal, bool lower,
                      const char* name) {
  require_matrices(x, name);
  if (!takes_triangle(out, x)) return ops::put_result(out, triangle(x, diagonal, lower, name));
  ops::copy_triangle(out, x, diagonal, lower);
  return out;
}

}  // namespace

Tensor flip(const Tensor& x, const Shape& dims) {
  const DimSet turned = dim_set(dims, x.dim());
  Tensor out = empty_like(x);
  ops::copy_flipped(out, x, turned);
  return out;
}

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims) {
  if (shifts.empty()) throw Error("`shifts` required");
  if (dims.empty() && shifts.size() == 1) return roll(x.reshape({-1}), shifts, {0}).view(x.sizes());
  if (shifts.size() != dims.size())
    throw Error("shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                ", dims:" + std::to_string(dims.size()));
  for (const std::int64_t dim : dims) {
    if (x.dim() == 0)
      throw IndexError("Dimension specified as " + std::to_string(dim) +
                       " but tensor has no dimensions");
    wrap_dim(dim, x.dim());
  }
  Tensor out = x;
  for (int i = 0; i < dims.size() && x.numel() > 0; ++i) {
    const int dim = wrap_dim(dims[i], x.dim());
    const std::int64_t size = x.sizes()[dim];
    const std::int64_t shift = (shifts[i] % size + size) % size;
    if (shift != 0) out = rolled(out, shift, dim);
  }
  return out.is(x) ? x.clone() : out;
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  const int added = repeats.size() - x.dim();
  if (added < 0)
    throw Error(
        "Number of dimensions of repeat dims can not be smaller than number of dimensions "
        "of tensor");
  // Each copy is written by one broadcast: the output's dimension d seen as [repeats, size].
  Shape sizes = repeats;
  for (int d = 0; d < repeats.size(); ++d) {
    const std::int64_t size = d < added ? 1 : x.sizes()[d - added];
    if (__builtin_mul_overflow(repeats[d], size, &sizes[d]))
      throw ValueError("repeat: more than 2^63 elements along dimension " + std::to_string(d));
  }
  // Of no elements there may be fewer than none.
  for (const std::int64_t size : sizes)
    if (size < 0)
      throw Error("Trying to create tensor with negative dimension " + std::to_string(size) + ": " +
                  sizes.str());
  Tensor out = empty(sizes, {x.dtype(), x.device()});
  if (out.numel() == 0) return out;
  Shape split;    // of the output
  Shape strides;  // of the same
  Shape source;   // x's strides in it
  const Shape own = out.strides();
  for (int d = 0; d < repeats.size(); ++d) {
    const std::int64_t size = d < added ? 1 : x.sizes()[d - added];
    if (repeats[d] > 1) {
      split.push_back(repeats[d]);
      strides.push_back(own[d] * size);
      source.push_back(0);
    }
    if (size > 1) {
      split.push_back(size);
      strides.push_back(own[d]);
      source.push_back(x.strides()[d - added]);
    }
  }
  out.as_strided(split, strides).copy_(x.as_strided(split, source));
  return out;
}

Tensor tril(const Tensor& x, std::int64_t diagonal) { return triangle(x, diagonal, true, "tril"); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return triangle(x, diagonal, false, "triu"); }

Tensor diag(const Tensor& x, std::int64_t diagonal) {
  if (x.dim() == 2) return x.diagonal(diagonal).clone();
  if (x.dim() != 1)
    throw Error("diag(): Supports 1D or 2D tensors. Got " + std::to_string(x.dim()) + "D");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // a larger matrix fits nowhere
  if (diagonal < -kMost || diagonal > kMost)
    throw ValueError("diag(): diagonal " + std::to_string(diagonal) +
                     ", expected at most 2^31 away from the main one");
  const std::int64_t size = x.numel() + (diagonal < 0 ? -diagonal : diagonal);
  Tensor out = zeros({size, size}, {x.dtype(), x.device()});
  out.diagonal(diagonal).copy_(x);
  return out;
}

Tensor& tril_out(Tensor& out, const Tensor& x, std::int64_t diagonal) {
  return triangle_into(out, x, diagonal, true, "tril");
}
Tensor& triu_out(Tensor& out, const Tensor& x, std::int64_t diagonal) {
  return triangle_into(out, x, diagonal, false, "triu");
}
Tensor& diag_out(Tensor& out, const Tensor& x, std::int64_t diagonal) {
  return ops::put_result(out, diag(x, diagonal));
}

Tensor& Tensor::tril_(std::int64_t diagonal) const {
  Tensor self = *this;
  tril_out(self, *this, diagonal);
  return this->self();
}
Tensor& Tensor::triu_(std::int64_t diagonal) const {
  Tensor self = *this;
  triu_out(self, *this, diagonal);
  return this->self();
}

Tensor fliplr(const Tensor& x) {
  if (x.dim() < 2) throw Error("fliplr: Input must be >= 2-d. Got " + x.sizes().str());
  return flip(x, {1});
}
Tensor flipud(const Tensor& x) {
  if (x.dim() < 1) throw Error("flipud: Input must be >= 1-d. Got " + x.sizes().str());
  return flip(x, {0});
}

Tensor Tensor::flip(const Shape& dims) const { return ember::flip(*this, dims); }
Tensor Tensor::roll(const Shape& shifts, const Shape& dims) const {
  return ember::roll(*this, shifts, dims);
}
Tensor Tensor::repeat(const Shape& repeats) const { return ember::repeat(*this, repeats); }
Tensor Tensor::tril(std::int64_t diagonal) const { return ember::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return ember::triu(*this, diagonal); }
Tensor Tensor::diag(std::int64_t diagonal) const { return ember::diag(*this, diagonal); }

Tensor tile(const Tensor& x, const Shape& repeats) {
  Shape all;
  for (int i = repeats.size(); i < x.dim(); ++i) all.push_back(1);
  for (const std::int64_t count : repeats) all.push_back(count);
  return repeat(x, all);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing) {
  if (tensors.empty()) throw Error("meshgrid expects a non-empty TensorList");
  const bool exchanged = indexing == "xy" && tensors.size() > 1;
  if (indexing != "xy" && indexing != "ij")
    throw Error("torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: " +
                std::string(indexing));
  std::vector<Tensor> given(tensors.begin(), tensors.end());
  if (exchanged) std::swap(given[0], given[1]);
  Shape sizes;
  for (const Tensor& tensor : given) {
    if (tensor.dim() > 1)
      throw Error("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: " +
                  std::to_string(tensor.dim()) + " dimensions");
    if (tensor.dtype() != given[0].dtype())
      throw Error("meshgrid expects all tensors to have the same dtype");
    ops::require_same_device(given[0].device(), tensor.device());
    sizes.push_back(tensor.numel());
  }
  std::vector<Tensor> made;
  made.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    Shape own;
    for (std::size_t k = 0; k < given.size(); ++k) own.push_back(k == i ? given[i].numel() : 1);
    made.push_back(given[i].reshape(own).expand(sizes));
  }
  if (exchanged) std::swap(made[0], made[1]);
  return made;
}

namespace {

/// What is set before or behind the input of diff has its sizes, but along the dimension.
void check_beside(const Tensor& x, const Tensor& beside, int along) {
  if (beside.dim() != x.dim())
    throw Error("diff expects prepend or append to be the same dimension as input");
  for (int d = 0; d < x.dim(); ++d) {
    if (d == along || beside.sizes()[d] == x.sizes()[d]) continue;
    const auto size = [d](const char* of, const Tensor& tensor) {
      std::string text = of;
      text += ".size(";
      text += std::to_string(d);
      text += ") = ";
      text += std::to_string(tensor.sizes()[d]);
      return text;
    };
    throw Error(
        "diff expects the shape of tensor to prepend or append to match that of input except along "
        "the differencing dimension; " +
        size("input", x) + ", but got " + size("tensor", beside));
  }
}

}  // namespace

Tensor diff(const Tensor& x, std::int64_t n, std::int64_t dim, const std::optional<Tensor>& prepend,
            const std::optional<Tensor>& append) {
  if (x.dim() == 0) throw Error("diff expects input to be at least one-dimensional");
  if (n < 0) throw Error("order must be non-negative but got " + std::to_string(n));
  const int along = wrap_dim(dim, x.dim());
  for (const std::optional<Tensor>* beside : {&prepend, &append})
    if (*beside) check_beside(x, **beside, along);
  if (n == 0) return x.clone();
  Tensor made = x;
  if (prepend || append) {
    std::vector<Tensor> parts;
    if (prepend) parts.push_back(*prepend);
    parts.push_back(x);
    if (append) parts.push_back(*append);
    made = cat(parts, along);
  }
  const std::int64_t times = std::min(n, made.sizes()[along]);
  for (std::int64_t i = 0; i < times; ++i) {
    const std::int64_t size = made.sizes()[along];
    const std::int64_t left = size > 0 ? size - 1 : 0;
    const Tensor later = made.narrow(along, size - left, left);
    const Tensor earlier = made.narrow(along, 0, left);
    made = made.dtype() == Dtype::bool_ ? later.logical_xor(earlier) : sub(later, earlier);
  }
  return made;
}
Tensor& diff_out(Tensor& out, const Tensor& x, std::int64_t n, std::int64_t dim,
                 const std::optional<Tensor>& prepend, const std::optional<Tensor>& append) {
  const Tensor made = diff(x, n, dim, prepend, append);
  const std::array<const Tensor*, 1> inputs{&x};
  ops::require_output(out, made.device(), made.sizes(), made.dtype(), inputs);
  const bool own = made.dtype() == out.dtype() && made.storage() == x.storage();  // not a new one
  return ops::put_result(out, own ? made.clone() : made.to(out.dtype()));
}

}  // namespace ember::inline v0
