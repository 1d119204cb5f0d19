// The kernels that copy one side of a diagonal, and what they get.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::ops {

inline constexpr int kTriangleDims = 4;

/// Less than 2^31 elements, at least one: matrices of a contiguous output, each with the rows of
/// one of the input, whose elements are adjacent. Where `out` is `in`, nothing has to be copied.
struct TriangleArgs {
  void* out;
  const void* in;
  std::int64_t rows;                 ///< of each matrix
  std::int64_t columns;              ///< of each matrix
  std::int64_t row_stride;           ///< of the input, in elements, as the next ones
  std::int64_t size[kTriangleDims];  ///< how many matrices; dimension 0 is the fastest
  std::int64_t stride[kTriangleDims];
  /// The columns before edge + i are one side of row i, the others the other one. From -rows to
  /// columns.
  std::int64_t edge;
  std::int8_t dims;          ///< from 0: a single matrix
  bool lower;                ///< whether the side before the edge is kept; otherwise the other one
  std::uint8_t unused[6]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(TriangleArgs, EMBER_FIELD(out), EMBER_FIELD(in), EMBER_FIELD(rows),
                EMBER_FIELD(columns), EMBER_FIELD(row_stride), EMBER_FIELD(size),
                EMBER_FIELD(stride), EMBER_FIELD(edge), EMBER_FIELD(dims), EMBER_FIELD(lower),
                EMBER_FIELD(unused))

/// Copies elements of 1, 2, 4, 8 or 16 bytes.
const driver::Kernel& triangle_kernel(std::size_t item) noexcept;

}  // namespace ember::inline v0::ops
