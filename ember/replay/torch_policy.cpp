#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/replay/policies.h"
#include "ember/replay/tally.h"
#include "ember/replay/torch_blocks.h"

namespace ember::inline v0::replay {
namespace {

using Action = Entry::Action;

class TorchModel {
 public:
  TorchModel(const Trace& trace, const Limits& limits) : trace_(trace), tally_(trace, limits) {
    tally_.outcome.compared = limits.memory == 0 && !trace.grows();
  }

  Outcome run() {
    for (at_ = 0; at_ < trace_.entries.size() && !tally_.failed(); ++at_) {
      const Entry& entry = trace_.entries[at_];
      switch (entry.action) {
        case Action::segment_alloc: expected_.push_back(&entry); break;
        case Action::alloc: allocate(entry); break;
        case Action::free_requested:
          allocated_ -= live_.at(entry.address)->size;
          waiting_.insert(entry.address);
          break;
        case Action::free_completed: complete(entry.address); break;
        case Action::segment_free:
        case Action::segment_unmap:
          if (trace_.empties(at_)) empty_cache();
          break;
        case Action::segment_map: break;
      }
      tally_.note(at_, allocated_, reserved_);
    }
    return std::move(tally_.outcome);
  }

 private:
  struct Segment {
    Block* first = nullptr;
    std::uint32_t pool = 0;
    std::uint64_t bytes = 0;
  };

  void differ(const std::string& what) {
    if (!tally_.outcome.compared) return;
    if (tally_.outcome.differences++ == 0)
      tally_.outcome.first_difference = "entry " + std::to_string(at_) + ": " + what;
  }
  void allocate(const Entry& entry) {
    const std::uint64_t size = round_up(entry.size, kLeast);
    const bool small = size <= kSmall;
    FreeBlocks& list = lists_[{entry.stream, entry.pool, small}];
    Block* block = nullptr;
    if (const auto best = list.lower_bound({size, 0}); best != list.end()) {
      block = best->second;
      Blocks::leave(block);
    } else {
      block = grow(entry, size, list);
      if (block == nullptr) return;
    }
    if (!expected_.empty()) {
      differ("a free block serves it, in the trace a segment was asked for");
      expected_.clear();
    }
    const std::uint64_t rest = block->size - size;
    if (small ? rest >= kLeast : rest > kSmall) Blocks::enter(blocks_.cut(block, size));
    if (block->address != entry.address) differ("the block lies elsewhere");
    live_[entry.address] = block;
    allocated_ += block->size;
  }

  Block* grow(const Entry& entry, std::uint64_t size, FreeBlocks& list) {
    const std::uint64_t bytes = size <= kSmall     ? 2 * kMiB
                                : size < 10 * kMiB ? 20 * kMiB
                                                   : round_up(size, 2 * kMiB);
    if (!tally_.fits(reserved_, bytes)) {
      // Streams are waited for, and the cache is emptied.
      while (!waiting_.empty()) complete(*waiting_.begin());
      give_back([](std::uint64_t, std::uint32_t pool) { return pool == 0; });
      if (!tally_.fits(reserved_, bytes)) {
        tally_.fail_for_memory(at_, entry.size, allocated_, reserved_);
        return nullptr;
      }
    }
    std::uint64_t address = elsewhere_;
    if (!expected_.empty() && expected_.front()->size == bytes &&
        expected_.front()->stream == entry.stream && expected_.front()->pool == entry.pool &&
        is_vacant(expected_.front()->address, bytes)) {
      address = expected_.front()->address;
      expected_.pop_front();
    } else {
      differ(expected_.empty() ? "a segment of " + std::to_string(bytes) +
                                     " bytes is asked for, in the trace none was"
                               : "another segment is asked for than in the trace");
      if (!expected_.empty()) expected_.pop_front();
      elsewhere_ += bytes;
    }
    tally_.call(at_);
    reserved_ += bytes;
    Block* const block = blocks_.make(address, bytes, Block::State::in_use, list);
    segments_.emplace(address, Segment{block, entry.pool, bytes});
    return block;
  }
  /// Whether none of the segments that there are lies there: once one differs, they may.
  bool is_vacant(std::uint64_t address, std::uint64_t bytes) const {
    const auto after = segments_.lower_bound(address + bytes);
    if (after == segments_.begin()) return true;
    const auto last = std::prev(after);
    return last->first + last->second.bytes <= address;
  }

