// Where the free blocks of one pool, stream and kind of segment are found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "ember/memory/free_list.h"

namespace ember::inline v0::memory {

/// Not thread-safe: it belongs to the ledger's lock.
struct FreeBlocks {
  FreeList list;
  FreeList ends;  ///< those before addresses without memory: taken last, so that they can grow
  std::map<std::uintptr_t, Block*> unmapped;  ///< addresses without memory, lowest first

  /// The block is free from here on.
  void insert(Block* block) noexcept {
    block->set(Block::free);
    block->at_end =
        block->segment->grows && block->next != nullptr && block->next->state() == Block::unmapped;
    (block->at_end ? ends : list).insert(block);
  }
  /// The block is claimed from here on.
  void remove(Block* block) noexcept {
    (block->at_end ? ends : list).remove(block);
    block->set(Block::claimed);
  }
  /// The largest block; null if there is none.
  Block* largest() const noexcept {
    Block* const one = list.largest();
    Block* const other = ends.largest();
    if (one == nullptr || other == nullptr) return one != nullptr ? one : other;
    return one->size >= other->size ? one : other;
  }
  /// Sum of the sizes of all that are free.
  std::size_t bytes() const noexcept { return list.bytes() + ends.bytes(); }
  /// Calls `function(block)` for every free block. They must not change meanwhile.
  template <class Function>
  void for_each(const Function& function) const {
    list.for_each(function);
    ends.for_each(function);
  }
};

}  // namespace ember::inline v0::memory
