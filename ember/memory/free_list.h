// The free blocks of one pool, stream and kind of segment, searched by best fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ember/memory/block.h"

namespace ember::inline v0::memory {

/// Finds the smallest block that is large enough, the lowest address among equals: always exactly,
/// and in constant time on the common path. Sizes fall into bins: one per 512 bytes up to 64 KiB,
/// then 32 per power of two. A bitmap of two levels finds the next bin that is not empty; within a
/// bin a small treap, ordered by (size, address), keeps the answer exact. Nothing is allocated.
///
/// Not thread-safe: it belongs to the ledger's lock.
class FreeList {
 public:
  FreeList() = default;
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  void insert(Block* block) noexcept;
  /// The block must be in the list.
  void remove(Block* block) noexcept;
  /// The best block for `size` bytes, still in the list; null if none is large enough.
  Block* best_fit(std::size_t size) const noexcept;
  /// The largest block; null if the list is empty.
  Block* largest() const noexcept;
  /// Sum of the sizes of all blocks in it.
  std::size_t bytes() const noexcept { return bytes_; }

  /// Calls `function(block)` for every block, smallest first. The list must not change meanwhile.
  template <class Function>
  void for_each(const Function& function) const {
    for (Block* root : bins_) walk(root, function);
  }

 private:
  static constexpr int kExactBins = 128;  // up to 64 KiB
  static constexpr int kExactLog = 16;
  static constexpr int kLargestLog = 47;  // larger sizes share the last bin
  static constexpr int kBins = kExactBins + (kLargestLog - kExactLog + 1) * 32;
  static constexpr int kWords = kBins / 64;
  static_assert(kBins % 64 == 0 && kWords <= 32);

  static int bin_of(std::size_t size) noexcept;
  int next_bin(int first) const noexcept;

  template <class Function>
  static void walk(Block* root, const Function& function) {  // expected depth: logarithmic
    if (root == nullptr) return;
    walk(root->left, function);
    function(root);
    walk(root->right, function);
  }

  std::uint32_t summary_ = 0;  // bit w: words_[w] is not zero
  std::array<std::uint64_t, kWords> words_{};
  std::size_t bytes_ = 0;
  std::array<Block*, kBins> bins_{};
};

}  // namespace ember::inline v0::memory
