#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/replay/policies.h"
#include "tools/replay/torch_blocks.h"

namespace ember::replay {
namespace {

using Action = Entry::Action;

class Model {
 public:
  explicit Model(const Trace& trace) : trace_(trace) {}

  Outcome run() {
    for (at_ = 0; at_ < trace_.entries.size(); ++at_) {
      const Entry& entry = trace_.entries[at_];
      switch (entry.action) {
        case Action::segment_alloc: expected_.push_back(&entry); break;
        case Action::alloc: allocate(entry); break;
        case Action::free_requested: allocated_ -= live_.at(entry.address)->size; break;
        case Action::free_completed: complete(entry); break;
        case Action::segment_free: empty_cache(); break;
      }
    }
    return std::move(outcome_);
  }

 private:
  void differ(const std::string& what) {
    if (outcome_.differences++ == 0)
      outcome_.first_difference = "entry " + std::to_string(at_) + ": " + what;
  }
  void count_call() {
    ++(at_ < trace_.entries.size() / 10 ? outcome_.calls_first : outcome_.calls_after);
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
    outcome_.peaks.allocated = std::max(outcome_.peaks.allocated, allocated_);
  }

  Block* grow(const Entry& entry, std::uint64_t size, FreeBlocks& list) {
    const std::uint64_t bytes = size <= kSmall     ? 2 * kMiB
                                : size < 10 * kMiB ? 20 * kMiB
                                                   : round_up(size, 2 * kMiB);
    std::uint64_t address = elsewhere_;
    if (!expected_.empty() && expected_.front()->size == bytes &&
        expected_.front()->stream == entry.stream && expected_.front()->pool == entry.pool) {
      address = expected_.front()->address;
      expected_.pop_front();
    } else {
      differ(expected_.empty() ? "a segment of " + std::to_string(bytes) +
                                     " bytes is asked for, in the trace none was"
                               : "another segment is asked for than in the trace");
      if (!expected_.empty()) expected_.pop_front();
      elsewhere_ += bytes;
    }
    count_call();
    reserved_ += bytes;
    outcome_.peaks.reserved = std::max(outcome_.peaks.reserved, reserved_);
    Block* const block = blocks_.make(address, bytes, Block::State::in_use, list);
    segments_.emplace(address, std::pair(block, entry.pool));
    return block;
  }

  void complete(const Entry& entry) {
    const auto found = live_.find(entry.address);
    Block* const block = found->second;
    live_.erase(found);
    blocks_.free(block);
    // The first block of a segment is what that is known by.
    if (const auto segment = segments_.find(block->address); segment != segments_.end())
      segment->second.first = block;
  }

  /// At the first of entries in a row: all segments without a block in use go back, of private
  /// pools those that the trace names.
  void empty_cache() {
    if (at_ != 0 && trace_.entries[at_ - 1].action == Action::segment_free) return;
    std::set<std::uint64_t> named;
    for (std::size_t i = at_; i < trace_.entries.size(); ++i) {
      if (trace_.entries[i].action != Action::segment_free) break;
      named.insert(trace_.entries[i].address);
    }
    std::set<std::uint64_t> gone;
    for (auto at = segments_.begin(); at != segments_.end();) {
      const auto& [block, pool] = at->second;
      if (block->state != Block::State::free || block->after != nullptr ||
          (pool != 0 && !named.contains(at->first))) {
        ++at;
        continue;
      }
      Blocks::leave(block);
      reserved_ -= block->size;
      count_call();
      gone.insert(at->first);
      blocks_.drop(block);
      at = segments_.erase(at);
    }
    if (gone != named) differ("other segments go back");
  }

  const Trace& trace_;
  std::size_t at_ = 0;
  Outcome outcome_;
  std::uint64_t allocated_ = 0, reserved_ = 0;
  std::uint64_t elsewhere_ = std::uint64_t{1} << 61;  // of segments that are not in the trace
  std::deque<const Entry*> expected_;                 // segments of the trace, until they are used
  std::map<std::array<std::uint32_t, 3>, FreeBlocks> lists_;
  std::map<std::uint64_t, std::pair<Block*, std::uint32_t>> segments_;  // first block, and pool
  std::unordered_map<std::uint64_t, Block*> live_;                      // by addresses of the trace
  Blocks blocks_;
};

}  // namespace

Outcome replay_torch(const Trace& trace) { return Model(trace).run(); }

Outcome recorded(const Trace& trace) {
  Outcome outcome;
  std::uint64_t allocated = 0, reserved = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> blocks, segments;
  for (std::size_t i = 0; i < trace.entries.size(); ++i) {
    const Entry& entry = trace.entries[i];
    const bool is_segment =
        entry.action == Action::segment_alloc || entry.action == Action::segment_free;
    if (entry.action == Action::alloc) allocated += blocks[entry.address] = entry.size;
    if (entry.action == Action::free_requested) allocated -= blocks[entry.address];
    if (entry.action == Action::segment_alloc) reserved += segments[entry.address] = entry.size;
    if (entry.action == Action::segment_free) reserved -= segments[entry.address];
    if (is_segment) ++(i < trace.entries.size() / 10 ? outcome.calls_first : outcome.calls_after);
    outcome.peaks.allocated = std::max(outcome.peaks.allocated, allocated);
    outcome.peaks.reserved = std::max(outcome.peaks.reserved, reserved);
  }
  return outcome;
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

}  // namespace ember::replay
