#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "ember/replay/policies.h"
#include "ember/replay/tally.h"
#include "ember/replay/torch_blocks.h"

namespace ember::inline v0::replay {
namespace {

using Action = Entry::Action;
using State = Block::State;

/// More addresses than a trace can need, whose blocks lie below 2^57: each range has its own, from
/// 0 on.
constexpr std::uint64_t kAddresses = std::uint64_t{1} << 62;

/// The addresses of one stream, pool and kind: mapped page by page, from the lowest on.
struct Range {
  std::uint64_t page = 0;
  std::uint32_t pool = 0;
  FreeBlocks free;
  std::map<std::uint64_t, Block*> unmapped;  // by address
};

class ExpandableModel {
 public:
  ExpandableModel(const Trace& trace, const Limits& limits)
      : trace_(trace), tally_(trace, limits) {}

  Outcome run() {
    for (at_ = 0; at_ < trace_.entries.size() && !tally_.failed(); ++at_) {
      const Entry& entry = trace_.entries[at_];
      switch (entry.action) {
        case Action::alloc: allocate(entry); break;
        case Action::free_requested:
          allocated_ -= live_.at(entry.address)->size;
          waiting_.insert(entry.address);
          break;
        case Action::free_completed: complete(entry.address); break;
        case Action::segment_free:
        case Action::segment_unmap:
          if (trace_.empties(at_)) empty_cache(trace_.pools_emptied(at_));
          break;
        case Action::segment_alloc:
        case Action::segment_map: break;
      }
      tally_.note(at_, allocated_, reserved_);
    }
    return std::move(tally_.outcome);
  }

 private:
  /// Nothing uses the block any longer. It may have been waited for before.
  void complete(std::uint64_t address) {
    if (waiting_.erase(address) == 0) return;
    const auto found = live_.find(address);
    blocks_.free(found->second);
    live_.erase(found);
  }

  void allocate(const Entry& entry) {
    const std::uint64_t size = round_up(entry.size, kLeast);
    const bool small = size <= kSmall;
    const auto [at, is_new] = ranges_.try_emplace({entry.stream, entry.pool, small});
    Range& range = at->second;
    if (is_new) {
      range.page = small ? 2 * kMiB : 20 * kMiB;
      range.pool = entry.pool;
      range.unmapped[0] = blocks_.make(0, kAddresses, State::unmapped, range.free);
    }
    Block* block = best_fit(range, size);
    if (block == nullptr) block = extend(range, size);
    if (block == nullptr) {
      tally_.fail_for_memory(at_, entry.size, allocated_, reserved_);
      return;
    }
    Blocks::leave(block);
    // With expandable segments every remainder is worth keeping, which sizes make 512 at least.
    if (block->size != size) Blocks::enter(blocks_.cut(block, size));
    live_[entry.address] = block;
    allocated_ += block->size;
  }

  /// As large as a block counts that can still grow is what it could grow to: the ends of ranges
  /// are left for what fits nowhere else.
  static Block* best_fit(Range& range, std::uint64_t size) {
    auto best = range.free.lower_bound({size, 0});
    if (best == range.free.end()) return nullptr;
    const auto could_be = [](const Block* block) {
      const Block* const after = block->after;
      return block->size + (after != nullptr && after->state == State::unmapped ? after->size : 0);
    };
    for (auto next = std::next(best);
         next != range.free.end() && could_be(next->second) < could_be(best->second); ++next)
      best = next;
    return best->second;
  }

  /// Maps what is missing to a block of that size, which is free then; null if the device has too
  /// little memory, also when streams have been waited for and the cache is empty.
  Block* extend(Range& range, std::uint64_t size) {
    Block* found = place(range, size);
    if (!tally_.fits(reserved_, missing(range, found, size))) {
      while (!waiting_.empty()) complete(*waiting_.begin());
      empty_cache({});
      found = place(range, size);
      if (!tally_.fits(reserved_, missing(range, found, size))) return nullptr;
    }
    if (found->state == State::unmapped) map(range, found, size);
    while (found->size < size) {
      Block* const next = found->after;
      map(range, next, size - found->size);
      found = next;  // has taken in what was before it
    }
    return found;
  }
  /// The bytes that have to be mapped for so many from a block on.
  static std::uint64_t missing(const Range& range, const Block* from, std::uint64_t size) {
    std::uint64_t mapped = 0;
    for (const Block* block = from; size != 0; block = block->after) {
      std::uint64_t has = block->size;
      if (block->state == State::unmapped) {
        has = std::min(round_up(size, range.page), has);
        mapped += has;
      }
      size -= std::min(has, size);
    }
    return mapped;
  }

  /// The lowest addresses that are unmapped, or free right before that, and are enough together.
  static Block* place(const Range& range, std::uint64_t size) {
    Block* found = range.unmapped.begin()->second;  // the end of a range is never mapped
    for (const auto& [address, unmapped] : range.unmapped) {
      found = unmapped;
      if (found->before != nullptr && found->before->state == State::free) found = found->before;
      std::uint64_t bytes = 0;
      for (const Block* next = found;
           next != nullptr && next->state != State::in_use && bytes < size; next = next->after)
        bytes += next->size;
      if (bytes >= size) break;
    }
    return found;
  }

  /// As many of its first pages as have so many bytes. Then it is free.
  void map(Range& range, Block* block, std::uint64_t bytes) {
    const std::uint64_t mapped = std::min(round_up(bytes, range.page), block->size);
    range.unmapped.erase(block->address);
    if (mapped < block->size) {
      Block* const rest = blocks_.cut(block, mapped);
      range.unmapped[rest->address] = rest;
    }
    tally_.call(at_);
    reserved_ += mapped;
    blocks_.free(block);
  }

  /// The pages of which nothing is in use go back; of private pools, of those.
  void empty_cache(const std::set<std::uint32_t>& pools) {
    for (auto& [key, range] : ranges_) {
      if (range.pool != 0 && !pools.contains(range.pool)) continue;
      std::vector<Block*> free;
      for (const auto& [size, block] : range.free) free.push_back(block);
      for (Block* const block : free) unmap(range, block);
    }
  }
  void unmap(Range& range, Block* block) {
    const std::uint64_t begin = round_up(block->address, range.page);
    const std::uint64_t end = (block->address + block->size) / range.page * range.page;
    if (begin >= end) return;
    Blocks::leave(block);
    if (block->address + block->size > end) Blocks::enter(blocks_.cut(block, end - block->address));
    if (begin > block->address) {
      Block* const pages = blocks_.cut(block, begin - block->address);
      Blocks::enter(block);
      block = pages;
    }
    tally_.call(at_);
    reserved_ -= block->size;
    block->state = State::unmapped;
    for (Block* const next : {block->before, block->after})
      if (next != nullptr && next->state == State::unmapped) {
        range.unmapped.erase(next->address);
        blocks_.take_in(block, next);
      }
    range.unmapped[block->address] = block;
  }

  const Trace& trace_;
  Tally tally_;
  std::size_t at_ = 0;
  std::uint64_t allocated_ = 0, reserved_ = 0;
  std::map<std::array<std::uint32_t, 3>, Range> ranges_;
  std::unordered_map<std::uint64_t, Block*> live_;  // by addresses of the trace
  std::set<std::uint64_t> waiting_;                 // for streams: the same
  Blocks blocks_;
};

}  // namespace

Outcome replay_expandable(const Trace& trace, const Limits& limits) {
  return ExpandableModel(trace, limits).run();
}

}  // namespace ember::inline v0::replay
