// Strides of new tensors that are laid out as others: without gaps, in the order of their
// dimensions.
#pragma once

#include <utility>

#include "ember/tensor/shape.h"

namespace ember::inline v0 {

/// Internal. Strides without gaps for dimensions whose order from the inside out is what
/// `order_of(a, b)` says: positive if dimension `a` belongs outside of `b`, negative if inside,
/// zero if nothing tells. As usual where nothing does.
template <class OrderOf>
Shape strides_in_order(const Shape& sizes, OrderOf order_of) {
  // Sorted by insertion, since not all pairs have an order.
  const int dims = sizes.size();
  Shape order;
  for (int d = dims - 1; d >= 0; --d) order.push_back(d);
  for (int i = 1; i < dims; ++i) {
    for (int from = i, to = i - 1; to >= 0; --to) {
      const int found = order_of(static_cast<int>(order[to]), static_cast<int>(order[from]));
      if (found < 0) break;
      if (found > 0) {
        std::swap(order[to], order[from]);
        from = to;
      }
    }
  }
  Shape strides = contiguous_strides(sizes);
  const bool as_usual = [&] {
    for (int i = 0; i < dims; ++i)
      if (order[i] != dims - 1 - i) return false;
    return true;
  }();
  std::int64_t stride = 1;
  for (int i = 0; i < dims && !as_usual; ++i) {
    strides[static_cast<int>(order[i])] = stride;
    stride *= sizes[static_cast<int>(order[i])];
  }
  return strides;
}

/// Internal. How much further apart elements lie along one dimension than along another, for
/// strides_in_order(); zero if both strides are zero or one is: elements are repeated there.
inline int order_of_steps(std::int64_t x, std::int64_t y, std::int64_t size_x,
                          std::int64_t size_y) noexcept {
  if (x == 0 || y == 0) return 0;
  if (x != y) return x < y ? -1 : 1;
  return size_x > size_y ? 1 : 0;
}

/// Internal. Those of a new tensor that is laid out as one with these strides, gaps left out: what
/// torch's clone(), to() and empty_like() give.
inline Shape dense_strides(const Shape& sizes, const Shape& strides) {
  return strides_in_order(sizes, [&](int a, int b) {
    return order_of_steps(strides[a], strides[b], sizes[a], sizes[b]);
  });
}

}  // namespace ember::inline v0
