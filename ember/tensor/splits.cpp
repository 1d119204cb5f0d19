// Views of parts along a dimension: windows, and pieces whose number or whose bounds are given.
#include <string>

#include "ember/base/error.h"
#include "ember/tensor/views.h"

namespace ember::inline v0 {
namespace {

/// hsplit, vsplit and dsplit: along the dimension that they stand for, in equal pieces. `least` is
/// how many dimensions there have to be.
int axis_of(const char* name, const Tensor& x, int least) {
  if (x.dim() < least)
    throw Error(std::string("torch.") + name + " requires a tensor with at least " +
                std::to_string(least) + " dimension, but got a tensor with " +
                std::to_string(x.dim()) + " dimensions!");
  if (least == 1) return x.dim() == 1 ? 0 : 1;
  return least == 2 ? 0 : 2;
}
std::vector<Tensor> equal_pieces(const char* name, const Tensor& x, int least, std::int64_t count) {
  const int dim = axis_of(name, x, least);
  const std::int64_t size = x.sizes()[dim];
  if (count == 0 || size % count != 0)
    throw Error(std::string("torch.") + name + " attempted to split along dimension " +
                std::to_string(dim) + ", but the size of the dimension " + std::to_string(size) +
                " is not divisible by the split_size " + std::to_string(count) + "!");
  return tensor_split(x, count, dim);
}

void require_dimension(const Tensor& x) {
  if (x.dim() == 0)
    throw Error(
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
}

}  // namespace

Tensor unfold(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step) {
  const int at = wrap_dim(dim, x.dim());
  const bool is_number = x.dim() == 0;
  const std::int64_t all = is_number ? 1 : x.sizes()[at];
  const std::int64_t stride = is_number ? 1 : x.strides()[at];
  if (size < 0) throw Error("size is " + std::to_string(size) + " but must be >= 0");
  if (size > all)
    throw Error("maximum size for tensor at dimension " + std::to_string(at) + " is " +
                std::to_string(all) + " but size is " + std::to_string(size));
  if (step <= 0) throw Error("step is " + std::to_string(step) + " but must be > 0");
  Shape sizes = x.sizes(), strides = x.strides();
  if (!is_number) {
    const std::int64_t windows = (all - size) / step + 1;
    sizes[at] = windows;
    // The stride of a single window leads nowhere, and need not be a number that there is.
    if (__builtin_mul_overflow(stride, step, &strides[at])) strides[at] = stride;
  }
  sizes.push_back(size);
  strides.push_back(stride);
  return x.as_strided(sizes, strides, x.storage_offset());
}

std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim) {
  require_dimension(x);
  const int at = wrap_dim(dim, x.dim());
  if (sections <= 0)
    throw Error("number of sections must be larger than 0, got " + std::to_string(sections));
  const std::int64_t size = x.sizes()[at] / sections, larger = x.sizes()[at] % sections;
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < sections; ++i) {
    const std::int64_t length = size + (i < larger ? 1 : 0);
    pieces.push_back(x.narrow(at, start, length));
    start += length;
  }
  return pieces;
}

std::vector<Tensor> tensor_split(const Tensor& x, const std::vector<std::int64_t>& indices,
                                 std::int64_t dim) {
  require_dimension(x);
  const int at = wrap_dim(dim, x.dim());
  std::vector<Tensor> pieces;
  std::int64_t start = 0;
  for (const std::int64_t end : indices) {
    pieces.push_back(x.slice(at, start, end));
    start = end;
  }
  pieces.push_back(x.slice(at, start));
  return pieces;
}

std::vector<Tensor> tensor_split(const Tensor& x, const Tensor& indices_or_sections,
                                 std::int64_t dim) {
  const Tensor& given = indices_or_sections;
  const std::string expected = "tensor_split expected tensor_indices_or_sections to ";
  if (given.is_cuda()) throw Error(expected + "be on cpu, but it's on " + given.device().str());
  if (given.dtype() != Dtype::int64)
    throw Error(expected + "have dtype of long, but got " + legacy_name(given.dtype()));
  if (given.dim() == 0) return tensor_split(x, given.item<std::int64_t>(), dim);
  if (given.dim() != 1)
    throw Error(expected +
                "be a zero-dimensional or one-dimensional tensor, but got a tensor with " +
                std::to_string(given.dim()) + " dims");
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(given.numel()));
  for (std::int64_t i = 0; i < given.numel(); ++i)
    indices.push_back(given.select(0, i).item<std::int64_t>());
  return tensor_split(x, indices, dim);
}

std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections) {
  return equal_pieces("hsplit", x, 1, sections);
}
std::vector<Tensor> hsplit(const Tensor& x, const std::vector<std::int64_t>& indices) {
  return tensor_split(x, indices, axis_of("hsplit", x, 1));
}
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections) {
  return equal_pieces("vsplit", x, 2, sections);
}
std::vector<Tensor> vsplit(const Tensor& x, const std::vector<std::int64_t>& indices) {
  return tensor_split(x, indices, axis_of("vsplit", x, 2));
}
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections) {
  return equal_pieces("dsplit", x, 3, sections);
}
std::vector<Tensor> dsplit(const Tensor& x, const std::vector<std::int64_t>& indices) {
  return tensor_split(x, indices, axis_of("dsplit", x, 3));
}

}  // namespace ember::inline v0
