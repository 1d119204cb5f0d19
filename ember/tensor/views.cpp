// Views: other sizes and strides over the same memory.
#include "ember/tensor/views.h"

#include <utility>

#include "ember/base/error.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {
namespace {

/// Replaces a single -1 by what is left of `count`.
Shape infer_size(const Shape& sizes, std::int64_t count) {
  Shape full = sizes;
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown >= 0) throw Error("only one dimension can be inferred");
      unknown = i;
      continue;
    }
    if (sizes[i] < 0) throw Error("invalid shape dimension " + std::to_string(sizes[i]));
    if (__builtin_mul_overflow(known, sizes[i], &known)) known = -1;
    if (known < 0) break;
  }
  const bool fits = known >= 0 && (unknown >= 0 ? known > 0 && count % known == 0 : known == count);
  if (unknown >= 0 && known == 0 && count == 0)
    throw Error("cannot reshape tensor of 0 elements into shape " + sizes.str() +
                " because the unspecified dimension size -1 can be any value and is ambiguous");
  if (!fits)
    throw Error("shape '" + sizes.str() + "' is invalid for input of size " +
                std::to_string(count));
  if (unknown >= 0) full[unknown] = count / known;
  return full;
}

/// The stride of a dimension of size one in front of dimension `at`.
std::int64_t step_before(const Shape& sizes, const Shape& strides, int at) {
  return at < sizes.size() ? m::mul(sizes[at], strides[at]) : 1;
}

/// The strides that show `sizes` over the elements of another view, if there are any: each run of
/// dimensions that lie without gaps may be cut anew.
std::optional<Shape> view_strides(const Shape& from, const Shape& steps, const Shape& sizes,
                                  std::int64_t count) {
  if (count == 0) return from == sizes ? steps : contiguous_strides(sizes);
  Shape strides = sizes;
  int to = sizes.size() - 1;
  std::int64_t run = 1;      // elements of the run of old dimensions
  std::int64_t covered = 1;  // elements of the new dimensions within it
  std::int64_t base = from.empty() ? 1 : steps.back();
  for (int i = from.size() - 1; i >= 0; --i) {
    run *= from[i];
    const bool ends = i == 0 || (from[i - 1] != 1 && steps[i - 1] != run * base);
    if (!ends) continue;
    while (to >= 0 && (covered < run || sizes[to] == 1)) {
      strides[to] = covered * base;
      covered *= sizes[to];
      --to;
    }
    if (covered != run) return std::nullopt;
    if (i > 0) base = steps[i - 1];
    run = covered = 1;
  }
  for (; to >= 0; --to) strides[to] = 1;  // sizes of one beyond all old dimensions
  return strides;
}

/// The sizes, strides and offset of a view whose elements have another size. Those of dimensions
/// before the last are counted anew in the new unit; without elements they need not be multiples.
struct Recounted {
  Shape sizes;
  Shape strides;
  std::int64_t offset;
};

Recounted recount(const Tensor& from, Dtype dtype) {
  const std::size_t old_size = from.element_size();
  const std::size_t new_size = item_size(dtype);
  const std::string what = std::string(" to view ") + legacy_name(from.dtype()) + " as " +
                           legacy_name(dtype) + " (different element sizes)";
  const int last = from.dim() - 1;
  if (last < 0) throw Error("self.dim() cannot be 0" + what);
  Recounted made{from.sizes(), from.strides(), from.storage_offset()};
  if (made.strides[last] != 1)
    throw Error("self.stride(-1) must be 1" + what + ", but got " +
                std::to_string(made.strides[last]));
  if (old_size > new_size) {
    const auto ratio = static_cast<std::int64_t>(old_size / new_size);
    made.sizes[last] = m::mul(made.sizes[last], ratio);
    for (int i = 0; i < last; ++i) made.strides[i] = m::mul(made.strides[i], ratio);
    made.offset = m::mul(made.offset, ratio);
    return made;
  }
  const auto ratio = static_cast<std::int64_t>(new_size / old_size);
  const auto divide = [&](std::int64_t& number, const std::string& name) {
    if (number % ratio != 0)
      throw Error("self." + name + " must be divisible by " + std::to_string(ratio) + what +
                  ", but got " + std::to_string(number));
    number /= ratio;
  };
  divide(made.sizes[last], "size(-1)");
  divide(made.offset, "storage_offset()");
  for (int i = 0; i < last; ++i) divide(made.strides[i], "stride(" + std::to_string(i) + ")");
  return made;
}

