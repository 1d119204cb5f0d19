#include "ember/memory/block_map.h"

namespace ember::inline v0::memory {

BlockMap::BlockMap() {
  tables_.push_back(std::make_unique<Table>(log_));
  table_.store(tables_.back().get(), std::memory_order_release);
}

Block* BlockMap::find(std::uintptr_t position) const noexcept {
  const Table& table = *table_.load(std::memory_order_acquire);
  for (std::size_t i = table.home(position);; i = (i + 1) & table.mask) {
    const std::uintptr_t here = table.slots[i].position.load(std::memory_order_relaxed);
    // The table is at most half full, so there is an end.
    if (here == 0) return nullptr;
    if (here == position) return table.slots[i].block.load(std::memory_order_acquire);
  }
}

void BlockMap::put(Table& table, std::uintptr_t position, Block* block) noexcept {
  std::size_t i = table.home(position);
  while (table.slots[i].position.load(std::memory_order_relaxed) != 0) i = (i + 1) & table.mask;
  table.slots[i].block.store(block, std::memory_order_release);
  table.slots[i].position.store(position, std::memory_order_release);
}

void BlockMap::insert(Block* block) {
  Table* table = table_.load(std::memory_order_relaxed);
  if (2 * (size_ + 1) > table->mask) {
    grow();
    table = table_.load(std::memory_order_relaxed);
  }
  put(*table, block->position(), block);
  ++size_;
}

void BlockMap::erase(const Block* block) noexcept {
  Table& table = *table_.load(std::memory_order_relaxed);
  const std::uintptr_t position = block->position();
  std::size_t hole = table.home(position);
  while (table.slots[hole].position.load(std::memory_order_relaxed) != position)
    hole = (hole + 1) & table.mask;
  // Entries behind the hole move up unless that would put them before their home, so that no
  // search is cut short and no tombstones pile up.
  for (std::size_t i = (hole + 1) & table.mask;; i = (i + 1) & table.mask) {
    const std::uintptr_t there = table.slots[i].position.load(std::memory_order_relaxed);
    if (there == 0) break;
    const std::size_t distance = (i - table.home(there)) & table.mask;
    if (distance < ((i - hole) & table.mask)) continue;
    table.slots[hole].block.store(table.slots[i].block.load(std::memory_order_relaxed),
                                  std::memory_order_release);
    table.slots[hole].position.store(there, std::memory_order_release);
    hole = i;
  }
  table.slots[hole].position.store(0, std::memory_order_relaxed);
  table.slots[hole].block.store(nullptr, std::memory_order_relaxed);
  --size_;
}

void BlockMap::grow() {
  const Table& old = *table_.load(std::memory_order_relaxed);
  auto larger = std::make_unique<Table>(++log_);
  for (std::size_t i = 0; i <= old.mask; ++i)
    if (const std::uintptr_t position = old.slots[i].position.load(std::memory_order_relaxed))
      put(*larger, position, old.slots[i].block.load(std::memory_order_relaxed));
  table_.store(larger.get(), std::memory_order_release);
  tables_.push_back(std::move(larger));
}

}  // namespace ember::inline v0::memory
