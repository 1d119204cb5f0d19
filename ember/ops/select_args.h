// What the kernels of nonzero and masked_select get. Masks are contiguous bools.
#pragma once

#include <cstdint>

#include "ember/driver/arguments.h"

namespace ember::inline v0::ops {

/// Masks are counted in tiles: where the chosen elements of a tile go is known before any is moved.
inline constexpr std::int64_t kSelectTile = 4096;

struct CountArgs {
  const bool* mask;
  std::int64_t count;
  std::int64_t* before;  ///< chosen elements before each tile, and last: all of them
};
EMBER_ARGUMENTS(CountArgs, EMBER_FIELD(mask), EMBER_FIELD(count), EMBER_FIELD(before))

inline constexpr int kMaxCoordinates = 64;

/// For masked_select, `item` is the bytes of an element, and `in` has as many as the mask. For
/// nonzero it is zero, and the coordinates of chosen elements are stored: rows of `dims` int64.
struct SelectArgs {
  const bool* mask;
  const std::int64_t* before;
  const void* in;
  void* out;
  std::int64_t count;   ///< elements of the mask
  std::int64_t chosen;  ///< of them
  int item;
  int dims;
  std::int64_t sizes[kMaxCoordinates];
};
EMBER_ARGUMENTS(SelectArgs, EMBER_FIELD(mask), EMBER_FIELD(before), EMBER_FIELD(in),
                EMBER_FIELD(out), EMBER_FIELD(count), EMBER_FIELD(chosen), EMBER_FIELD(item),
                EMBER_FIELD(dims), EMBER_FIELD(sizes))

}  // namespace ember::inline v0::ops
