// What the kernels of cat get. Elements are moved as units of 1 to 16 bytes, whatever their type.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::ops {

/// One input. Its units fill, in their order, `rows` rows of `end` - (the end of the one before) of
/// the output. It has rows of its own: as many of `columns` adjacent units as that makes.
struct CatPart {
  const void* data;
  std::int64_t end;  ///< where its units end in a row of the output
  std::int64_t columns;
  std::int64_t pitch;  ///< units from one of its own rows to the next
};
EMBER_ARGUMENTS(CatPart, EMBER_FIELD(data), EMBER_FIELD(end), EMBER_FIELD(columns),
                EMBER_FIELD(pitch))

/// More inputs than this are the context of the kernel, a CatTable.
inline constexpr int kCatParts = 12;

/// Inputs that a launch owns, so that they are there whenever it is done, and done again.
struct CatTable final : driver::Context {
  explicit CatTable(std::vector<CatPart> inputs) : parts(std::move(inputs)) {}
  const std::vector<CatPart> parts;
};

struct CatArgs {
  void* out;
  std::int64_t rows;
  std::int64_t pitch;  ///< units from one row of the output to the next
  std::int64_t begin;  ///< where the first input's units begin in a row
  std::int64_t count;  ///< inputs
  CatPart parts[kCatParts];

  /// The inputs, for an implementation that runs `on` a launch.
  template <class Launch>
  const CatPart* inputs(const Launch& on) const noexcept {
    return count <= kCatParts ? parts : on.template context<CatTable>().parts.data();
  }
};
EMBER_ARGUMENTS(CatArgs, EMBER_FIELD(out), EMBER_FIELD(rows), EMBER_FIELD(pitch),
                EMBER_FIELD(begin), EMBER_FIELD(count), EMBER_FIELD(parts))

}  // namespace ember::inline v0::ops
