// Pieces of page-locked host memory: what they are, which sizes they have, and the free ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>

#include "ember/memory/size_policy.h"

namespace ember::inline v0::memory {

struct PinnedBlock;
struct StreamUse;

/// By size, then by address: the first that is not less is the best fit.
struct PinnedOrder {
  using is_transparent = void;
  bool operator()(const PinnedBlock* left, const PinnedBlock* right) const noexcept;
  bool operator()(const PinnedBlock* left, std::size_t bytes) const noexcept;
};
/// Free blocks. One that is not in it keeps its node (PinnedBlock::node), so that putting it back
/// takes nothing from the heap and cannot fail.
using PinnedFree = std::set<PinnedBlock*, PinnedOrder>;

/// What was page-locked at once. Its blocks tile it.
struct PinnedSegment {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t generation = 0;  ///< how many resets of devices there were before it was made
  bool reserved = false;         ///< stays until the end (pinned_reserve_segment_size_mb)
  PinnedBlock* first = nullptr;
  PinnedSegment* next = nullptr;  ///< in the list of those that go back
};

/// A piece of a segment. Its address is the "context" by which views of the memory know it.
struct PinnedBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  PinnedSegment* segment = nullptr;
  PinnedBlock* previous = nullptr;  ///< its neighbours in the segment
  PinnedBlock* next = nullptr;
  bool in_use = false;       ///< handed out, and not freed by its user
  bool free = false;         ///< neither in use nor by a stream
  int kept = 0;              ///< by so many graphs, also when its user has freed it
  StreamUse* use = nullptr;  ///< streams that copy from or to it
  PinnedFree::node_type node;

  bool whole() const noexcept { return previous == nullptr && next == nullptr; }
};

inline bool PinnedOrder::operator()(const PinnedBlock* left,
                                    const PinnedBlock* right) const noexcept {
  return left->bytes != right->bytes ? left->bytes < right->bytes : left->data < right->data;
}
inline bool PinnedOrder::operator()(const PinnedBlock* left, std::size_t bytes) const noexcept {
  return left->bytes < bytes;
}

/// Sizes, and how much is kept. All are bytes.
struct PinnedPolicy {
  /// Unit of sizes and alignment of addresses: what a transfer moves at once.
  static constexpr std::size_t kUnit = 64;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kUnlimited = ~std::size_t{0};

  bool caching = true;  ///< else each block is a segment of exactly what was asked for, once
  std::size_t max_round_threshold = kUnlimited;  ///< larger sizes are multiples of the unit
  std::size_t max_cached = kUnlimited;           ///< of whole segments that nobody uses
  std::size_t reserve = 0;                       ///< the first segment that is this large stays

  /// Eight sizes between two powers of two: a block is less than an eighth larger than the request,
  /// or than 64 bytes.
  std::size_t block_bytes(std::size_t requested) const noexcept {
    if (!caching) return requested;
    if (requested > max_round_threshold || requested <= 8 * kUnit)
      return round_up(requested, kUnit);
    return round_up(requested, std::bit_floor(requested - 1) / 8);
  }
  /// Small blocks share segments.
  std::size_t segment_bytes(std::size_t block) const noexcept {
    if (!caching) return block;
    return is_small(block) ? kSmallSegment : round_up(block, kPage);
  }

  friend bool operator==(const PinnedPolicy&, const PinnedPolicy&) = default;
};

}  // namespace ember::inline v0::memory
