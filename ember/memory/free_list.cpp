#include "ember/memory/free_list.h"

#include <algorithm>
#include <bit>

namespace ember::inline v0::memory {
namespace {

bool before(const Block* a, const Block* b) noexcept {
  return a->size != b->size ? a->size < b->size : a->position() < b->position();
}

// The treap's priorities need no storage: a hash of the address is as good as a random number.
std::uint64_t priority(const Block* block) noexcept {
  return (block->position() / kMinBlock) * 0x9E3779B97F4A7C15u;
}

void hang(Block** link, Block* node) noexcept {
  *link = node;
  if (node != nullptr) node->holder = link;
}

void tree_insert(Block** link, Block* node) noexcept {
  while (*link != nullptr && priority(*link) >= priority(node))
    link = before(node, *link) ? &(*link)->left : &(*link)->right;
  // What was here becomes the two sides of the new node.
  Block* rest = *link;
  hang(link, node);
  Block** smaller = &node->left;
  Block** larger = &node->right;
  while (rest != nullptr) {
    Block**& side = before(rest, node) ? smaller : larger;
    Block** inner = &side == &smaller ? &rest->right : &rest->left;
    hang(side, rest);
    side = inner;
    rest = *inner;
  }
  *smaller = *larger = nullptr;
}

// Needs no search: a block knows the link that leads to it.
void tree_remove(Block* node) noexcept {
  Block** link = node->holder;
  Block* smaller = node->left;
  Block* larger = node->right;
  while (smaller != nullptr && larger != nullptr) {
    if (priority(smaller) >= priority(larger)) {
      hang(link, smaller);
      link = &smaller->right;
      smaller = smaller->right;
    } else {
      hang(link, larger);
      link = &larger->left;
      larger = larger->left;
    }
  }
  hang(link, smaller != nullptr ? smaller : larger);
}

}  // namespace

int FreeList::bin_of(std::size_t size) noexcept {
  if (size <= kExactBins * kMinBlock) return static_cast<int>(size / kMinBlock) - 1;
  const auto log = static_cast<int>(std::bit_width(size)) - 1;
  if (log > kLargestLog) return kBins - 1;
  const auto step = static_cast<int>((size >> (log - 5)) & 31);
  return kExactBins + (log - kExactLog) * 32 + step;
}

int FreeList::next_bin(int first) const noexcept {
  const int word = first / 64;
  if (word >= kWords) return -1;
  if (const std::uint64_t here = words_[word] >> (first % 64); here != 0)
    return first + std::countr_zero(here);
  const std::uint64_t later = std::uint64_t{summary_} >> (word + 1);
  if (later == 0) return -1;
  const int found = word + 1 + std::countr_zero(later);
  return found * 64 + std::countr_zero(words_[found]);
}

void FreeList::insert(Block* block) noexcept {
  const int bin = bin_of(block->size);
  tree_insert(&bins_[bin], block);
  words_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_ |= std::uint32_t{1} << (bin / 64);
  bytes_ += block->size;
}

void FreeList::remove(Block* block) noexcept {
  const int bin = bin_of(block->size);
  tree_remove(block);
  bytes_ -= block->size;
  if (bins_[bin] != nullptr) return;
  words_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (words_[bin / 64] == 0) summary_ &= ~(std::uint32_t{1} << (bin / 64));
}

Block* FreeList::best_fit(std::size_t size) const noexcept {
  const int bin = bin_of(size);
  Block* best = nullptr;
  for (Block* node = bins_[bin]; node != nullptr;) {
    if (node->size >= size) {
      best = node;
      node = node->left;
    } else {
      node = node->right;
    }
  }
  if (best != nullptr) return best;
  const int next = next_bin(bin + 1);
  if (next < 0) return nullptr;
  best = bins_[next];
  while (best->left != nullptr) best = best->left;
  return best;
}

Block* FreeList::largest() const noexcept {
  if (summary_ == 0) return nullptr;
  const auto word = static_cast<std::size_t>(std::bit_width(summary_)) - 1;
  Block* node = bins_[word * 64 + static_cast<std::size_t>(std::bit_width(words_[word])) - 1];
  while (node->right != nullptr) node = node->right;
  return node;
}

}  // namespace ember::inline v0::memory
