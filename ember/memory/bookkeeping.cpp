// The caching allocator's records: which list, which block, which event, which counter.
#include "ember/memory/caching_allocator.h"

namespace ember::memory {

using Kind = AllocEvent::Kind;

namespace {

cuda::Activity::Kind activity_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::allocated: return cuda::Activity::Kind::memory_allocated;
    case Kind::free_requested: return cuda::Activity::Kind::memory_free_requested;
    case Kind::free_completed: return cuda::Activity::Kind::memory_free_completed;
    case Kind::stream_recorded: return cuda::Activity::Kind::memory_stream_recorded;
    case Kind::segment_allocated: return cuda::Activity::Kind::segment_allocated;
    case Kind::segment_freed: return cuda::Activity::Kind::segment_freed;
    default: return cuda::Activity::Kind::out_of_memory;
  }
}

}  // namespace

FreeList& CachingAllocator::list_of(const Request& request) {
  if (last_lists_ == nullptr || last_lists_->small.stream != request.stream) {
    auto& lists = lists_[request.stream];
    if (lists == nullptr) lists = std::make_unique<StreamLists>(request.stream);
    last_lists_ = lists.get();
  }
  return is_small(request.size) ? last_lists_->small : last_lists_->large;
}

Block* CachingAllocator::containing(const void* inside) {
  const auto position = reinterpret_cast<std::uintptr_t>(inside);
  if (Block* block = map_.find(position)) return block;
  auto after = segments_.upper_bound(position);
  if (after == segments_.begin()) return nullptr;
  const auto& [start, segment] = *--after;
  if (position - start >= segment.size) return nullptr;
  Block* block = segment.first;
  while (block->next != nullptr && block->next->position() <= position) block = block->next;
  return block;
}

// An allocation is about to be counted while threads hold credit: see Note [Peak credits] in
// thread_cache.h.
void CachingAllocator::make_room(bool small, const Usage& usage) noexcept {
  if (!stats_.within_peaks(small, usage)) caches_.settle_for(small, usage, stats_);
}

void CachingAllocator::report(const AllocEvent& event, Notices& notices) {
  if (event.kind == Kind::retried || event.kind == Kind::synchronized_all) return;
  if (event.kind == Kind::freed) {
    for (const Kind kind : {Kind::free_requested, Kind::free_completed}) {
      AllocEvent part = event;
      part.kind = kind;
      report(part, notices);
    }
    return;
  }
  // Threads that began a session before anybody watched may hold credit.
  if (caches_.any_active()) caches_.settle(stats_);
  cuda::Activity activity;
  activity.kind = activity_of(event.kind);
  activity.device = device_;
  activity.stream = event.stream;
  activity.address = event.address;
  activity.bytes = event.bytes;
  activity.requested = event.requested;
  activity.total_allocated = static_cast<std::uint64_t>(stats_.allocated());
  activity.total_reserved = static_cast<std::uint64_t>(stats_.reserved());
  notices.add(activity);
}

void CachingAllocator::retire(ThreadCache& cache) noexcept {
  BiasedGuard lock(mutex_);
  flush(cache, /*end_session=*/true);
  caches_.disown(cache);
}

void CachingAllocator::flush_all() { put_back(caches_.drain(stats_)); }

void CachingAllocator::flush(ThreadCache& cache, bool end_session) {
  put_back(caches_.drain(cache, stats_, end_session));
}

// Blocks from threads' caches, chained. They were counted as free when their users freed them.
void CachingAllocator::put_back(Block* chain) {
  std::array<SplitChange, 2> changes;
  while (chain != nullptr) {
    Block* const block = chain;
    chain = block->link;
    merge_and_shelve(block, changes[block->list->small]);
  }
  for (const bool small : {false, true}) stats_.apply(small, changes[small]);
}

std::int64_t CachingAllocator::allocated() {
  if (!caches_.any_active()) return stats_.allocated();
  BiasedGuard lock(mutex_);
  caches_.settle(stats_);
  return stats_.allocated();
}

cuda::MemoryCounters CachingAllocator::counters() {
  BiasedGuard lock(mutex_);
  flush_all();
  caches_.settle(stats_);
  return stats_.counters();
}

void CachingAllocator::reset_peaks() {
  BiasedGuard lock(mutex_);
  caches_.settle(stats_);
  stats_.reset_peaks();
}

void CachingAllocator::set_limit(std::size_t bytes) {
  BiasedGuard lock(mutex_);
  limit_ = bytes;
}

std::vector<SegmentView> CachingAllocator::snapshot() {
  BiasedGuard lock(mutex_);
  flush_all();
  settle_returned();
  std::vector<SegmentView> views;
  views.reserve(segments_.size());
  for (const auto& [address, segment] : segments_) {
    SegmentView view{address, segment.size, segment.first->list->small, segment.first->stream, {}};
    for (const Block* block = segment.first; block != nullptr; block = block->next)
      view.blocks.push_back({block->position(), block->size,
                             block->state() == Block::free ? 0 : block->requested_bytes(),
                             block->state()});
    views.push_back(std::move(view));
  }
  return views;
}

void CachingAllocator::forget() noexcept {
  uses_.forget();
  BiasedGuard lock(mutex_);
  flush_all();
  caches_.settle(stats_);
  for (const auto& [address, segment] : segments_) {
    for (Block* block = segment.first; block != nullptr;) {
      Block* const next = block->next;
      // What was parked is gone with uses_.
      if (block->state() == Block::allocated) delete block->use;
      block->use = nullptr;
      map_.erase(block);
      pool_.give_back(block);
      block = next;
    }
  }
  segments_.clear();
  lists_.clear();
  last_lists_ = nullptr;
  handed_ = returned_ = nullptr;
  stats_.clear_current();
}

}  // namespace ember::memory
