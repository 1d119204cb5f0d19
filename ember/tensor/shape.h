// Sizes and strides: a short row of numbers, kept in place.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"

namespace ember::inline v0 {

namespace detail {
/// Integers that are sizes; characters are text.
template <class T>
concept SizeLike = std::integral<T> &&(sizeof(T) >= 4) && !std::same_as<T, wchar_t> &&
                   !std::same_as<T, char32_t>;
}  // namespace detail

/// The most dimensions that a tensor can have.
inline constexpr int kMaxDims = 64;

/// Up to kMaxDims numbers: the sizes of a tensor, its strides, or a list of dimensions. More are
/// refused with ValueError.
class EMBER_API Shape {
 public:
  Shape() noexcept = default;
  /// One number: `zeros(5)`, `x.view(-1)`.
  Shape(std::integral auto value) requires(!std::same_as<decltype(value), bool>)
      : Shape({static_cast<std::int64_t>(value)}) {}
  Shape(std::initializer_list<std::int64_t> values)
      : Shape(std::span(values.begin(), values.size())) {}
  Shape(std::span<const std::int64_t> values) { assign(values.data(), values.size()); }
  Shape(const std::vector<std::int64_t>& values) { assign(values.data(), values.size()); }
  /// Other integers: std::vector<int>, std::array<std::int64_t, 2>.
  template <detail::SizeLike Size>
  Shape(const std::vector<Size>& values) {
    for (const Size value : values) push_back(static_cast<std::int64_t>(value));
  }
  template <detail::SizeLike Size, std::size_t N>
  Shape(const std::array<Size, N>& values) {
    for (const Size value : values) push_back(static_cast<std::int64_t>(value));
  }
  Shape(const Shape& other) noexcept : count_(other.count_) { copy(other); }
  Shape& operator=(const Shape& other) noexcept {
    count_ = other.count_;
    copy(other);
    return *this;
  }
  ~Shape() = default;
  /// `count` times the same number.
  static Shape repeat(int count, std::int64_t value);

  int size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::int64_t operator[](int i) const noexcept { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) noexcept { return values_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const noexcept { return values_.data(); }
  const std::int64_t* end() const noexcept { return values_.data() + count_; }
  std::int64_t back() const noexcept { return (*this)[count_ - 1]; }
  /// As many numbers as another has, values undefined.
  void size_as(const Shape& other) noexcept { count_ = other.count_; }
  void push_back(std::int64_t value);
  void insert(int at, std::int64_t value);
  void erase(int at) noexcept;

  /// "[2, 3]".
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.count_ != b.count_) return false;
    for (int i = 0; i < a.count_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  void assign(const std::int64_t* values, std::size_t count);
  void copy(const Shape& other) noexcept {
    // A few words: not worth a call of memmove, which the compiler would make of it.
    for (std::size_t i = 0; i < static_cast<std::size_t>(count_); ++i) {
      values_[i] = other.values_[i];
      asm volatile("");
    }
  }
  int count_ = 0;
  std::array<std::int64_t, kMaxDims> values_;  // only the first count_ are ever read
};

/// Dimensions that an operation goes over: one, several, or, if there are none, all.
class DimList {
 public:
  DimList() noexcept = default;
  DimList(std::integral auto dim) : dims_{static_cast<std::int64_t>(dim)} {}
  DimList(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  DimList(const Shape& dims) noexcept : dims_(dims) {}
  DimList(const std::vector<std::int64_t>& dims) : dims_(dims) {}

  /// As they were given.
  const Shape& list() const noexcept { return dims_; }
  bool all() const noexcept { return dims_.empty(); }

 private:
  Shape dims_;
};

/// The product; 1 for no dimensions. ValueError for negative sizes, and for a product beyond 2^63.
EMBER_API std::int64_t element_count(const Shape& sizes);
/// Strides of a tensor without gaps, last dimension fastest.
EMBER_API void contiguous_strides(const Shape& sizes, Shape& strides) noexcept;
inline Shape contiguous_strides(const Shape& sizes) noexcept {
  Shape strides;
  contiguous_strides(sizes, strides);
  return strides;
}
/// `dim` counted from the front, from -dims to dims - 1 (a tensor without dimensions has one here).
/// IndexError `Dimension out of range (expected to be in range of [-2, 1], but got 2)`.
EMBER_API int wrap_dim(std::int64_t dim, int dims);
/// Some of a tensor's dimensions, by number.
using DimSet = std::bitset<kMaxDims>;
/// Those of a list, of a tensor with `dims` dimensions, which may count from the back. IndexError
/// outside the range; Error `dim 1 appears multiple times in the list of dims`.
EMBER_API DimSet dim_set(const Shape& list, int dims);
/// The common shape of two, aligned at the last dimension, where sizes agree or are one. Error `The
/// size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0`.
EMBER_API Shape broadcast_shapes(const Shape& a, const Shape& b);

}  // namespace ember::inline v0
