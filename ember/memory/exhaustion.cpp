// The allocator when the device has no more: pools that lend, callbacks that free, and the error.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "ember/base/error.h"
#include "ember/memory/device_allocator.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::memory {

using Kind = AllocEvent::Kind;

namespace {

const LeasedBlock* find_lease(const std::vector<LeasedBlock>& leased, const Block& block) {
  if (leased.empty() || block.state() != Block::allocated) return nullptr;
  const auto found = std::lower_bound(
      leased.begin(), leased.end(), block.position(),
      [](const LeasedBlock& one, std::uintptr_t position) { return one.address < position; });
  const bool is_this = found != leased.end() && found->address == block.position();
  return is_this && found->only ? &*found : nullptr;
}

void add_leased(cuda::OutOfMemoryReport& report, std::int32_t process, std::size_t bytes) {
  for (auto& of_process : report.leased)
    if (of_process.process == process) {
      of_process.bytes += bytes;
      return;
    }
  report.leased.push_back({process, bytes});
}

}  // namespace

// `waiting`: why nothing could be given back, if that is so.
BlockUse DeviceAllocator::last_resort(const Request& request, Status waiting) {
  if (const BlockUse use = borrow(request); use.block != nullptr) return use;
  if (const BlockUse use = await_leased(request, waiting); use.block != nullptr) return use;
  for (const Callback& callback : callbacks_to_ask()) {
    if (!ask(callback, describe(request, !waiting.ok()))) continue;
    if (const BlockUse use = try_again(request, waiting); use.block != nullptr) return use;
  }
  fail(request, waiting);
}

// Memory that only other processes have comes back a moment after they let it go, and may be on its
// way.
BlockUse DeviceAllocator::await_leased(const Request& request, Status& waiting) {
  constexpr int kPatience = 50;  // milliseconds
  if (!waiting.ok() || cuda::any_capture()) return {};
  const auto would_help = [&] {
    const OutOfMemory what = describe(request, false);
    return what.leased_fits ||
           (what.leased_releasable > 0 && what.leased_releasable >= what.report.missing);
  };
  const auto begun = std::chrono::steady_clock::now();
  const auto left = [&] {
    const auto gone = std::chrono::steady_clock::now() - begun;
    return kPatience -
           static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(gone).count());
  };
  bool settled = false;
  for (std::uint64_t seen = 0; left() > 0 && await_leases(seen, left());) {
    const bool owed = would_help();
    if (const BlockUse use = try_again(request, waiting); use.block != nullptr || !waiting.ok())
      return use;
    if (settled) break;
    if (owed) continue;
    // All is here, but perhaps not yet in the free lists.
    settled = true;
    seen = 0;
  }
  return {};
}

// A free block of a pool that is meant for this (MemPoolOptions::use_on_oom).
//
// Not where graphs are: their replays use what is free in their pool, and use again what was freed
// while they were captured.
BlockUse DeviceAllocator::borrow(const Request& request) {
  const MutexLock lock(ledger_.mutex);
  if (request.pool->graphs > 0) return {};
  for (const auto& pool : pools_) {
    if (!pool->options.use_on_oom || pool->asleep || pool->graphs > 0 ||
        pool.get() == request.pool || &pool->back_end != &request.pool->back_end)
      continue;
    Request of_pool = request;
    of_pool.pool = pool.get();
    const BlockUse use = take(of_pool);
    if (use.block == nullptr) continue;
    std::vector<std::pair<std::uintptr_t, std::uint64_t>> lent;
    for (const auto& one : pool->lent)
      if (ledger_.in_use(one)) lent.push_back(one);
    pool->lent = std::move(lent);
    pool->lent.emplace_back(use.block->position(), use.serial);
    return use;
  }
  return {};
}

// Steps 1, 2, 5 and 7 once more.
BlockUse DeviceAllocator::try_again(const Request& request, Status& waiting) {
  if (!uses_.empty()) check(finish_uses());
  if (any_pending_.load(std::memory_order_relaxed)) give_back_pending();
  const auto look = [&] {
    const MutexLock lock(ledger_.mutex);
    renew();
    return take(request);
  };
  if (const BlockUse use = look(); use.block != nullptr) return use;
  BlockUse use;
  Status status = grow(request, use);
  if (status.code() == Code::out_of_memory) {
    waiting = reclaim().waiting;
    if (waiting.code() == Code::not_permitted) return {};
    check(waiting);
    status = grow(request, use);
    if (status.code() == Code::out_of_memory) return look();
  }
  if (!status.ok()) request.pool->memory.fail(status);
  return use;
}

// ---- The error

OutOfMemory DeviceAllocator::describe(const Request& request, bool could_not_wait) {
  // Other threads may take memory from the device, or give it back, between the two looks at it:
  // what they have done would then be nobody's.
  for (int look = 0;; ++look) {
    driver::MemoryInfo before;
    (void)source_.memory_info(before);  // zeros say that not even this could be found out
    OutOfMemory what = describe_at(request, could_not_wait, before);
    driver::MemoryInfo after;
    constexpr int kMostLooks = 4;
    if (look == kMostLooks || !source_.memory_info(after).ok() || after.free == before.free)
      return what;
  }
}