void check_narrow(std::int64_t start, std::int64_t length, std::int64_t size) {
  if (length < 0) throw Error("narrow(): length must be non-negative.");
  if (start < -size || start > size)
    throw IndexError("start out of range (expected to be in range of [" + std::to_string(-size) +
                     ", " + std::to_string(size) + "], but got " + std::to_string(start) + ")");
}

/// Of elements that are yet to be computed there is none: asking for the address has it made.
const Ref<Storage>& memory_to_view(const Tensor& tensor) {
  if (tensor.state().data == nullptr && tensor.numel() > 0) [[unlikely]]
    (void)tensor.address();
  return tensor.storage();
}

}  // namespace

Tensor Tensor::alias() const { return Tensor(copy_state()); }

Tensor Tensor::as_strided(const Shape& sizes, const Shape& strides,
                          std::optional<std::int64_t> offset) const {
  return Tensor(memory_to_view(*this), dtype(), sizes, strides, offset.value_or(storage_offset()));
}

Tensor Tensor::view(const Shape& sizes) const {
  const Shape full = infer_size(sizes, numel());
  const auto strides = view_strides(this->sizes(), this->strides(), full, numel());
  if (!strides)
    throw Error(
        "view size is not compatible with input tensor's size and stride (at least one dimension "
        "spans across two contiguous subspaces). Use .reshape(...) instead.");
  return make_view(full, *strides, storage_offset());
}

Tensor Tensor::reinterpreted(Dtype dtype) const {
  if (item_size(dtype) == element_size()) {
    Ref<TensorState> made = copy_state();
    made->dtype = dtype;
    return Tensor(std::move(made));
  }
  const Recounted view = recount(*this, dtype);
  return Tensor(memory_to_view(*this), dtype, view.sizes, view.strides, view.offset);
}

Tensor Tensor::reshape(const Shape& sizes) const {
  const Shape full = infer_size(sizes, numel());
  if (const auto strides = view_strides(this->sizes(), this->strides(), full, numel()))
    return make_view(full, *strides, storage_offset());
  return contiguous().view(full);
}

Tensor Tensor::flatten(std::int64_t start, std::int64_t end) const {
  const int first = wrap_dim(start, dim());
  const int last = wrap_dim(end, dim());
  if (first > last) throw Error("flatten() has invalid args: start_dim cannot come after end_dim");
  if (dim() == 0) return reshape({1});
  if (first == last) return *this;
  Shape sizes;
  for (int i = 0; i < dim(); ++i) {
    if (i > first && i <= last)
      sizes[first] = m::mul(sizes[first], this->sizes()[i]);
    else
      sizes.push_back(this->sizes()[i]);
  }
  return reshape(sizes);
}

Tensor Tensor::unflatten(std::int64_t dim, const Shape& sizes) const {
  const int place = wrap_dim(dim, this->dim());
  if (sizes.empty()) throw Error("unflatten: sizes must be non-empty");
  if (this->dim() == 0) throw Error("unflatten: the tensor has no dimension that could be parted");
  Shape all;
  for (int i = 0; i < this->dim(); ++i) {
    if (i != place) {
      all.push_back(this->sizes()[i]);
      continue;
    }
    std::int64_t known = 1, unknown = 0;
    for (const std::int64_t size : sizes) {
      if (size == -1) ++unknown;
      if (size >= 0 && __builtin_mul_overflow(known, size, &known)) known = -1;
    }
    if (unknown == 0 && known != this->sizes()[i])
      throw Error("unflatten: Provided sizes " + sizes.str() +
                  " don't multiply up to the size of dim " + std::to_string(place) + " (" +
                  std::to_string(this->sizes()[i]) + ") in the input tensor");
    for (const std::int64_t size : infer_size(sizes, this->sizes()[i])) all.push_back(size);
  }
  return view(all);
}

