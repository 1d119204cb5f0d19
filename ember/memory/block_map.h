// From an address to the block that begins there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ember/memory/block.h"

namespace ember::inline v0::memory {

/// An open-addressing table of all blocks that exist, free or not. Writers hold the ledger's
/// lock. Readers need none, but a find() beside a writer may miss a block, or return a record
/// that has just changed its meaning. So an answer must be confirmed with Block::claim(), and a
/// miss must be repeated under the lock before it is believed.
class BlockMap {
 public:
  BlockMap();

  /// The block that begins at `position`, or null. Exact for a caller that holds the lock.
  Block* find(std::uintptr_t position) const noexcept;
  /// `block->position()` must not be in the map. Under the lock.
  void insert(Block* block);
  /// `block->position()` must be in the map. Under the lock.
  void erase(const Block* block) noexcept;
  std::size_t size() const noexcept { return size_; }

 private:
  struct Slot {
    std::atomic<std::uintptr_t> position{0};  // zero: empty
    std::atomic<Block*> block{nullptr};
  };
  struct Table {
    explicit Table(int log)
        : shift(64 - log), mask((std::size_t{1} << log) - 1), slots(new Slot[mask + 1]) {}
    std::size_t home(std::uintptr_t position) const noexcept {
      return static_cast<std::size_t>(((position / kMinBlock) * 0x9E3779B97F4A7C15u) >> shift);
    }
    int shift;
    std::size_t mask;
    std::unique_ptr<Slot[]> slots;
  };

  static void put(Table& table, std::uintptr_t position, Block* block) noexcept;
  void grow();

  alignas(64) std::atomic<Table*> table_;  // read without the lock: apart from what changes
  // Outgrown tables stay, since a reader may be in one. Each is half the size of the next, so
  // together they are smaller than the one in use.
  alignas(64) std::vector<std::unique_ptr<Table>> tables_;
  std::size_t size_ = 0;
  int log_ = 10;
};

}  // namespace ember::inline v0::memory