OutOfMemory DeviceAllocator::describe_at(const Request& request, bool could_not_wait,
                                         const driver::MemoryInfo& info) {
  OutOfMemory what;
  cuda::OutOfMemoryReport& report = what.report;
  report.device = device_;
  report.requested = request.requested;
  what.grows = may_extend(request);
  report.segment = request.chunks != 0 ? request.chunks : request.pool->segment_bytes(request.size);
  if (what.grows && request.chunks == 0)  // what was asked for last
    report.segment = std::min(report.segment, round_up(request.size, kLargeRound));
  report.pool = request.pool->id;
  report.stream = request.stream;
  report.could_not_wait = could_not_wait;
  what.refusal = request.pool->memory.refusal();
  what.ordered = request.pool->memory.is_ordered();
  report.total = info.total;
  report.free = info.free;
  what.self = static_cast<std::uint32_t>(getpid());
  (void)source_.processes(what.processes);
  const std::vector<LeasedBlock> leased = leased_blocks(device_);
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    close_shards();
    back_end_->settle(ledger_);
    if (caps_.counts && limit_ != kNoLimit) report.limit = limit_;
    describe_segments(request, leased, what);
  }
  judge(what);
  return what;
}

void DeviceAllocator::describe_segments(const Request& request,
                                        const std::vector<LeasedBlock>& leased, OutOfMemory& what) {
  Pool::Lists& lists = request.pool->lists_of(request.stream);
  const Block* const block = lists.of(is_small(request.size)).largest();
  if (block != nullptr && !request.pool->asleep) what.report.largest_free_block = block->size;
  for (const auto& [stream, of_stream] : request.pool->streams)
    if (const std::size_t bytes = of_stream->small.bytes() + of_stream->large.bytes(); bytes > 0)
      what.cached.push_back({stream, bytes});
  const cuda::MemoryCounters now = ledger_.stats.counters();
  what.report.allocated = static_cast<std::size_t>(now.allocated_bytes.all.current);
  what.report.reserved = static_cast<std::size_t>(now.reserved_bytes.all.current);
  for (const auto& pool : pools_)
    if (pool->users > 0) what.report.pools.push_back({pool->id, 0, 0, 0});
  std::size_t held = 0;
  for (const auto& [address, segment] : ledger_.segments) {
    held += segment.bytes_held();
    describe_segment(segment, request, leased, what);
  }
  if (!caps_.counts) what.report.reserved = held;
  // What other threads are giving back counts as reserved, and is in no table any more.
  if (what.report.reserved > held) what.report.cached += what.report.reserved - held;
}

// By what each free piece is not given for.
void DeviceAllocator::describe_segment(const Segment& segment, const Request& request,
                                       const std::vector<LeasedBlock>& leased,
                                       OutOfMemory& what) const {
  cuda::OutOfMemoryReport& report = what.report;
  const bool may_serve = segment.pool == request.pool && segment.stream == request.stream &&
                         segment.small == is_small(request.size);
  /// Neighbours that could all be free: the longest, and what could go back then.
  struct Run {
    const Segment& segment;
    std::size_t bytes = 0, longest = 0, returnable = 0;
    std::uintptr_t start = 0;
    void add(const Block& block, bool goes_on) {
      if (goes_on) {
        if (bytes == 0) start = block.position();
        bytes += block.size;
        longest = std::max(longest, bytes);
      }
      if (bytes != 0 && (!goes_on || block.next == nullptr))
        returnable += segment.returnable(start, std::exchange(bytes, 0));
    }
  };
  const bool asleep = segment.pool->asleep;
  std::size_t free = 0, pending = 0, lent = 0;
  Run now{segment}, with_pending{segment}, with_lent{segment};
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (asleep && segment.asleep_at(block->position())) {
      // The counters have it, and the device does not.
      if (caps_.counts && block->state() == Block::allocated) report.allocated -= block->size;
      continue;
    }
    const bool parked = block->state() == Block::parked;
    // What another thread is giving back is nobody's, too.
    const bool is_free = block->state() == Block::free || block->state() == Block::releasing;
    if (is_free) free += block->size;
    if (block->state() == Block::allocated && !caps_.counts) report.allocated += block->size;
    if (parked) {
      pending += block->size;
      ++what.pending_blocks;
    }
    const LeasedBlock* const lease = find_lease(leased, *block);
    if (lease != nullptr) {
      lent += block->size;
      add_leased(report, lease->process, block->size);
    }
    now.add(*block, is_free);
    with_pending.add(*block, is_free || parked);
    with_lent.add(*block, is_free || lease != nullptr);
  }
  report.pending += pending;
  if (pending > 0 && may_serve && with_pending.longest >= request.size) what.pending_fits = true;
  if (lent > 0 && may_serve && with_lent.longest >= request.size) what.leased_fits = true;
  const auto of_pool = std::find_if(report.pools.begin(), report.pools.end(),
                                    [&](const auto& pool) { return pool.id == segment.pool->id; });
  if (of_pool != report.pools.end()) {
    report.private_pools += free;
    of_pool->reserved += segment.bytes_held();
    of_pool->free += free;
    of_pool->has_graphs = segment.pool->graphs > 0;
    of_pool->releasable += of_pool->has_graphs ? with_pending.returnable : now.returnable;
    return;
  }
  report.cached += now.returnable;
  report.fragmented += free - now.returnable;
  what.pending_releasable += with_pending.returnable - now.returnable;
  what.leased_releasable += with_lent.returnable - now.returnable;
}

// Step 8.
void DeviceAllocator::fail(const Request& request, const Status& waiting,
                           const std::string& what_for) {
  const OutOfMemory what = describe(request, !waiting.ok());
  {
    const MutexLock lock(ledger_.mutex);
    ledger_.emit({.kind = Kind::out_of_memory,
                  .small = is_small(request.size),
                  .stream = request.stream,
                  .bytes = what.report.segment,
                  .requested = request.requested,
                  .pool = request.pool->id,
                  .device_free = what.report.free});
  }
  tell_out_of_memory(what);
  throw OutOfMemoryError(what_for + out_of_memory_text(what),
                         std::make_shared<const cuda::OutOfMemoryReport>(what.report));
}

}  // namespace ember::inline v0::memory