  /// Nothing uses the block any longer. It may have been waited for before.
  void complete(std::uint64_t address) {
    if (waiting_.erase(address) == 0) return;
    const auto found = live_.find(address);
    Block* const block = found->second;
    live_.erase(found);
    blocks_.free(block);
    // The first block of a segment is what that is known by.
    if (const auto segment = segments_.find(block->address); segment != segments_.end())
      segment->second.first = block;
  }

  /// All segments without a block in use go back, of private pools those that the trace names.
  void empty_cache() {
    std::set<std::uint64_t> named;
    for (std::size_t i = at_; i < trace_.entries.size() && trace_.entries[i].gives_back(); ++i)
      named.insert(trace_.entries[i].address);
    const std::set<std::uint32_t> pools = trace_.pools_emptied(at_);
    const bool compared = tally_.outcome.compared;
    const auto gone = give_back([&](std::uint64_t address, std::uint32_t pool) {
      return pool == 0 || (compared ? named.contains(address) : pools.contains(pool));
    });
    if (gone != named) differ("other segments go back");
  }
  /// Those without a block in use that are wanted: their addresses.
  template <class Wanted>
  std::set<std::uint64_t> give_back(const Wanted& wanted) {
    std::set<std::uint64_t> gone;
    for (auto at = segments_.begin(); at != segments_.end();) {
      const auto& [block, pool, bytes] = at->second;
      if (block->state != Block::State::free || block->after != nullptr ||
          !wanted(at->first, pool)) {
        ++at;
        continue;
      }
      Blocks::leave(block);
      reserved_ -= block->size;
      tally_.call(at_);
      gone.insert(at->first);
      blocks_.drop(block);
      at = segments_.erase(at);
    }
    return gone;
  }

  const Trace& trace_;
  Tally tally_;
  std::size_t at_ = 0;
  std::uint64_t allocated_ = 0, reserved_ = 0;
  std::uint64_t elsewhere_ = std::uint64_t{1} << 61;  // of segments that are not in the trace
  std::deque<const Entry*> expected_;                 // segments of the trace, until they are used
  std::map<std::array<std::uint32_t, 3>, FreeBlocks> lists_;
  std::map<std::uint64_t, Segment> segments_;
  std::unordered_map<std::uint64_t, Block*> live_;  // by addresses of the trace
  std::set<std::uint64_t> waiting_;                 // for streams: the same
  Blocks blocks_;
};

}  // namespace

Outcome replay_torch(const Trace& trace, const Limits& limits) {
  return TorchModel(trace, limits).run();
}

Outcome recorded(const Trace& trace) {
  Tally tally(trace, {});
  std::uint64_t allocated = 0, reserved = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> blocks, segments;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const Entry& entry = trace.entries[i];
    switch (entry.action) {
      case Action::alloc: allocated += blocks[entry.address] = entry.size; break;
      case Action::free_requested: allocated -= blocks[entry.address]; break;
      case Action::free_completed: break;
      case Action::segment_alloc: reserved += segments[entry.address] = entry.size; break;
      case Action::segment_free: reserved -= segments[entry.address]; break;
      case Action::segment_map: reserved += entry.size; break;
      case Action::segment_unmap: reserved -= entry.size; break;
    }
    if (entry.gives_back() || (entry.comes() && entry.action != Action::alloc)) tally.call(i);
    tally.note(i, allocated, reserved);
  }
  return std::move(tally.outcome);
}

Verdict judge(const Trace& trace, const Outcome& torch, const Outcome& expandable,
              const Outcome& ember) {
  const Peaks native = trace.native.value_or(torch.peaks);
  const Peaks growing = trace.expandable.value_or(expandable.peaks);
  Verdict verdict;
  verdict.most_reserved = std::min(native.reserved, growing.reserved) + 2 * kMiB * trace.places();
  verdict.reserved = ember.peaks.reserved <= verdict.most_reserved;
  verdict.calls = ember.calls_after <= torch.calls_after;
  return verdict;
}

}  // namespace ember::inline v0::replay
