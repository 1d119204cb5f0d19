// Chapter 8 of the documents, written down as simply as possible and without a look at the
// allocator: sets, searched from the beginning. It tells which address each allocation must give.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "ember/memory/counters.h"
#include "tests/memory/fake_source.h"

namespace ember::test {

class ReferenceModel {
 public:
  enum class State { free, in_use, waiting };
  struct Block {
    std::size_t size = 0, requested = 0, segment = 0;  // segment: its start
    bool small = false;
    std::uintptr_t stream = 0;
    std::size_t pool = 0;
    State state = State::free;
    std::set<std::uintptr_t> used_on;
    int events = 0;
  };
  std::map<std::uintptr_t, Block> blocks;          // by address
  std::map<std::uintptr_t, std::size_t> segments;  // sizes, by address
  std::optional<std::size_t> limit;
  struct Pool {
    bool lends = false, whole = false;  // use_on_oom, no_split
    int users = 1;
    bool keeps = true;  // false: without the cache
  };
  /// 0: everybody's. 1: of allocations without the cache.
  std::vector<Pool> pools{{}, {false, true, 0, false}};
  static constexpr std::size_t kEverybodys = 0, kUncached = 1;

  explicit ReferenceModel(std::size_t capacity) : device_(capacity) {}

  /// The address, or nothing: out of memory.
  std::optional<std::uintptr_t> allocate(std::size_t bytes, std::uintptr_t stream,
                                         std::size_t pool = kEverybodys) {
    const std::size_t size = pools[pool].keeps ? (bytes + 511) / 512 * 512 : bytes;
    poll();                                                          // 1
    auto address = from_free(size, bytes, stream, pool);             // 2
    if (!address) address = from_device(size, bytes, stream, pool);  // 5
    if (!address) {                                                  // 7
      give_back();
      ++counters.num_alloc_retries;
      address = from_device(size, bytes, stream, pool);
      if (!address) address = from_free(size, bytes, stream, pool);  // ours: better than failing
      for (std::size_t lender = 0; pools[pool].keeps && lender < pools.size(); ++lender)
        if (!address && pools[lender].lends && lender != pool)
          address = from_free(size, bytes, stream, lender);
      if (!address) ++counters.num_ooms;  // 8
    }
    return address;
  }

  void free(std::uintptr_t address) {
    Block& block = blocks.at(address);
    add(counters.allocation, block.small, -1);
    add(counters.allocated_bytes, block.small, -static_cast<std::int64_t>(block.size));
    if (block.used_on.empty()) return finish(address);
    block.state = State::waiting;
    for (const std::uintptr_t stream : block.used_on) {
      queues_[stream].push_back({address, ++recorded_[stream]});
      ++block.events;
    }
    block.used_on.clear();
  }

  void record_stream(std::uintptr_t address, std::uintptr_t stream) {
    Block& block = blocks.at(address);
    if (stream != block.stream) block.used_on.insert(stream);
  }
  void complete(std::uintptr_t stream) { done_[stream] = recorded_[stream]; }

  /// Everybody's and that of pools that nobody needs; or one pool's.
  void give_back(std::optional<std::size_t> only = {}) {
    for (auto& [stream, number] : recorded_) done_[stream] = number;
    poll();
    ++counters.num_sync_all_streams;
    for (auto it = segments.begin(); it != segments.end();) {
      const auto& [address, size] = *it;
      const Block& block = blocks.at(address);
      const bool meant =
          only ? block.pool == *only : block.pool == kEverybodys || pools[block.pool].users == 0;
      if (block.state != State::free || block.size != size || !meant) {
        ++it;
        continue;
      }
      free_[key_of(block)].erase({size, address});
      it = drop_segment(it);
    }
  }

  void reset_peaks() {
    for (auto* group :
         {&counters.allocation, &counters.segment, &counters.active, &counters.allocated_bytes,
          &counters.reserved_bytes, &counters.active_bytes, &counters.requested_bytes})
      for (auto* counter : {&group->all, &group->small_pool, &group->large_pool})
        counter->peak = counter->current;
  }

  /// All but inactive_split, of which only the current values are kept, by counting.
  cuda::MemoryCounters counted() {
    counters.inactive_split = counters.inactive_split_bytes = {};
    for (const auto& [address, block] : blocks) {
      if (block.state != State::free || block.size == segments.at(block.segment)) continue;
      add(counters.inactive_split, block.small, 1);
      add(counters.inactive_split_bytes, block.small, static_cast<std::int64_t>(block.size));
    }
    return counters;
  }

  cuda::MemoryCounters counters;

 private:
  using Segments = std::map<std::uintptr_t, std::size_t>;
  Segments::iterator drop_segment(Segments::iterator it) {
    const auto& [address, size] = *it;
    const Block& block = blocks.at(address);
    add(counters.segment, block.small, -1);
    add(counters.reserved_bytes, block.small, -static_cast<std::int64_t>(size));
    ++counters.num_device_free;
    (void)device_.give_back(reinterpret_cast<void*>(address));
    blocks.erase(address);
    return segments.erase(it);
  }

