// What the kernels share that look places up in an index: bounds, and where positions of a grid
// lie.
#pragma once

// Bad indices end the kernel in every build: device code has no other way to report them.
#undef NDEBUG
#include <cassert>
#include <cstdint>

#include "ember/driver/cuda/launch.h"
#include "ember/ops/cuda/elementwise.cuh"
#include "ember/ops/cuda/units.cuh"
#include "ember/ops/indexed_args.h"

namespace ember::inline v0::ops::cuda {

/// Which places there are along the indexed dimension.
struct Places {
  std::int64_t limit;
  std::int64_t step;
  bool wrap;

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;

  explicit Places(const IndexedArgs& args) : limit(args.limit), step(args.step), wrap(args.wrap) {}

  /// The offset of an index; the kernel faults if it is out of bounds.
  __device__ __forceinline__ std::int64_t offset(std::int64_t index) const {
    if (wrap && index < 0) index += limit;
    const bool index_in_bounds =
        static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(limit);
    assert(index_in_bounds);
    return index * step;
  }
};

struct Position {
  std::int64_t target;
  std::int64_t source;
  std::int64_t index;
};

/// Where the positions of a grid lie, for a grid of less than 2^31 of them.
struct Positions {
  int dims;
  Divider size[kIndexedDims];
  Position stride[kIndexedDims];

  static constexpr driver::AddressPlaces kAddresses = driver::kNoAddress;

  explicit Positions(const IndexedArgs& args) : dims(args.dims) {
    for (int d = 0; d < dims; ++d) {
      size[d] = Divider(static_cast<std::uint32_t>(args.size[d]));
      stride[d] = {args.target_stride[d], args.source_stride[d], args.index_stride[d]};
    }
  }
  __device__ __forceinline__ Position at(std::uint32_t i) const {
    Position found{0, 0, 0};
#pragma unroll
    for (int d = 0; d < kIndexedDims; ++d) {
      if (d >= dims) break;
      // The slowest dimension has no further one to be divided among.
      const std::uint32_t rest = d + 1 == dims ? 0 : size[d].quotient(i);
      const std::int64_t here = i - rest * size[d].divisor;
      found.target += here * stride[d].target;
      found.source += here * stride[d].source;
      found.index += here * stride[d].index;
      i = rest;
    }
    return found;
  }
};

/// Calls `launch(args, count)` for parts of the grid that have less than 2^31 positions each.
/// `unit`: bytes of what target and source count in.
template <class Launch>
Status each_part(const IndexedArgs& args, std::int64_t unit, const Launch& launch) {
  std::int64_t count = 1;
  int longest = 0;
  for (int d = 0; d < args.dims; ++d) {
    if (__builtin_mul_overflow(count, args.size[d], &count)) count = INT64_MAX;
    if (args.size[d] > args.size[longest]) longest = d;
  }
  if (count <= INT32_MAX) return launch(args, static_cast<std::uint32_t>(count));
  IndexedArgs part = args;
  part.size[longest] = args.size[longest] / 2;
  EMBER_TRY(each_part(part, unit, launch));
  const std::int64_t skipped = part.size[longest];
  part.target = static_cast<std::byte*>(args.target) + skipped * args.target_stride[longest] * unit;
  part.source =
      static_cast<const std::byte*>(args.source) + skipped * args.source_stride[longest] * unit;
  part.index = args.index + skipped * args.index_stride[longest];
  part.size[longest] = args.size[longest] - skipped;
  return each_part(part, unit, launch);
}

/// Reads with the rows of the source in shared memory; see gather_rows.cu. Null: it is not faster,
/// or does not fit.
using RowsImplementation = Status (*)(const IndexedArgs&, const CudaLaunch&);
RowsImplementation rows_implementation(const IndexedArgs& args, int unit) noexcept;

}  // namespace ember::inline v0::ops::cuda
