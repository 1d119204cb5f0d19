// What the kernels get that look places up in an index: index_select, gather, scatter and their
// like. They are one: at every position of a grid an index says which place along one dimension is
// read (or written).
//
//   read      target[p] = source[p, index[p]]
//   write     target[p, index[p]] = source[p]
//   combine   target[p, index[p]] += source[p], or *=
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/scalar/math.h"

namespace ember::inline v0::ops {

// The kernels by name: one for each operation, so that faults name the operation. Readers and
// writers move units of 1 to 16 bytes, whatever the type; those that combine know it, and how.
// clang-format off
#define EMBER_FOR_EACH_READ(KERNEL) KERNEL(index_select) KERNEL(gather) KERNEL(take) KERNEL(index)
#define EMBER_FOR_EACH_WRITE(KERNEL) \
  KERNEL(index_copy) KERNEL(index_fill) KERNEL(scatter) KERNEL(put) KERNEL(index_put)
#define EMBER_FOR_EACH_COMBINATION(KERNEL) \
  KERNEL(index_add, Sum) KERNEL(scatter_add, Sum) KERNEL(put, Sum) KERNEL(index_put, Sum) \
  KERNEL(scatter_multiply, Product)
// clang-format on

struct Sum {
  template <class T>
  static EMBER_HD T of(T x, T y) {
    return m::add(x, y);
  }
};
struct Product {
  template <class T>
  static EMBER_HD T of(T x, T y) {
    return m::mul(x, y);
  }
};

/// `How` of elements, of which some are narrower than what is computed with.
template <class How, class T>
EMBER_HD T combined(T x, T y) {
  return convert<T>(How::of(convert<Compute<T>>(x), convert<Compute<T>>(y)));
}

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
  std::int8_t dims;          ///< from 1
  std::int8_t dim;           ///< the indexed dimension, for errors
  bool wrap;                 ///< negative indices count from the end
  std::uint8_t unused[5]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(IndexedArgs, EMBER_FIELD(target), EMBER_FIELD(source), EMBER_FIELD(index),
                EMBER_FIELD(limit), EMBER_FIELD(step), EMBER_FIELD(size),
                EMBER_FIELD(target_stride), EMBER_FIELD(source_stride), EMBER_FIELD(index_stride),
                EMBER_FIELD(dims), EMBER_FIELD(dim), EMBER_FIELD(wrap), EMBER_FIELD(unused))

/// out[i] = the checked, wrapped index[i] times step.
struct OffsetArgs {
  std::int64_t* out;
  const std::int64_t* index;
  std::int64_t count;
  std::int64_t limit;
  std::int64_t step;
  std::int32_t dim;
  std::uint8_t unused[4]{};  ///< so that arguments compare byte by byte
};
EMBER_ARGUMENTS(OffsetArgs, EMBER_FIELD(out), EMBER_FIELD(index), EMBER_FIELD(count),
                EMBER_FIELD(limit), EMBER_FIELD(step), EMBER_FIELD(dim), EMBER_FIELD(unused))

}  // namespace ember::inline v0::ops
