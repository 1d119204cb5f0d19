// The caching allocator and the device: growing, giving back, and failing.
#include <algorithm>

#include "ember/base/error.h"
#include "ember/memory/caching_allocator.h"

namespace ember::memory {

using Kind = AllocEvent::Kind;

// Gets a segment for the request from the device, and hands out its beginning.
Status CachingAllocator::grow(const Request& request, Notices& notices, Block*& out) {
  const std::size_t bytes = segment_size(request.size);
  {
    BiasedGuard lock(mutex_);
    const std::size_t held = static_cast<std::size_t>(stats_.reserved()) + growing_;
    if (limit_ != kNoLimit && (held > limit_ || bytes > limit_ - held)) return Code::out_of_memory;
    growing_ += bytes;
  }
  void* address = nullptr;
  Status status = source_.allocate(bytes, address);
  BiasedGuard lock(mutex_);
  growing_ -= bytes;
  if (!status.ok()) return status;

  settle_returned();
  FreeList& list = list_of(request);
  Block* block = add_segment(address, bytes, list, notices);
  SplitChange change;
  if (should_split(list.small, bytes, request.size)) shelve(split(block, request.size), change);
  hand_out(block, request, change, notices);
  out = block;
  return {};
}

Block* CachingAllocator::add_segment(void* address, std::size_t size, FreeList& list,
                                     Notices& notices) {
  Block* block = pool_.take();
  block->set(reinterpret_cast<std::uintptr_t>(address), Block::cached);
  block->size = size;
  block->requested.store(0, std::memory_order_relaxed);
  block->list = &list;
  block->stream = list.stream;
  segments_[block->position()] = {size, block};
  map_.insert(block);
  emit(event_of(Kind::segment_allocated, *block), notices);
  return block;
}

Status CachingAllocator::empty_cache() {
  Notices notices(watch_);
  Reclaimed reclaimed = reclaim(notices);
  return reclaimed.waiting.ok() ? reclaimed.releasing : reclaimed.waiting;
}

// Step 7: waits for all recorded streams, then gives back every cached segment that is whole. One
// thread at a time, so that a second one that is short of memory finds what the first gave back.
CachingAllocator::Reclaimed CachingAllocator::reclaim(Notices& notices) {
  MutexLock turn(reclaim_);
  Reclaimed result;
  result.waiting =
      uses_.wait([&](const std::vector<StreamUse*>& uses) { finish_all(uses, notices); });
  std::vector<Block*> whole;
  {
    BiasedGuard lock(mutex_);
    flush_all();
    emit({.kind = Kind::synchronized_all}, notices);
    whole = pick_unsplit();
  }
  for (Block* block : whole) {
    Status status = release(block, notices);
    if (result.releasing.ok()) result.releasing = std::move(status);
  }
  return result;
}

// Takes all whole segments out of the lists, the map and the table: once the device has one back,
// it may give the same address to a thread that grows at this moment. They still count as reserved.
std::vector<Block*> CachingAllocator::pick_unsplit() {
  settle_returned();
  handed_ = nullptr;
  std::vector<Block*> whole;
  const auto pick = [&whole](Block* block) {
    if (!block->is_split()) whole.push_back(block);
  };
  for (const auto& [stream, lists] : lists_) {
    lists->small.for_each(pick);
    lists->large.for_each(pick);
  }
  std::sort(whole.begin(), whole.end(),
            [](const Block* a, const Block* b) { return a->position() < b->position(); });
  for (Block* block : whole) {
    block->list->remove(block);
    block->set(Block::releasing);
    map_.erase(block);
    segments_.erase(block->position());
  }
  return whole;
}

Status CachingAllocator::release(Block* block, Notices& notices) {
  Status status = source_.free(block->address());
  BiasedGuard lock(mutex_);
  if (status.ok()) {
    AllocEvent event = event_of(Kind::segment_freed, *block);
    event.requested = 0;
    emit(event, notices);
    pool_.give_back(block);
  } else {  // still ours
    segments_[block->position()] = {block->size, block};
    map_.insert(block);
    settle_returned();
    SplitChange none;
    shelve(block, none);
  }
  return status;
}

// Step 8.
void CachingAllocator::fail(const Request& request, Notices& notices) {
  OutOfMemory what;
  what.device = device_;
  what.segment = segment_size(request.size);
  what.requested = request.requested;
  (void)source_.memory_info(what.info);  // zeros say that not even this could be found out
  what.processes = source_.processes();
  {
    BiasedGuard lock(mutex_);
    caches_.settle(stats_);
    settle_returned();
    if (limit_ != kNoLimit) what.limit = limit_;
    if (const Block* block = list_of(request).largest()) what.largest_cached = block->size;
    for (const auto& [stream, lists] : lists_)
      if (const std::size_t bytes = lists->small.bytes() + lists->large.bytes(); bytes > 0)
        what.cached.push_back({stream, bytes});
    const cuda::MemoryCounters now = stats_.counters();
    what.allocated = now.allocated_bytes.all.current;
    what.reserved = now.reserved_bytes.all.current;
    what.waiting_blocks = now.active.all.current - now.allocation.all.current;
    what.waiting_bytes = now.active_bytes.all.current - now.allocated_bytes.all.current;
    emit({.kind = Kind::out_of_memory,
          .small = is_small(request.size),
          .stream = request.stream,
          .bytes = what.segment,
          .requested = request.requested},
         notices);
  }
  throw OutOfMemoryError(out_of_memory_text(what));
}

}  // namespace ember::memory
