#include "ember/memory/caching.h"

#include <algorithm>
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

/// Whether a free block of that size may serve a request: large blocks that are never split are not
/// wasted on small requests.
bool may_serve(const Settings& settings, std::size_t request, std::size_t block) noexcept {
  if (!settings.oversize(block)) return true;
  return settings.oversize(request) && block - request < settings.max_non_split_rounding;
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
  if (!plain_) [[unlikely]] {
    ++searches_;
    if (block != nullptr && !may_serve(settings(), request.size, block->size)) return nullptr;
  }
  if (block == nullptr) return nullptr;
  SplitChange change;
  remove_free(block, change);
  if (splits(small, block->size, request.size) && !request.pool->options.no_split)
    add_free(split(ledger, block, request.size), change);
  ledger.stats.apply(small, change);
  // The shortcut counts neither what is oversize nor how old a free block is.
  if (plain_) [[likely]]
    last_ = {block, request.size, change, false};
  else
    count_oversize(ledger, block);
  return block;
}

bool CachingBackEnd::splits(bool small, std::size_t block, std::size_t size) const noexcept {
  return should_split(small, block, size) && (plain_ || small || !settings().oversize(size));
}

void CachingBackEnd::count_oversize(Ledger& ledger, Block* block) {
  if (!settings().oversize(block->size)) return;
  block->oversize = true;
  ledger.stats.oversize(1);
}

void CachingBackEnd::freed(Ledger& ledger, Block* block) {
  if (!std::exchange(block->oversize, false)) return;
  ledger.stats.oversize(-1);
}

void CachingBackEnd::fit(Ledger& ledger, Block* whole, const Request& request) {
  settle(ledger);
  Segment& segment = *whole->segment;
  Pool::Lists& lists = request.pool->lists_of(request.stream);
  segment.list = segment.small ? &lists.small : &lists.large;
  if (splits(segment.small, whole->size, request.size)) {
    SplitChange change;
    add_free(split(ledger, whole, request.size), change);
    ledger.stats.apply(segment.small, change);
  }
  if (!plain_) count_oversize(ledger, whole);
}

bool CachingBackEnd::keep(Ledger& ledger, Block* block) {
  const bool small = block->segment->small;  // before the block is merged away
  SplitChange change;
  if (block == last_.block && !last_.waits) {
    last_.waits = true;
    change = {-last_.change.blocks, -last_.change.bytes};
  } else {
    settle(ledger);
    if (block->oversize) [[unlikely]]
      freed(ledger, block);
    insert(ledger, block, change);
  }
  ledger.stats.apply(small, change);
  return true;
}

// Free neighbours become one block: else a large request would find only pieces.
void CachingBackEnd::insert(Ledger& ledger, Block* block, SplitChange& change) const {
  if (Block* before = block->previous; before != nullptr && before->state() == Block::free) {
    remove_free(before, change);
    absorb_next(ledger, before);
    block = before;
  }
  if (Block* after = block->next; after != nullptr && after->state() == Block::free) {
    remove_free(after, change);
    absorb_next(ledger, block);
  }
  block->since = searches_;
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

// Chapter 8: whatever is at least as old as the average goes, again and again until it is enough.
// A block's age is the number of searches since it was freed.
void CachingBackEnd::collect(Ledger& ledger, Pool& pool, std::size_t bytes,
                             std::vector<Block*>& out) {
  settle(ledger);
  std::vector<Block*> whole;
  std::uint64_t total = 0;
  for (const auto& [stream, lists] : pool.streams)
    lists->large.for_each([&](Block* block) {
      if (block->is_split()) return;
      whole.push_back(block);
      total += searches_ - block->since;
    });
  SplitChange none;
  for (std::size_t taken = 0; taken < bytes && !whole.empty();) {
    const std::uint64_t average = total / whole.size();
    std::erase_if(whole, [&](Block* block) {
      const std::uint64_t age = searches_ - block->since;
      if (age < average) return false;
      total -= age;
      taken += block->size;
      remove_free(block, none);
      out.push_back(block);
      return true;
    });
  }
}

void CachingBackEnd::release_oversize(Ledger& ledger, const Request& request,
                                      std::vector<Block*>& out) {
  settle(ledger);
  const std::size_t limit = settings().max_split_size;
  if (limit == Settings::kUnlimited || is_small(request.size)) return;
  const std::size_t wanted = std::max(request.size, limit);
  FreeList& list = request.pool->lists_of(request.stream).large;
  std::vector<Block*> oversize;  // smallest first
  list.for_each([&](Block* block) {
    if (block->size >= limit && !block->is_split()) oversize.push_back(block);
  });
  SplitChange none;
  const auto take_out = [&](Block* block) {
    remove_free(block, none);
    out.push_back(block);
  };
  const auto enough = std::find_if(oversize.begin(), oversize.end(),
                                   [&](const Block* block) { return block->size >= wanted; });
  if (enough != oversize.end()) return take_out(*enough);
  std::size_t bytes = 0;
  for (auto block = oversize.rbegin(); block != oversize.rend() && bytes < wanted; ++block) {
    bytes += (*block)->size;
    take_out(*block);
  }
}

void CachingBackEnd::apply(Ledger& ledger, const Settings& settings) {
  settle(ledger);
  settings_.store(&settings, std::memory_order_release);
  plain_ = settings.plain();
  rounds_up_.store(settings.rounds_up(), std::memory_order_relaxed);
}

}  // namespace ember::inline v0::memory