Tensor Tensor::movedim(const Shape& source, const Shape& destination) const {
  if (source.size() != destination.size())
    throw Error("movedim: Invalid source or destination dims: source (" + source.str() +
                " dims) should contain the same number of dims as destination (" +
                destination.str() + " dims)");
  if (dim() == 0) {  // which counts as one dimension
    for (const Shape& dims : {source, destination})
      for (const std::int64_t place : dims) wrap_dim(place, 0);
    return alias();
  }
  constexpr std::int64_t kFree = -1;
  Shape from;  // for each dimension of the result
  for (int i = 0; i < dim(); ++i) from.push_back(kFree);
  DimSet moved;
  for (int i = 0; i < source.size(); ++i) {
    const int take = wrap_dim(source[i], dim());
    const int put = wrap_dim(destination[i], dim());
    if (moved[static_cast<std::size_t>(take)] || from[put] != kFree)
      throw Error("movedim: repeated dim in `" +
                  std::string(from[put] != kFree ? "destination" : "source") + "` (" +
                  (from[put] != kFree ? destination : source).str() + ")");
    moved[static_cast<std::size_t>(take)] = true;
    from[put] = take;
  }
  int next = 0;
  for (int i = 0; i < dim(); ++i) {
    if (from[i] != kFree) continue;
    while (moved[static_cast<std::size_t>(next)]) ++next;
    from[i] = next++;
  }
  return permute(from);
}

Tensor Tensor::transpose(std::int64_t dim0, std::int64_t dim1) const {
  const int a = wrap_dim(dim0, dim());
  const int b = wrap_dim(dim1, dim());
  Ref<TensorState> made = copy_state();
  if (a != b) {
    std::swap(made->sizes[a], made->sizes[b]);
    std::swap(made->strides[a], made->strides[b]);
    made->contiguous = ember::is_contiguous(made->sizes, made->strides);
  }
  return Tensor(std::move(made));
}

Tensor Tensor::t() const {
  if (dim() > 2)
    throw Error("t() expects a tensor with <= 2 dimensions, but self is " + std::to_string(dim()) +
                "D");
  return dim() < 2 ? alias() : transpose(0, 1);
}

Tensor Tensor::numpy_T() const {
  Shape dims;
  for (int d = dim(); d-- > 0;) dims.push_back(d);
  return permute(dims);
}

