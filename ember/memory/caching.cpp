#include "ember/memory/caching.h"

#include <algorithm>
#include <utility>

namespace ember::inline v0::memory {
namespace {

// Segments that grow are not counted: any chunk of them can go back, whatever lies beside it.
void add_free(Block* block, SplitChange& change) noexcept {
  block->segment->free_blocks->insert(block);
  if (!block->is_split() || block->segment->grows) return;
  ++change.blocks;
  change.bytes += static_cast<std::int64_t>(block->size);
}

void remove_free(Block* block, SplitChange& change) noexcept {
  block->segment->free_blocks->remove(block);
  if (!block->is_split() || block->segment->grows) return;
  --change.blocks;
  change.bytes -= static_cast<std::int64_t>(block->size);
}

/// Whether a free block may serve a request of that size: large blocks that are never split are not
/// wasted on small requests.
bool may_serve(const Settings& settings, std::size_t request, const Block& block) noexcept {
  if (!settings.oversize(block.size) || block.segment->grows) return true;
  return settings.oversize(request) && block.size - request < settings.max_non_split_rounding;
}

/// Takes ranges out that have no memory at all.
void take_unmapped(FreeBlocks& blocks, std::vector<Block*>& out) {
  for (auto each = blocks.unmapped.begin(); each != blocks.unmapped.end();) {
    Block* const block = each->second;
    if (block->is_split()) {
      ++each;
      continue;
    }
    block->set(Block::releasing);
    out.push_back(block);
    each = blocks.unmapped.erase(each);
  }
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
  const FreeBlocks& blocks = lists.of(small);
  Block* block = blocks.list.best_fit(request.size);
  if (!plain_) [[unlikely]] {
    ++searches_;
    if (block != nullptr && !may_serve(settings(), request.size, *block)) block = nullptr;
  }
  if (block == nullptr) block = blocks.ends.best_fit(request.size);
  if (block == nullptr) return nullptr;
  SplitChange change;
  remove_free(block, change);
  if (splits(*block, request.size) && !request.pool->options.no_split)
    add_free(ledger.split(block, request.size), change);
  ledger.stats.apply(small, change);
  // The shortcut counts neither what is oversize nor how old a free block is.
  if (plain_) [[likely]]
    last_ = {block, request.size, change, false};
  else
    count_oversize(ledger, block);
  return block;
}

bool CachingBackEnd::splits(const Block& block, std::size_t size) const noexcept {
  const bool small = block.segment->small;
  if (block.segment->grows) return block.size - size >= kMinBlock;
  return should_split(small, block.size, size) && (plain_ || small || !settings().oversize(size));
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
  segment.free_blocks = &lists.of(segment.small);
  if (splits(*whole, request.size)) {
    SplitChange change;
    add_free(ledger.split(whole, request.size), change);
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
Block* CachingBackEnd::insert(Ledger& ledger, Block* block, SplitChange& change) const {
  if (Block* before = block->previous; before != nullptr && before->state() == Block::free) {
    remove_free(before, change);
    ledger.absorb_next(before);
    block = before;
  }
  if (Block* after = block->next; after != nullptr && after->state() == Block::free) {
    remove_free(after, change);
    ledger.absorb_next(block);
  }
  block->since = searches_;
  add_free(block, change);
  return block;
}

void CachingBackEnd::insert_last(Ledger& ledger) {
  last_.waits = false;
  SplitChange counted;
  insert(ledger, last_.block, counted);
}

void CachingBackEnd::trim(Ledger& ledger, Pool& pool, std::vector<Block*>& out) {
  settle(ledger);
  std::vector<Block*> whole, growing;
  const auto pick = [&](Block* block) {
    if (block->segment->grows)
      growing.push_back(block);
    else if (!block->is_split())
      whole.push_back(block);
  };
  for (const auto& [stream, lists] : pool.streams)
    for (FreeBlocks* blocks : {&lists->small, &lists->large}) {
      blocks->for_each(pick);
      take_unmapped(*blocks, out);
    }
  SplitChange none;
  for (Block* block : whole) remove_free(block, none);
  out.insert(out.end(), whole.begin(), whole.end());
  for (Block* block : growing) take_chunks(ledger, block, out);
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
      if (block->segment->returnable(block->position(), block->size) == 0) return;
      whole.push_back(block);
      total += searches_ - block->since;
    });
  SplitChange none;
  for (std::size_t taken = 0; taken < bytes && !whole.empty();) {
    const std::uint64_t average = total / whole.size();
    std::erase_if(whole, [&](Block* block) EMBER_REQUIRES(ledger.mutex) {
      const std::uint64_t age = searches_ - block->since;
      if (age < average) return false;
      total -= age;
      taken += block->segment->returnable(block->position(), block->size);
      if (block->segment->grows) {
        take_chunks(ledger, block, out);
      } else {
        remove_free(block, none);
        out.push_back(block);
      }
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
  const FreeBlocks& blocks = request.pool->lists_of(request.stream).large;
  std::vector<Block*> oversize;  // smallest first
  blocks.list.for_each([&](Block* block) {
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

// ---- Segments that grow

// The lowest addresses without memory that are enough, together with what is free beside them; the
// end of a range is enough for anything.
BackEnd::Growth CachingBackEnd::begin_growth(Ledger& ledger, const Request& request) {
  settle(ledger);
  const bool small = is_small(request.size);
  FreeBlocks& blocks = request.pool->lists_of(request.stream).of(small);
  const auto free_bytes = [](const Block* block) {
    return block != nullptr && block->state() == Block::free ? block->size : 0;
  };
  for (const auto& [address, at] : blocks.unmapped) {
    Block* const unmapped = at;  // what is taken out of the map below ends there
    const std::size_t before = free_bytes(unmapped->previous), after = free_bytes(unmapped->next);
    if (before + unmapped->size + after < request.size) continue;
    const std::size_t missing = request.size - std::min(before, request.size - 1);
    const std::size_t wanted =
        request.below != 0
            ? round_up(missing, kLargeRound)
            : settings().growth_bytes(request.size, missing, unmapped->segment->bytes_held());
    const std::size_t bytes = std::min(wanted, unmapped->size);
    if (request.below != 0 && bytes >= request.below) continue;
    Growth growth{before != 0 ? unmapped->previous : nullptr, unmapped, nullptr};
    if (after != 0 && bytes == unmapped->size) growth.after = unmapped->next;
    blocks.unmapped.erase(address);
    unmapped->set(Block::claimed);
    if (bytes < unmapped->size) set_unmapped(ledger, ledger.split(unmapped, bytes));
    if (growth.before != nullptr) blocks.remove(growth.before);
    if (growth.after != nullptr) blocks.remove(growth.after);
    return growth;
  }
  return {};
}

// Others may have freed what lies beside it meanwhile.
Block* CachingBackEnd::end_growth(Ledger& ledger, const Growth& growth) {
  settle(ledger);
  if (growth.after != nullptr) ledger.absorb_next(growth.part);
  Block* block = growth.part;
  if (growth.before != nullptr) {
    block = growth.before;
    ledger.absorb_next(block);
  }
  SplitChange none;
  block = insert(ledger, block, none);
  remove_free(block, none);
  return block;
}

void CachingBackEnd::cancel_growth(Ledger& ledger, const Growth& growth) {
  settle(ledger);
  set_unmapped(ledger, growth.part);
  SplitChange none;
  for (Block* block : {growth.before, growth.after})
    if (block != nullptr) insert(ledger, block, none);
}

Block* CachingBackEnd::set_unmapped(Ledger& ledger, Block* block) {
  settle(ledger);
  FreeBlocks& blocks = *block->segment->free_blocks;
  block->set(Block::unmapped);
  if (Block* const after = block->next; after != nullptr && after->state() == Block::unmapped) {
    blocks.unmapped.erase(after->position());
    ledger.absorb_next(block);
  }
  Block* const before = block->previous;
  if (before != nullptr && before->state() == Block::unmapped) {
    ledger.absorb_next(before);
    return before;
  }
  blocks.unmapped.emplace(block->position(), block);
  if (before != nullptr && before->state() == Block::free) {  // is in another list from here on
    blocks.remove(before);
    blocks.insert(before);
  }
  return block;
}

// A block for each chunk within a free one; the rest of it stays free.
void CachingBackEnd::take_chunks(Ledger& ledger, Block* block, std::vector<Block*>& out) {
  const std::map<std::uintptr_t, SegmentChunk>& chunks = block->segment->chunks;
  const std::uintptr_t end = block->position() + block->size;
  auto chunk = chunks.lower_bound(block->position());
  const auto is_within = [&] {
    return chunk != chunks.end() && chunk->first + chunk->second.bytes <= end;
  };
  if (!is_within()) return;
  FreeBlocks& blocks = *block->segment->free_blocks;
  blocks.remove(block);
  if (chunk->first > block->position()) {
    Block* const rest = ledger.split(block, chunk->first - block->position());
    blocks.insert(block);
    block = rest;
  }
  for (; is_within(); ++chunk) {
    const std::size_t bytes = chunk->second.bytes;
    Block* const rest = block->size > bytes ? ledger.split(block, bytes) : nullptr;
    block->set(Block::releasing);
    out.push_back(block);
    block = rest;
    if (block == nullptr) return;
  }
  blocks.insert(block);
}

void CachingBackEnd::apply(Ledger& ledger, const Settings& settings) {
  settle(ledger);
  settings_.store(&settings, std::memory_order_release);
  plain_ = settings.plain();
  rounds_up_.store(settings.rounds_up(), std::memory_order_relaxed);
}

}  // namespace ember::inline v0::memory
