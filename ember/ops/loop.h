// What an element-wise kernel gets: where its operands lie, in at most six dimensions, ready for
// both implementations. Plans (plan.h) cut larger problems into such loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::ops {

inline constexpr int kLoopDims = 6;
inline constexpr int kLoopOperands = 5;  ///< the output and up to four inputs

/// One launch of an element-wise kernel. Operand 0 is the output. Offsets from each operand's
/// `data` fit into 31 bits unless the loop is flat.
struct Loop {
  void* data[kLoopOperands];
  std::int64_t count;                             ///< elements of the output
  std::uint32_t size[kLoopDims];                  ///< dimension 0 is the fastest; unused if flat
  std::int32_t stride[kLoopOperands][kLoopDims];  ///< in elements
  std::int8_t dims;                               ///< 0 for a flat loop
  std::int8_t number[kLoopOperands];  ///< which of `numbers` an input is; -1: it is memory
  Dtype stored[kLoopOperands];        ///< of inputs in memory; for kernels of mixed dtypes only
  std::uint8_t unused[5]{};           ///< so that arguments compare byte by byte
  alignas(16) std::byte numbers[2][16];

  /// One row: memory operands have stride 1, or 0 for a single element, in stride[k][0].
  bool flat() const noexcept { return dims == 0; }

  /// An operand of a flat loop: its elements, or, of inputs, which of `numbers` it is.
  void set_flat(std::size_t operand, void* elements) noexcept {
    data[operand] = elements;
    stride[operand][0] = 1;
    number[operand] = -1;
  }
  void set_number(std::size_t operand, std::int8_t which) noexcept {
    data[operand] = nullptr;
    stride[operand][0] = 0;
    number[operand] = which;
  }
  /// An input that is a number, in the type that the operation computes in.
  template <class T>
  T number_as(int operand) const noexcept {
    T value;
    std::memcpy(&value, numbers[number[operand]], sizeof value);
    return value;
  }
  /// How many elements of an operand's memory the loop spans.
  std::size_t span(int operand) const noexcept {
    if (flat()) return stride[operand][0] == 0 ? 1 : static_cast<std::size_t>(count);
    std::size_t last = 0;
    for (int d = 0; d < dims; ++d)
      last += std::size_t{size[d] - 1} * static_cast<std::size_t>(stride[operand][d]);
    return last + 1;
  }
  /// Where a host implementation finds an operand, whose elements have `item` bytes.
  template <class T>
  T* place(const driver::HostLaunch& on, int operand, T* elements,
           std::size_t item = sizeof(T)) const noexcept {
    if (flat()) return on.at(elements, span(operand) * item / sizeof(T));
    std::int64_t sizes[kLoopDims];
    std::int64_t strides[kLoopDims];
    std::size_t used = 0;
    for (int d = 0; d < dims; ++d, ++used) {
      sizes[d] = size[d];
      strides[d] = stride[operand][d];
    }
    return on.at_strided(elements, {sizes, used}, {strides, used}, item);
  }
};
EMBER_ARGUMENTS(Loop, EMBER_FIELD(data), EMBER_FIELD(count), EMBER_FIELD(size), EMBER_FIELD(stride),
                EMBER_FIELD(dims), EMBER_FIELD(number), EMBER_FIELD(stored), EMBER_FIELD(numbers),
                EMBER_FIELD(unused))
static_assert(driver::KernelArguments<Loop>);

}  // namespace ember::inline v0::ops