Tensor Tensor::mT() const {
  if (dim() == 1)
    throw Error("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
  return dim() == 0 ? *this : transpose(-2, -1);
}

Tensor Tensor::permute(const Shape& dims) const {
  if (dims.size() != dim())
    throw Error(
        "permute: number of dimensions in the tensor input does not match the "
        "length of the desired ordering of dimensions i.e. input.dim() = " +
        std::to_string(dim()) + " is not equal to len(dims) = " + std::to_string(dims.size()));
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  DimSet seen;
  for (int i = 0; i < dims.size(); ++i) {
    const int from = wrap_dim(dims[i], dim());
    if (seen[static_cast<std::size_t>(from)])
      throw Error("permute(): duplicate dims are not allowed.");
    seen.set(static_cast<std::size_t>(from));
    sizes[i] = this->sizes()[from];
    strides[i] = this->strides()[from];
  }
  return make_view(sizes, strides, storage_offset());
}

Tensor Tensor::expand(const Shape& sizes) const {
  const int added = sizes.size() - dim();
  if (added < 0)
    throw Error("expand(" + std::string("tensor of ") + this->sizes().str() + ", size=" +
                sizes.str() + "): the number of sizes provided (" + std::to_string(sizes.size()) +
                ") must be greater or equal to the number of dimensions in the tensor (" +
                std::to_string(dim()) + ")");
  Shape full = sizes;
  Shape strides = sizes;
  for (int i = sizes.size() - 1; i >= 0; --i) {
    const std::int64_t own = i < added ? 1 : this->sizes()[i - added];
    if (sizes[i] == -1) {
      if (i < added)
        throw Error("expand(" + sizes.str() +
                    "): The expanded size of the tensor (-1) isn't allowed "
                    "in a leading, non-existing dimension " +
                    std::to_string(i));
      full[i] = own;
    } else if (sizes[i] < 0) {
      throw Error("expand: size " + std::to_string(sizes[i]) + " of dimension " +
                  std::to_string(i) + ", expected at least -1");
    }
    if (full[i] != own && own != 1)
      throw Error("The expanded size of the tensor (" + std::to_string(full[i]) +
                  ") must match the existing size (" + std::to_string(own) +
                  ") at non-singleton dimension " + std::to_string(i) +
                  ".  Target sizes: " + sizes.str() + ".  Tensor sizes: " + this->sizes().str());
    if (full[i] != own)
      strides[i] = 0;
    else
      strides[i] = i < added ? step_before(full, strides, i + 1) : this->strides()[i - added];
  }
  element_count(full);  // refuses sizes whose product does not fit
  return make_view(full, strides, storage_offset());
}

Tensor Tensor::squeeze() const {
  Shape sizes;
  Shape strides;
  for (int i = 0; i < dim(); ++i) {
    if (this->sizes()[i] == 1) continue;
    sizes.push_back(this->sizes()[i]);
    strides.push_back(this->strides()[i]);
  }
  return make_view(sizes, strides, storage_offset());
}

Tensor Tensor::squeeze(std::int64_t dim) const {
  const int at = wrap_dim(dim, this->dim());
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  if (this->dim() > 0 && sizes[at] == 1) {
    sizes.erase(at);
    strides.erase(at);
  }
  return make_view(sizes, strides, storage_offset());
}

Tensor Tensor::squeeze(const Shape& dims) const {
  const DimSet listed = dim_set(dims, dim());
  Shape sizes;
  Shape strides;
  for (int i = 0; i < dim(); ++i) {
    if (listed[static_cast<std::size_t>(i)] && this->sizes()[i] == 1) continue;
    sizes.push_back(this->sizes()[i]);
    strides.push_back(this->strides()[i]);
  }
  return make_view(sizes, strides, storage_offset());
}

Tensor Tensor::unsqueeze(std::int64_t dim) const {
  const int at = wrap_dim(dim, this->dim() + 1);
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  const std::int64_t step = step_before(sizes, strides, at);
  sizes.insert(at, 1);
  strides.insert(at, step);
  return make_view(sizes, strides, storage_offset());
}

Tensor& Tensor::transpose_(std::int64_t dim0, std::int64_t dim1) const {
  return set_(transpose(dim0, dim1));
}
Tensor& Tensor::t_() const {
  if (dim() > 2)
    throw Error("t_() expects a tensor with <= 2 dimensions, but self is " + std::to_string(dim()) +
                "D");
  return set_(t());
}
Tensor& Tensor::squeeze_() const { return set_(squeeze()); }
Tensor& Tensor::squeeze_(std::int64_t dim) const { return set_(squeeze(dim)); }
Tensor& Tensor::squeeze_(const Shape& dims) const { return set_(squeeze(dims)); }
Tensor& Tensor::unsqueeze_(std::int64_t dim) const { return set_(unsqueeze(dim)); }

Tensor Tensor::select(std::int64_t dim, std::int64_t index) const {
  if (this->dim() == 0) throw IndexError("select() cannot be applied to a 0-dim tensor.");
  const int at = wrap_dim(dim, this->dim());
  const std::int64_t size = sizes()[at];
  if (index < -size || index >= size)
    throw IndexError("select(): index " + std::to_string(index) +
                     " out of range for tensor of size " + sizes().str() + " at dimension " +
                     std::to_string(at));
  if (index < 0) index += size;
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  // Strides of tensors without elements may be anything.
  const std::int64_t offset = m::add(storage_offset(), m::mul(index, strides[at]));
  sizes.erase(at);
  strides.erase(at);
  return make_view(sizes, strides, offset);
}

Tensor Tensor::slice(std::int64_t dim, std::optional<std::int64_t> start,
                     std::optional<std::int64_t> end, std::int64_t step) const {
  if (this->dim() == 0) throw IndexError("slice() cannot be applied to a 0-dim tensor.");
  const int at = wrap_dim(dim, this->dim());
  if (step == 0) throw ValueError("slice step cannot be zero");
  if (step < 0) throw ValueError("step must be greater than zero, got " + std::to_string(step));
  const std::int64_t size = sizes()[at];
  const auto inside = [size](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t from = inside(start.value_or(0));
  const std::int64_t to = std::max(from, inside(end.value_or(size)));
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  sizes[at] = (to - from) / step + ((to - from) % step != 0 ? 1 : 0);
  const std::int64_t offset = m::add(storage_offset(), m::mul(from, strides[at]));
  // A stride that is never used must not overflow.
  if (__builtin_mul_overflow(strides[at], step, &strides[at])) strides[at] = 1;
  return make_view(sizes, strides, offset);
}

Tensor Tensor::narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const {
  if (this->dim() == 0) throw Error("narrow() cannot be applied to a 0-dim tensor.");
  const int at = wrap_dim(dim, this->dim());
  const std::int64_t size = sizes()[at];
  check_narrow(start, length, size);
  if (start < 0) start += size;
  if (length > size - start)
    throw Error("start (" + std::to_string(start) + ") + length (" + std::to_string(length) +
                ") exceeds dimension size (" + std::to_string(size) + ").");
  return slice(at, start, start + length);
}

std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t dim) const {
  if (this->dim() == 0) throw Error("split expects at least a 1-dimensional tensor");
  const int at = wrap_dim(dim, this->dim());
  const std::int64_t all = sizes()[at];
  if (size < 0)
    throw Error("split expects split_size be non-negative, but got split_size=" +
                std::to_string(size));
  if (size == 0 && all != 0)
    throw Error("split_size can only be 0 if dimension size is 0, but got dimension size of " +
                std::to_string(all));
  std::vector<Tensor> pieces;
  if (all == 0) pieces.push_back(narrow(at, 0, 0));
  for (std::int64_t start = 0; start < all; start += std::min(size, all - start))
    pieces.push_back(narrow(at, start, std::min(size, all - start)));
  return pieces;
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, std::int64_t dim) const {
  if (this->dim() == 0) throw Error("split expects at least a 1-dimensional tensor");
  const int at = wrap_dim(dim, this->dim());
  const std::int64_t all = this->sizes()[at];
  std::int64_t left = all;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      throw Error("split_with_sizes expects split_sizes have only non-negative entries, but got " +
                  std::to_string(size));
    fits = fits && size <= left;
    if (fits) left -= size;
  }
  if (!fits || left != 0)
    throw Error("split_with_sizes expects split_sizes to sum exactly to " + std::to_string(all) +
                " (input tensor's size at dimension " + std::to_string(at) + ")");
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(narrow(at, start, size));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> Tensor::chunk(std::int64_t count, std::int64_t dim) const {
  if (this->dim() == 0) throw Error("chunk expects at least a 1-dimensional tensor");
  if (count <= 0)
    throw Error("chunk expects `chunks` to be greater than 0, got: " + std::to_string(count));
  const int at = wrap_dim(dim, this->dim());
  const std::int64_t all = sizes()[at];
  if (all == 0) return std::vector<Tensor>(static_cast<std::size_t>(count), narrow(at, 0, 0));
  return split(all / count + (all % count != 0 ? 1 : 0), at);
}

std::vector<Tensor> Tensor::unbind(std::int64_t dim) const {
  if (this->dim() == 0) throw IndexError("Dimension specified as 0 but tensor has no dimensions");
  const int at = wrap_dim(dim, this->dim());
  std::vector<Tensor> pieces;
  for (std::int64_t i = 0; i < sizes()[at]; ++i) pieces.push_back(select(at, i));
  return pieces;
}

Tensor Tensor::view_as_real() const {
  if (!is_complex()) throw Error("view_as_real is only supported for complex tensors");
  Shape sizes = this->sizes();
  Shape strides;
  for (const std::int64_t stride : this->strides())
    strides.push_back(m::mul<std::int64_t>(stride, 2));
  sizes.push_back(2);
  strides.push_back(1);
  return Tensor(memory_to_view(*this), real_dtype(dtype()), sizes, strides, 2 * storage_offset());
}

Tensor Tensor::view_as_complex() const {
  if (!is_floating_point() || dtype() == Dtype::bfloat16)
    throw Error(
        std::string("view_as_complex is only supported for half, float and double tensors, but got "
                    "a tensor of scalar type: ") +
        legacy_name(dtype()));
  if (dim() == 0) throw Error("Input tensor must have one or more dimensions");
  if (sizes().back() != 2) throw Error("Tensor must have a last dimension of size 2");
  if (strides().back() != 1) throw Error("Tensor must have a last dimension with stride 1");
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  sizes.erase(dim() - 1);
  strides.erase(dim() - 1);
  for (int i = 0; i < strides.size(); ++i) {
    if (sizes[i] > 1 && strides[i] % 2 != 0)
      throw Error("Tensor must have a stride divisible by 2 for all but last dimension");
    strides[i] /= 2;
  }
  if (storage_offset() % 2 != 0) throw Error("Tensor must have a storage_offset divisible by 2");
  return Tensor(memory_to_view(*this), complex_dtype(dtype()), sizes, strides,
                storage_offset() / 2);
}

Tensor Tensor::real() const { return is_complex() ? view_as_real().select(-1, 0) : *this; }

Tensor Tensor::imag() const {
  if (!is_complex()) throw Error("imag is not implemented for tensors with non-complex dtypes.");
  return view_as_real().select(-1, 1);
}

Tensor Tensor::diagonal(std::int64_t offset, std::int64_t dim0, std::int64_t dim1) const {
  const int a = wrap_dim(dim0, dim());
  const int b = wrap_dim(dim1, dim());
  if (a == b)
    throw Error("diagonal dimensions cannot be identical " + std::to_string(dim0) + ", " +
                std::to_string(dim1));
  const std::int64_t rows = sizes()[a] + std::min<std::int64_t>(offset, 0);
  const std::int64_t columns = sizes()[b] - std::max<std::int64_t>(offset, 0);
  const std::int64_t length = std::max<std::int64_t>(std::min(rows, columns), 0);
  std::int64_t at = storage_offset();
  if (length > 0) at += offset >= 0 ? offset * strides()[b] : -offset * strides()[a];
  const std::int64_t step = m::add(strides()[a], strides()[b]);
  Shape sizes = this->sizes();
  Shape strides = this->strides();
  for (const int dim : {std::max(a, b), std::min(a, b)}) {
    sizes.erase(dim);
    strides.erase(dim);
  }
  sizes.push_back(length);
  strides.push_back(step);
  return make_view(sizes, strides, at);
}

Tensor atleast_1d(const Tensor& x) { return x.dim() == 0 ? x.reshape({1}) : x; }
Tensor atleast_2d(const Tensor& x) { return x.dim() < 2 ? atleast_1d(x).unsqueeze(0) : x; }
Tensor atleast_3d(const Tensor& x) { return x.dim() < 3 ? atleast_2d(x).unsqueeze(-1) : x; }

namespace {

template <class Make>
std::vector<Tensor> each(std::span<const Tensor> tensors, Make&& make) {
  std::vector<Tensor> made;
  made.reserve(tensors.size());
  for (const Tensor& tensor : tensors) made.push_back(make(tensor));
  return made;
}

}  // namespace

std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_1d(x); });
}
std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_2d(x); });
}
std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors) {
  return each(tensors, [](const Tensor& x) { return atleast_3d(x); });
}

Shape broadcast_shapes(std::span<const Shape> shapes) {
  Shape out;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Shape& shape = shapes[i];
    if (shape.size() > out.size()) out = broadcast_shapes(out, Shape::repeat(shape.size(), 1));
    for (int d = 1; d <= shape.size(); ++d) {
      const std::int64_t size = shape[shape.size() - d];
      std::int64_t& known = out[out.size() - d];
      if (size < 0)
        throw ValueError(
            "Attempting to broadcast a dimension with negative length! broadcast_shapes: " +
            shape.str() + " at index " + std::to_string(i));
      if (size == 1 || size == known) continue;
      if (known != 1)
        throw Error("Attempting to broadcast a dimension of length " + std::to_string(size) +
                    " at " + std::to_string(-d) + "! Mismatching argument at index " +
                    std::to_string(i) + " had " + shape.str() +
                    "; but expected shape should be broadcastable to " + out.str());
      known = size;
    }
  }
  return out;
}

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors) {
  Shape sizes;
  for (const Tensor& tensor : tensors) sizes = broadcast_shapes(sizes, tensor.sizes());
  return each(tensors, [&](const Tensor& x) { return x.expand(sizes); });
}

}  // namespace ember::inline v0
