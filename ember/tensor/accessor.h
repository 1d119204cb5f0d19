// Elements of a tensor on the CPU by their indices, for loops on the host.
#pragma once

#include <cstdint>

namespace ember::inline v0 {

/// A row of a tensor, as `x.accessor<float, 2>()` gives it: `a[i][j]` is an element, `a[i]` a row
/// of one dimension less. It owns nothing: the tensor has to stay, and its sizes and strides too.
/// Indices are not checked. Thread-safe as far as the elements are.
template <class T, int N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const std::int64_t* sizes, const std::int64_t* strides) noexcept
      : data_(data), sizes_(sizes), strides_(strides) {}

  decltype(auto) operator[](std::int64_t i) const noexcept {
    T* const at = data_ + i * strides_[0];
    if constexpr (N == 1)
      return *at;
    else
      return TensorAccessor<T, N - 1>(at, sizes_ + 1, strides_ + 1);
  }
  std::int64_t size(int dim) const noexcept { return sizes_[dim]; }
  std::int64_t stride(int dim) const noexcept { return strides_[dim]; }
  T* data() const noexcept { return data_; }

 private:
  T* data_;
  const std::int64_t* sizes_;
  const std::int64_t* strides_;
};

}  // namespace ember::inline v0
