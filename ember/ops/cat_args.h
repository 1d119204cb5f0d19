// What the kernels of cat get. Elements are moved as units of 1 to 16 bytes, whatever their type.
#pragma once

#include <cstdint>

namespace ember::ops {

/// One input: contiguous, `rows` rows of `end` - (the end of the one before) units.
struct CatPart {
  const void* data;
  std::int64_t end;  ///< where its units end in a row of the output
};

/// The same in a table in memory, for many inputs.
struct CatEntry {
  CatPart part;
  std::int64_t first_tile;  ///< the number of its first tile: see cat_tile
};

inline constexpr int kCatParts = 12;

struct CatArgs {
  void* out;
  std::int64_t rows;
  std::int64_t pitch;     ///< units from one row of the output to the next
  std::int64_t begin;     ///< where the first input's units begin in a row
  const CatEntry* table;  ///< null: `parts` has them
  std::int64_t count;     ///< inputs
  std::int64_t tiles;     ///< of all inputs; for a table only
  CatPart parts[kCatParts];
};

/// Units of one input that one block moves: 4 KiB, at which an H200 copies fastest, or 2048 bytes
/// one by one.
constexpr std::int64_t cat_tile(int unit) { return unit > 1 ? 4096 / unit : 2048; }

}  // namespace ember::ops
