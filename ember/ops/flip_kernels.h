// The kernels that copy elements with strides of any sign, and what they get.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::ops {

inline constexpr int kFlipDims = 6;

/// Less than 2^31 positions. `in` and `out` are the elements of the first one.
struct FlipArgs {
  void* out;
  const void* in;
  std::int64_t size[kFlipDims];  ///< dimension 0 is the fastest; at least one
  std::int64_t out_stride[kFlipDims];
  std::int64_t in_stride[kFlipDims];  ///< negative where it goes backwards
  std::int8_t dims;                   ///< from 1
  std::uint8_t unused[7]{};           ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(FlipArgs, EMBER_FIELD(out), EMBER_FIELD(in), EMBER_FIELD(size),
                EMBER_FIELD(out_stride), EMBER_FIELD(in_stride), EMBER_FIELD(dims),
                EMBER_FIELD(unused))

/// Moves units of 1, 2, 4, 8 or 16 bytes, in which strides are counted.
const driver::Kernel& flip_kernel(std::size_t unit) noexcept;

}  // namespace ember::inline v0::ops
