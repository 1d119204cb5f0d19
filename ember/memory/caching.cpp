#include "ember/memory/caching.h"

#include <utility>

namespace ember::inline v0::memory {
namespace {

void add_free(Block* block, SplitChange& change) noexcept {
  block->set(Block::free);
  block->segment->list->insert(block);
  if (!block->is_split()) return;
  ++change.blocks;
  change.bytes += static_cast<std::int64_t>(block->size);
}

void remove_free(Block* block, SplitChange& change) noexcept {
  block->segment->list->remove(block);
  block->set(Block::claimed);
  if (!block->is_split()) return;
  --change.blocks;
  change.bytes -= static_cast<std::int64_t>(block->size);
}

/// The rest of a block beyond `size` bytes becomes a block of its own, which is returned.
Block* split(Ledger& ledger, Block* block, std::size_t size) EMBER_REQUIRES(ledger.mutex) {
  Block* rest = ledger.records.take();
  rest->set(block->position() + size, Block::claimed);
  rest->size = block->size - size;
  rest->segment = block->segment;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size = size;
  ledger.map.insert(rest);
  return rest;
}

/// The reverse, for a neighbour that is in no list.
void absorb_next(Ledger& ledger, Block* block) EMBER_REQUIRES(ledger.mutex) {
  Block* gone = block->next;
  block->size += gone->size;
  block->next = gone->next;
  if (block->next != nullptr) block->next->previous = block;
  ledger.map.erase(gone);
  ledger.records.give_back(gone);
}

}  // namespace

// Note [The same block again]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Memory is often freed right after it was allocated, and the same is asked for again. Between the
// two the free lists did not change, so putting the block into them would make them exactly what
// they were before, and the next request of its stream and size would find it again. So such a
// block is not merged and put into a list, only counted as if it were: it is kept outside until the
// next request, and the results are the same. It is half of what an allocation costs (measured:
// 43 ns for both calls instead of 80). All other code that reads or changes the lists calls
// settle() first.
Block* CachingBackEnd::take(Ledger& ledger, const Request& request) {
  if (last_.waits && last_.size == request.size && last_.block->segment->stream == request.stream &&
      last_.block->segment->pool == request.pool) {
    last_.waits = false;
    ledger.stats.apply(is_small(request.size), last_.change);
    return last_.block;
  }
  settle(ledger);
  Pool::Lists& lists = request.pool->lists_of(request.stream);
  const bool small = is_small(request.size);
  Block* block = (small ? lists.small : lists.large).best_fit(request.size);
  if (block == nullptr) return nullptr;
  SplitChange change;
  remove_free(block, change);
  if (should_split(small, block->size, request.size))
    add_free(split(ledger, block, request.size), change);
  ledger.stats.apply(small, change);
  last_ = {block, request.size, change, false};
  return block;
}

void CachingBackEnd::fit(Ledger& ledger, Block* whole, const Request& request) {
  settle(ledger);
  Segment& segment = *whole->segment;
  Pool::Lists& lists = request.pool->lists_of(request.stream);
  segment.list = segment.small ? &lists.small : &lists.large;
  if (!should_split(segment.small, whole->size, request.size)) return;
  SplitChange change;
  add_free(split(ledger, whole, request.size), change);
  ledger.stats.apply(segment.small, change);
}

bool CachingBackEnd::keep(Ledger& ledger, Block* block) {
  const bool small = block->segment->small;  // before the block is merged away
  SplitChange change;
  if (block == last_.block && !last_.waits) {
    last_.waits = true;
    change = {-last_.change.blocks, -last_.change.bytes};
  } else {
    settle(ledger);
    insert(ledger, block, change);
  }
  ledger.stats.apply(small, change);
  return true;
}

// Free neighbours become one block: else a large request would find only pieces.
void CachingBackEnd::insert(Ledger& ledger, Block* block, SplitChange& change) {
  if (Block* before = block->previous; before != nullptr && before->state() == Block::free) {
    remove_free(before, change);
    absorb_next(ledger, before);
    block = before;
  }
  if (Block* after = block->next; after != nullptr && after->state() == Block::free) {
    remove_free(after, change);
    absorb_next(ledger, block);
  }
  add_free(block, change);
}

void CachingBackEnd::insert_last(Ledger& ledger) {
  last_.waits = false;
  SplitChange counted;
  insert(ledger, last_.block, counted);
}

void CachingBackEnd::trim(Ledger& ledger, Pool& pool, std::vector<Block*>& out) {
  settle(ledger);
  const std::size_t first = out.size();
  const auto pick = [&out](Block* block) {
    if (!block->is_split()) out.push_back(block);
  };
  for (const auto& [stream, lists] : pool.streams) {
    lists->small.for_each(pick);
    lists->large.for_each(pick);
  }
  SplitChange none;
  for (std::size_t i = first; i < out.size(); ++i) remove_free(out[i], none);
}

}  // namespace ember::inline v0::memory
