// The blocks of a model of PyTorch's allocator: neighbours in memory, and free ones by size.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace ember::inline v0::replay {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kLeast = 512;   ///< every block is a multiple of it
inline constexpr std::uint64_t kSmall = kMiB;  ///< the largest block of a small segment

inline std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

struct Block;
/// Free blocks of one stream, pool and kind, the smallest first, of those the lowest.
using FreeBlocks = std::map<std::pair<std::uint64_t, std::uint64_t>, Block*>;

struct Block {
  enum class State : std::uint8_t {
    in_use,    ///< also while streams may still use it
    free,      ///< in its list
    unmapped,  ///< addresses without memory
  };
  std::uint64_t address = 0, size = 0;
  State state = State::in_use;
  FreeBlocks* list = nullptr;
  Block* before = nullptr;
  Block* after = nullptr;
};

class Blocks {
 public:
  using State = Block::State;

  /// In no list, and without neighbours.
  Block* make(std::uint64_t address, std::uint64_t size, State state, FreeBlocks& list) {
    if (unused_.empty()) {
      blocks_.push_back(std::make_unique<Block>());
      unused_.push_back(blocks_.back().get());
    }
    Block* const block = unused_.back();
    unused_.pop_back();
    *block = {address, size, state, &list, nullptr, nullptr};
    return block;
  }
  void drop(Block* block) { unused_.push_back(block); }

  static void enter(Block* block) {
    block->state = State::free;
    block->list->emplace(std::pair(block->size, block->address), block);
  }
  static void leave(Block* block) {
    block->list->erase({block->size, block->address});
    block->state = State::in_use;
  }
  /// What is left of a block that is in no list, behind its first `size` bytes: it is in none, too.
  Block* cut(Block* block, std::uint64_t size) {
    Block* const rest = make(block->address + size, block->size - size, block->state, *block->list);
    rest->before = block;
    rest->after = block->after;
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
  }
  /// Takes in both neighbours that are free; then the block is free.
  void free(Block* block) {
    for (Block* const next : {block->before, block->after})
      if (next != nullptr && next->state == State::free) {
        leave(next);
        take_in(block, next);
      }
    enter(block);
  }
  /// Takes in a neighbour, which is in no list.
  void take_in(Block* block, Block* neighbour) {
    if (neighbour == block->before) {
      block->address = neighbour->address;
      block->before = neighbour->before;
      if (block->before != nullptr) block->before->after = block;
    } else {
      block->after = neighbour->after;
      if (block->after != nullptr) block->after->before = block;
    }
    block->size += neighbour->size;
    drop(neighbour);
  }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> unused_;
};

}  // namespace ember::inline v0::replay