  using Key = std::tuple<std::size_t, bool, std::uintptr_t>;
  static Key key_of(const Block& block) { return {block.pool, block.small, block.stream}; }

  static void add(cuda::PoolCounters& group, bool small, std::int64_t change) {
    for (auto* counter : {&group.all, small ? &group.small_pool : &group.large_pool}) {
      counter->current += change;
      counter->peak = std::max(counter->peak, counter->current);
      (change > 0 ? counter->allocated : counter->freed) += std::abs(change);
    }
  }

  std::optional<std::uintptr_t> from_free(std::size_t size, std::size_t bytes,
                                          std::uintptr_t stream, std::size_t pool) {
    const bool small = size <= 1048576;
    const Key key(pool, small, stream);
    const auto best = free_[key].lower_bound({size, 0});  // smallest, then lowest address
    if (best == free_[key].end()) return std::nullopt;
    const std::uintptr_t address = best->second;
    take(address, size, bytes);
    return address;
  }

  std::optional<std::uintptr_t> from_device(std::size_t size, std::size_t bytes,
                                            std::uintptr_t stream, std::size_t pool) {
    const bool small = size <= 1048576;
    const std::size_t segment = pools[pool].whole ? size
                                : small           ? 2097152
                                : size < 10485760 ? 20971520
                                                  : (size + 2097151) / 2097152 * 2097152;
    const auto reserved = static_cast<std::size_t>(counters.reserved_bytes.all.current);
    if (limit && reserved + segment > *limit) return std::nullopt;
    void* pointer = nullptr;
    if (!device_.obtain(segment, pointer).ok()) return std::nullopt;
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    segments[address] = segment;
    blocks[address] = {segment, 0, address, small, stream, pool, State::free, {}, 0};
    free_[{pool, small, stream}].insert({segment, address});
    add(counters.segment, small, 1);
    add(counters.reserved_bytes, small, static_cast<std::int64_t>(segment));
    ++counters.num_device_alloc;
    take(address, size, bytes);
    return address;
  }

  void take(std::uintptr_t address, std::size_t size, std::size_t bytes) {
    Block& block = blocks.at(address);
    free_[key_of(block)].erase({block.size, address});
    const std::size_t rest = block.size - size;
    if (!pools[block.pool].whole && (block.small ? rest >= 512 : rest > 1048576)) {
      block.size = size;
      Block remainder = block;
      remainder.size = rest;
      blocks[address + size] = remainder;
      free_[key_of(block)].insert({rest, address + size});
    }
    block.state = State::in_use;
    block.requested = bytes;
    add(counters.allocation, block.small, 1);
    add(counters.allocated_bytes, block.small, static_cast<std::int64_t>(block.size));
    add(counters.active, block.small, 1);
    add(counters.active_bytes, block.small, static_cast<std::int64_t>(block.size));
    add(counters.requested_bytes, block.small, static_cast<std::int64_t>(bytes));
  }

  void finish(std::uintptr_t address) {
    auto it = blocks.find(address);
    add(counters.active, it->second.small, -1);
    add(counters.active_bytes, it->second.small, -static_cast<std::int64_t>(it->second.size));
    add(counters.requested_bytes, it->second.small,
        -static_cast<std::int64_t>(it->second.requested));
    it->second.state = State::free;
    if (!pools[it->second.pool].keeps) {
      drop_segment(segments.find(address));
      return;
    }
    auto& free = free_[key_of(it->second)];
    const auto joins = [&](auto a, auto b) {
      return a->second.state == State::free && b->second.state == State::free &&
             a->second.segment == b->second.segment;
    };
    if (it != blocks.begin() && joins(std::prev(it), it)) {
      const auto before = std::prev(it);
      free.erase({before->second.size, before->first});
      before->second.size += it->second.size;
      blocks.erase(it);
      it = before;
    }
    if (const auto after = std::next(it); after != blocks.end() && joins(it, after)) {
      free.erase({after->second.size, after->first});
      it->second.size += after->second.size;
      blocks.erase(after);
    }
    free.insert({it->second.size, it->first});
  }

  void poll() {
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty() && queue.front().number <= done_[stream]) {
        const std::uintptr_t address = queue.front().address;
        queue.pop_front();
        if (--blocks.at(address).events == 0) finish(address);
      }
    }
  }

  struct Event {
    std::uintptr_t address = 0;
    std::uint64_t number = 0;
  };
  FakeDevice device_;
  std::map<Key, std::set<std::pair<std::size_t, std::uintptr_t>>> free_;
  std::map<std::uintptr_t, std::deque<Event>> queues_;
  std::map<std::uintptr_t, std::uint64_t> recorded_, done_;
};

}  // namespace ember::test
