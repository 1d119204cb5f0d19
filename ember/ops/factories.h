// New tensors. Shapes are lists of sizes; options say dtype and device (see Options): float32 on
// the CPU unless given; `cuda` without an index is the current device. Errors: ValueError for
// negative sizes, OutOfMemoryError, `CUDA error: invalid device ordinal` for devices that don't
// exist. Nothing blocks on CUDA devices, except `tensor`, which copies from ordinary memory of the
// host.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "ember/base/export.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0 {

/// Contents undefined (empty, empty_strided), zeros, or ones.
EMBER_API Tensor empty(const Shape& sizes, const Options& options = {});
EMBER_API Tensor empty_strided(const Shape& sizes, const Shape& strides,
                               const Options& options = {});
EMBER_API Tensor zeros(const Shape& sizes, const Options& options = {});
EMBER_API Tensor ones(const Shape& sizes, const Options& options = {});
/// Without a dtype, the number's kind: bool, int64, float32 or complex64.
EMBER_API Tensor full(const Shape& sizes, const Scalar& value, const Options& options = {});

// The same shape, strides if there are no gaps, dtype and device as another tensor unless given.
EMBER_API Tensor empty_like(const Tensor& other, const Options& options = {});
EMBER_API Tensor zeros_like(const Tensor& other, const Options& options = {});
EMBER_API Tensor ones_like(const Tensor& other, const Options& options = {});
EMBER_API Tensor full_like(const Tensor& other, const Scalar& value, const Options& options = {});

/// start, start + step, ... below (or above) end. Without a dtype int64 if all three are integers,
/// else float32. For int64 all three are cut off first: up to 2.5 there are two numbers. For other
/// integer types there are as many elements as for float64, of start and step cut off. Error unless
/// step leads from start to end.
EMBER_API Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step = 1,
                        const Options& options = {});
inline Tensor arange(const Scalar& end, const Options& options = {}) {
  return arange(0, end, 1, options);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const Options& options) {
  return arange(start, end, 1, options);
}
// Else a step of 0 might be a string of options.
template <std::integral Step>
Tensor arange(const Scalar& start, const Scalar& end, Step step, const Options& options = {}) {
  return arange(start, end, Scalar(step), options);
}

/// `steps` numbers at equal distances from start to end, both of which are among them (one alone is
/// start). Without a dtype float32, or complex64 if one of the two is complex. For an integer dtype
/// the ends are cut off first, then each number. Error for fewer than no steps, for numbers that
/// the dtype cannot hold, and `torch.linspace(): inferred dtype ... can't be safely cast to passed
/// dtype float32` for complex numbers and a real dtype; NotImplementedError for bool.
EMBER_API Tensor linspace(const Scalar& start, const Scalar& end, std::int64_t steps,
                          const Options& options = {});
/// n rows of m columns (n unless given) of zeros, with ones on the main diagonal. Error if one of
/// the two is negative.
EMBER_API Tensor eye(std::int64_t n, std::optional<std::int64_t> m, const Options& options = {});
inline Tensor eye(std::int64_t n, const Options& options = {}) { return eye(n, {}, options); }
template <std::integral Columns>
requires(!std::same_as<Columns, bool>) Tensor
    eye(std::int64_t n, Columns m, const Options& options = {}) {
  return eye(n, std::optional<std::int64_t>(m), options);
}

// The same in an output that exists, with its dtype and on its device. One of other sizes is
// resized, with a warning unless it has no elements; arange_out() takes as many elements in any
// shape.
EMBER_API Tensor& empty_out(Tensor& out, const Shape& sizes);
EMBER_API Tensor& zeros_out(Tensor& out, const Shape& sizes);
EMBER_API Tensor& ones_out(Tensor& out, const Shape& sizes);
EMBER_API Tensor& full_out(Tensor& out, const Shape& sizes, const Scalar& value);
EMBER_API Tensor& arange_out(Tensor& out, const Scalar& start, const Scalar& end,
                             const Scalar& step = 1);
