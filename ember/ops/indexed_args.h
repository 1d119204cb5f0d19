// What the kernels get that look places up in an index: index_select, gather, scatter and their
// like. They are one: at every position of a grid an index says which place along one dimension is
// read (or written).
//
//   read    target[p] = source[p, index[p]]
//   write   target[p, index[p]] = source[p]
//   add     target[p, index[p]] += source[p]
#pragma once

#include <cstdint>

namespace ember::ops {

// The kernels by name: a row for each, so that faults name the operation. Readers and writers move
// units of 1 to 16 bytes, whatever the type; those that add know it.
// clang-format off
#define EMBER_FOR_EACH_READ(ROW) ROW(index_select) ROW(gather) ROW(take) ROW(index)
#define EMBER_FOR_EACH_WRITE(ROW) \
  ROW(index_copy) ROW(index_fill) ROW(scatter) ROW(put) ROW(index_put)
#define EMBER_FOR_EACH_ADD(ROW) ROW(index_add) ROW(scatter_add) ROW(put) ROW(index_put)
// clang-format on

inline constexpr int kIndexedDims = 6;

struct IndexedArgs {
  void* target;
  const void* source;
  const std::int64_t* index;
  std::int64_t limit;               ///< places along the indexed dimension
  std::int64_t step;                ///< units from one place to the next
  std::int64_t size[kIndexedDims];  ///< of the grid; dimension 0 is the fastest; at least one
  std::int64_t target_stride[kIndexedDims];
  std::int64_t source_stride[kIndexedDims];
  std::int64_t index_stride[kIndexedDims];
  std::int8_t dims;  ///< from 1
  std::int8_t dim;   ///< the indexed dimension, for errors
  bool wrap;         ///< negative indices count from the end
};

/// out[i] = the checked, wrapped index[i] times step.
struct OffsetArgs {
  std::int64_t* out;
  const std::int64_t* index;
  std::int64_t count;
  std::int64_t limit;
  std::int64_t step;
  std::int32_t dim;
};

}  // namespace ember::ops
