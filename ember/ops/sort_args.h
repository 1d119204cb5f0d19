// What the kernels of sort and topk get. Everything is contiguous, in rows of n elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/arguments.h"
#include "ember/ops/key_order.h"

namespace ember::inline v0::ops {

// ---- topk

/// The longest result that the CUDA implementation of topk chooses; longer ones are sorted instead.
inline constexpr std::int64_t kMaxChosen = 1024;

/// How one row is divided among several blocks: each part gives its k first elements, and those are
/// the row of a second launch.
struct TopkParts {
  std::int64_t count = 1;
  std::int64_t size = 0;  ///< elements of each part but the last
  std::int64_t kept = 0;  ///< elements of all parts' results together
};
EMBER_ARGUMENTS(TopkParts, EMBER_FIELD(count), EMBER_FIELD(size), EMBER_FIELD(kept))

/// Few long rows are divided, so that there is work for a whole device. Every part but the last has
/// k elements and more.
inline TopkParts topk_parts(std::int64_t rows, std::int64_t n, std::int64_t k) noexcept {
  constexpr std::int64_t kBlocks = 1024;
  constexpr std::int64_t kLeast = 16384;  // fewer elements are not worth a block
  TopkParts parts{1, n, k};
  if (rows <= 0 || rows > kBlocks / 4 || n < 4 * kLeast) return parts;
  const std::int64_t blocks = kBlocks / rows;
  std::int64_t size = (n + blocks - 1) / blocks;
  if (size < kLeast) size = kLeast;
  if (size < 8 * k) size = 8 * k;
  if (size >= n) return parts;
  parts.size = size;
  parts.count = (n + size - 1) / size;
  const std::int64_t last = n - (parts.count - 1) * size;
  parts.kept = (parts.count - 1) * k + (last < k ? last : k);
  return parts;
}

struct TopkArgs {
  const void* in;
  void* values;           ///< rows of k elements, first ones first
  std::int64_t* indices;  ///< the same
  void* scratch;          ///< what the implementation asked for
  std::int64_t rows, n, k;
  KeyOrder order;
};
EMBER_ARGUMENTS(TopkArgs, EMBER_FIELD(in), EMBER_FIELD(values), EMBER_FIELD(indices),
                EMBER_FIELD(scratch), EMBER_FIELD(rows), EMBER_FIELD(n), EMBER_FIELD(k),
                EMBER_FIELD(order))

// ---- sort

struct SortArgs {
  const void* in;
  void* values;           ///< rows of n elements
  std::int64_t* indices;  ///< the same
  void* scratch;          ///< what the implementation asked for
  std::int64_t rows, n;
  KeyOrder order;
};
EMBER_ARGUMENTS(SortArgs, EMBER_FIELD(in), EMBER_FIELD(values), EMBER_FIELD(indices),
                EMBER_FIELD(scratch), EMBER_FIELD(rows), EMBER_FIELD(n), EMBER_FIELD(order))

/// Rows of at most this many elements are sorted by one block, without scratch memory.
inline constexpr std::int64_t kShortRow = 2048;
/// The most elements that one launch sorts, in as many whole rows: the CUDA implementation numbers
/// them in 32 bits. A longer row it refuses.
inline constexpr std::int64_t kMaxSorted = (std::int64_t{1} << 32) - 1;

/// The CUDA implementation sorts long rows by eight bits of the keys at a time, from the lowest to
/// the highest, and then by those of the rows' numbers: one pass over the data each. Here is where
/// scratch memory keeps what, in bytes from its beginning.
struct SortPlan {
  int passes = 0;
  std::int64_t tile = 0;  ///< elements that one block moves in one pass
  std::int64_t tiles = 0;
  std::size_t counts = 0;     ///< per pass and digit: uint32
  std::size_t tickets = 0;    ///< per pass: uint32
  std::size_t progress = 0;   ///< per pass, tile and digit: uint64
  std::size_t zeroed = 0;     ///< so many bytes have to be zero in the beginning
  std::size_t positions = 0;  ///< per element: uint32
  std::size_t keys = 0;       ///< per element: as wide as it
  std::size_t bytes = 0;
};

inline constexpr int kDigits = 256;

inline SortPlan sort_plan(std::size_t width, std::int64_t rows, std::int64_t n) noexcept {
  const auto aligned = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::int64_t count = rows * n;
  SortPlan plan;
  plan.passes = static_cast<int>(width);
  for (std::int64_t left = rows - 1; left > 0; left >>= 8) ++plan.passes;
  plan.tile = width == 8 ? 4096 : 8192;
  plan.tiles = (count + plan.tile - 1) / plan.tile;
  const auto passes = static_cast<std::size_t>(plan.passes);
  plan.tickets = passes * kDigits * sizeof(std::uint32_t);
  plan.progress = aligned(plan.tickets + passes * sizeof(std::uint32_t));
  plan.zeroed = plan.progress +
                passes * static_cast<std::size_t>(plan.tiles) * kDigits * sizeof(std::uint64_t);
  plan.positions = aligned(plan.zeroed);
  plan.keys = aligned(plan.positions + static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  plan.bytes = plan.keys + static_cast<std::size_t>(count) * width;
  return plan;
}

}  // namespace ember::inline v0::ops
