// Sizes: how requests are rounded, which segments they lead to, and when a block is split. Pure
// functions with the numbers of chapter 8 of the documents; all sizes are bytes.
#pragma once

#include <cstddef>

#include "ember/base/bytes.h"

namespace ember::inline v0::memory {

/// Unit of block sizes and alignment of block addresses.
inline constexpr std::size_t kMinBlock = 512;
/// Largest rounded size that is served from small segments.
inline constexpr std::size_t kSmallSize = 1 * kMiB;
inline constexpr std::size_t kSmallSegment = 2 * kMiB;
/// Sizes from here on get a segment of their own, rounded up to kLargeRound; smaller ones share
/// segments of kLargeSegment.
inline constexpr std::size_t kMinLargeAlloc = 10 * kMiB;
inline constexpr std::size_t kLargeSegment = 20 * kMiB;
inline constexpr std::size_t kLargeRound = 2 * kMiB;
/// Requests from here on are refused before any arithmetic is done with them.
inline constexpr std::size_t kTooLarge = std::size_t{1} << 60;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// The block size for a request of 1 to kTooLarge - 1 bytes.
constexpr std::size_t round_size(std::size_t bytes) { return round_up(bytes, kMinBlock); }

/// Whether a rounded size belongs to the small pool.
constexpr bool is_small(std::size_t size) { return size <= kSmallSize; }

/// What is asked of the device when no cached block fits a rounded size.
constexpr std::size_t segment_size(std::size_t size) {
  if (is_small(size)) return kSmallSegment;
  if (size < kMinLargeAlloc) return kLargeSegment;
  return round_up(size, kLargeRound);
}

/// Whether the rest of a block is worth keeping as a block when `size` bytes of it are handed out.
constexpr bool should_split(bool small_pool, std::size_t block_size, std::size_t size) {
  const std::size_t rest = block_size - size;
  return small_pool ? rest >= kMinBlock : rest > kSmallSize;
}

}  // namespace ember::inline v0::memory