EMBER_API Tensor& linspace_out(Tensor& out, const Scalar& start, const Scalar& end,
                               std::int64_t steps);
EMBER_API Tensor& eye_out(Tensor& out, std::int64_t n, std::optional<std::int64_t> m = {});

/// A one-dimensional tensor with these elements, of their type unless another is given. Error if
/// that is an integer type which cannot hold one of them (fits() in number.h), or real and they are
/// complex; floating types round, beyond their largest number to infinity.
template <class T>
Tensor tensor(std::span<const T> values, const Options& options = {});
template <class T>
Tensor tensor(const std::vector<T>& values, const Options& options = {}) {
  return tensor(std::span<const T>(values), options);
}
template <class T, std::size_t N>
Tensor tensor(const std::array<T, N>& values, const Options& options = {}) {
  return tensor(std::span<const T>(values), options);
}
template <std::same_as<bool> T>  // not for braces, whose elements need not be bools
Tensor tensor(const std::vector<T>& values, const Options& options = {}) {
  // Whose elements are bits.
  const auto bools = std::make_unique<bool[]>(values.size());  // NOLINT(modernize-avoid-c-arrays)
  std::copy(values.begin(), values.end(), bools.get());
  return tensor(std::span<const bool>(bools.get(), values.size()), options);
}

/// The same with the type that is named, `tensor<double>({1, 2})`.
template <class T>
Tensor tensor(std::initializer_list<std::type_identity_t<T>> values, const Options& options = {}) {
  return tensor(std::span<const T>(values.begin(), values.size()), options);
}

/// A number, or a list of lists of numbers: what stands in the braces of `tensor({{1, 2.5}, {3,
/// 4}})`.
class EMBER_API NestedNumbers {
 public:
  template <class T>
  requires(std::constructible_from<Scalar, T>) NestedNumbers(T number)
  noexcept : number_(number) {}
  NestedNumbers(std::initializer_list<NestedNumbers> items) : items_(items), is_list_(true) {}

  bool is_list() const noexcept { return is_list_; }
  const Scalar& number() const noexcept { return number_; }
  const std::vector<NestedNumbers>& items() const noexcept { return items_; }

 private:
  Scalar number_;
  std::vector<NestedNumbers> items_;
  bool is_list_ = false;
};
/// Numbers in braces, nested or not, or one number without dimensions. Without a dtype they have
/// that of their kind, as with `full`: bool, int64, float32 or complex64, the widest if they are
/// mixed. ValueError for lists that differ in length, or stand beside numbers. Errors as above.
EMBER_API Tensor tensor(const NestedNumbers& numbers, const Options& options = {});
inline Tensor tensor(std::initializer_list<NestedNumbers> numbers, const Options& options = {}) {
  return tensor(NestedNumbers(numbers), options);
}
/// One number without dimensions.
EMBER_API Tensor scalar_tensor(const Scalar& value, const Options& options = {});

/// Memory of the caller's as a tensor, without copying; `release` is called when the last tensor
/// that uses it goes, and never if this throws. Strides are in elements; contiguous if none are
/// given. ValueError for null where there are elements; Error for negative strides.
EMBER_API Tensor from_blob(void* data, const Shape& sizes, const Options& options = {},
                           std::function<void()> release = {},
                           const std::optional<Shape>& strides = {});

template <class T>
Tensor tensor(std::span<const T> values, const Options& options) {
  static_assert(!std::is_same_v<T, bool> || sizeof(bool) == 1);
  static_assert(!std::is_same_v<T, long double>, "no dtype has the bits of a long double");
  constexpr Dtype kGiven = dtype_holding<T>;
  if (options.dtype && *options.dtype != kGiven &&
      (is_integral(*options.dtype) ||
       (is_complex_dtype(kGiven) && !is_complex_dtype(*options.dtype))))
    for (const T& value : values) require_fits(value, *options.dtype);
  const Tensor given =
      from_blob(const_cast<T*>(values.data()), {static_cast<std::int64_t>(values.size())}, kGiven);
  return given.to(options, false, true);
}

}  // namespace ember::inline v0
