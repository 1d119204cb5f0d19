#include "ember/tensor/shape.h"

#include "ember/base/error.h"

namespace ember::inline v0 {

void Shape::assign(const std::int64_t* values, std::size_t count) {
  if (count > kMaxDims)
    throw ValueError("a tensor of " + std::to_string(count) + " dimensions, expected at most " +
                     std::to_string(kMaxDims));
  count_ = static_cast<int>(count);
  std::copy(values, values + count, values_.begin());
}

Shape Shape::repeat(int count, std::int64_t value) {
  Shape made;
  for (int i = 0; i < count; ++i) made.push_back(value);
  return made;
}

void Shape::push_back(std::int64_t value) { insert(count_, value); }

void Shape::insert(int at, std::int64_t value) {
  if (count_ == kMaxDims)
    throw ValueError("a tensor of " + std::to_string(count_ + 1) +
                     " dimensions, expected at most " + std::to_string(kMaxDims));
  std::copy_backward(values_.begin() + at, values_.begin() + count_, values_.begin() + count_ + 1);
  ++count_;
  (*this)[at] = value;
}

void Shape::erase(int at) noexcept {
  std::copy(values_.begin() + at + 1, values_.begin() + count_, values_.begin() + at);
  --count_;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int i = 0; i < count_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string((*this)[i]);
  }
  return text + "]";
}

namespace {
/// For sizes of which one is negative, or whose product is too large.
std::int64_t count_carefully(const Shape& sizes) {
  std::int64_t count = 1;
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t size : sizes) {
    if (size < 0)
      throw ValueError("Trying to create tensor with negative dimension " + std::to_string(size) +
                       ": " + sizes.str());
    empty |= size == 0;
    // A later zero makes the product zero, whatever came before.
    if (!overflow && size != 0) overflow = __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return 0;
  if (overflow)
    throw ValueError("a tensor of sizes " + sizes.str() + " has more than 2^63 elements");
  return count;
}
}  // namespace

std::int64_t element_count(const Shape& sizes) {
  std::int64_t count = 1;
  bool odd = false;
  for (int i = 0; i < sizes.size(); ++i) {
    odd |= sizes[i] < 0;
    odd |= __builtin_mul_overflow(count, sizes[i], &count);
  }
  return odd ? count_carefully(sizes) : count;
}

void contiguous_strides(const Shape& sizes, Shape& strides) noexcept {
  strides.size_as(sizes);
  std::uint64_t next = 1;  // may overflow beside a size of zero, where no stride matters
  for (int i = sizes.size() - 1; i >= 0; --i) {
    strides[i] = static_cast<std::int64_t>(next);
    next *= static_cast<std::uint64_t>(std::max<std::int64_t>(sizes[i], 1));
  }
}

int wrap_dim(std::int64_t dim, int dims) {
  const int range = std::max(dims, 1);
  if (dim < -range || dim >= range)
    throw IndexError("Dimension out of range (expected to be in range of [" +
                     std::to_string(-range) + ", " + std::to_string(range - 1) + "], but got " +
                     std::to_string(dim) + ")");
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

DimSet dim_set(const Shape& list, int dims) {
  DimSet set;
  for (const std::int64_t dim : list) {
    const auto at = static_cast<std::size_t>(wrap_dim(dim, dims));
    if (set[at])
      throw Error("dim " + std::to_string(at) + " appears multiple times in the list of dims");
    set.set(at);
  }
  return set;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int dims = std::max(a.size(), b.size());
  Shape out = a.size() >= b.size() ? a : b;
  for (int i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const std::int64_t x = a[a.size() - i];
    const std::int64_t y = b[b.size() - i];
    if (x != y && x != 1 && y != 1)
      throw Error("The size of tensor a (" + std::to_string(x) +
                  ") must match the size of tensor b (" + std::to_string(y) +
                  ") at non-singleton dimension " + std::to_string(dims - i));
    out[dims - i] = x == 1 ? y : x;
  }
  return out;
}

}  // namespace ember::inline v0
