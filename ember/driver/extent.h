// Which elements a kernel touches, said dimension by dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "ember/driver/kernel.h"

namespace ember::inline v0::driver {

/// Sizes and strides of the elements that a host implementation touches, for
/// HostLaunch::at_strided(). Plain data.
class Extent {
 public:
  static constexpr std::size_t kDims = 16;

  /// `size` elements, at least one, that lie `stride` elements apart; at most kDims such calls. A
  /// negative stride says that the others lie below the first one.
  Extent& add(std::int64_t size, std::int64_t stride) noexcept {
    if (size == 1 || stride == 0) return *this;
    sizes_[dims_] = size;
    strides_[dims_++] = std::abs(stride);
    if (stride < 0) below_ += (size - 1) * stride;
    return *this;
  }
  /// The same for several dimensions.
  Extent& add(int dims, const std::int64_t* sizes, const std::int64_t* strides) noexcept {
    for (int d = 0; d < dims; ++d) add(sizes[d], strides[d]);
    return *this;
  }
  /// Where the kernel finds the first element, of `item` bytes; null if it may not touch all of
  /// them.
  template <class T>
  T* place(const HostLaunch& on, T* first, std::size_t item = sizeof(T)) const noexcept {
    const auto below = below_ * static_cast<std::int64_t>(item / sizeof(T));
    T* const lowest =
        on.at_strided(first + below, std::span(sizes_, dims_), std::span(strides_, dims_), item);
    return lowest == nullptr ? nullptr : lowest - below;
  }

 private:
  std::int64_t sizes_[kDims] = {};
  std::int64_t strides_[kDims] = {};
  std::size_t dims_ = 0;
  std::int64_t below_ = 0;
};

}  // namespace ember::inline v0::driver
