// What the kernels of cat get. Elements are moved as units of 1 to 16 bytes, whatever their type.
#pragma once

#include <cstdint>

namespace ember::ops {

/// One input: contiguous, `rows` rows of `end` - (the end of the one before) units.
struct CatPart {
  const void* data;
  std::int64_t end;  ///< where its units end in a row of the output
};

inline constexpr int kCatParts = 12;

struct CatArgs {
  void* out;
  std::int64_t rows;
  std::int64_t pitch;  ///< units from one row of the output to the next
  std::int64_t begin;  ///< where the first input's units begin in a row
  std::int64_t count;  ///< inputs
  /// Null: `parts` has them. Otherwise host memory: of the CPU; pinned for a simulated device,
  /// which reads it when it works; any for a real one, where it is read while the work is enqueued.
  const CatPart* table;
  CatPart parts[kCatParts];

  /// The inputs, for those who may read the host's memory as it is.
  const CatPart* inputs() const noexcept { return table != nullptr ? table : parts; }
};

}  // namespace ember::ops
