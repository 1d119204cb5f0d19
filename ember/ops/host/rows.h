// The loop over the rows of an element-wise kernel, for the CPU and for simulated devices. It knows
// elements by their sizes: what is done with the elements of a row is a function of the kernel's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ember/driver/kernel.h"
#include "ember/ops/loop.h"

namespace ember::inline v0::ops::host {

inline constexpr int kLoopInputs = kLoopOperands - 1;

/// An input of a row: elements at a stride, or the same value throughout.
struct RowInput {
  const void* data;
  std::ptrdiff_t stride;            ///< in elements; 0: `value` throughout
  alignas(16) std::byte value[16];  ///< in the type that the kernel computes in
};

/// The size in bytes of each operand's elements, the output's first; 0 where there is no operand.
using ItemSizes = std::array<std::uint8_t, kLoopOperands>;

/// Elements that become floats at once.
inline constexpr std::int64_t kWidenedPiece = 512;

/// How elements of one type, at most a piece, become adjacent floats.
struct Widening {
  void (*widen)(float* to, const void* from, std::ptrdiff_t stride, std::int64_t count);
  std::uint8_t item;  ///< bytes of an element
};

/// An element-wise kernel as the loop sees it.
struct RowKernel {
  /// What it does with a row, `out_stride` elements from one output to the next. An output may lie
  /// exactly on an input (in place), but never beside it.
  using Row = void (*)(void* out, std::ptrdiff_t out_stride, std::int64_t count,
                       const RowInput* inputs);

  Row row;
  int inputs;
  ItemSizes items;
  /// Whether elements at a stride are brought together first, so that a row finds them adjacent.
  /// Only for inputs of up to 8 bytes.
  bool packs = false;
  /// An input's element as what is computed with; null where these are the same bits.
  void (*value)(void* to, const void* element) = nullptr;
  /// Copies the first two dimensions, if the output is adjacent along the first and the input along
  /// the second; null where the rows do.
  void (*transpose)(const Loop& loop, void* out, const void* in) = nullptr;
  /// For kernels that compute in float on what is stored otherwise: how inputs become floats, ...
  const Widening* widenings = nullptr;
  /// ... and floats the output; null where it is what the row writes.
  void (*store)(void* to, std::ptrdiff_t stride, const float* from, std::int64_t count) = nullptr;
};

/// Runs a loop, a large one in parts on several threads.
Status run_rows(const Loop& loop, const driver::HostLaunch& on, const RowKernel& kernel);

}  // namespace ember::inline v0::ops::host
