// What the kernels of cumsum and cumprod get.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"

namespace ember::inline v0::ops {

struct ScanArgs {
  const void* in;  ///< contiguous, [outer, n, inner]; may be `out`
  void* out;
  void* scratch;  ///< what the implementation asked for
  std::int64_t outer, n, inner;
};
EMBER_ARGUMENTS(ScanArgs, EMBER_FIELD(in), EMBER_FIELD(out), EMBER_FIELD(scratch),
                EMBER_FIELD(outer), EMBER_FIELD(n), EMBER_FIELD(inner))

/// Few long rows are cut into tiles, of which each waits for the sum of those before it, and these
/// into groups. Here is where scratch memory keeps what, in bytes from its beginning: a ticket,
/// then per row a word for each tile and each group, and a value for each word.
struct ScanPlan {
  std::int64_t tiles = 1;   ///< per row; 1: rows are not cut
  std::int64_t groups = 1;  ///< per row
  std::size_t words = 0;
  std::size_t zeroed = 0;  ///< so many bytes have to be zero in the beginning
  std::size_t values = 0;
  std::size_t bytes = 0;  ///< 0: none is needed
};

/// Elements of a tile, for elements of `item` bytes.
constexpr std::int64_t scan_tile(std::size_t item) noexcept {
  return 16384 / (item > 4 ? static_cast<std::int64_t>(item) / 4 : 1);
}
/// Tiles of a group.
constexpr int kScanGroup = 128;

inline ScanPlan scan_plan(std::size_t item, std::int64_t outer, std::int64_t n,
                          std::int64_t inner) noexcept {
  constexpr std::int64_t kEnoughRows = 512;
  ScanPlan plan;
  if (inner > 1 || outer >= kEnoughRows || n <= scan_tile(item)) return plan;
  plan.tiles = (n + scan_tile(item) - 1) / scan_tile(item);
  plan.groups = (plan.tiles + kScanGroup - 1) / kScanGroup;
  const auto places = static_cast<std::size_t>(outer * (plan.tiles + plan.groups));
  plan.words = 256;
  plan.zeroed = plan.words + places * sizeof(std::uint64_t);
  plan.values = (plan.zeroed + 255) / 256 * 256;
  plan.bytes = plan.values + (item > 4 ? places * item : 0);
  return plan;
}

}  // namespace ember::inline v0::ops
