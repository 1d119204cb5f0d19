#include "ember/memory/caching_allocator.h"

#include "ember/base/error.h"

namespace ember::memory {

using Kind = AllocEvent::Kind;

class EMBER_THREAD_NOTE(scoped_lockable) CachingAllocator::Hold {
 public:
  explicit Hold(CachingAllocator& allocator) EMBER_THREAD_NOTE(acquire_capability(allocator.mutex_))
      : mutex_(allocator.mutex_) {
    if (mutex_.try_lock()) [[likely]]
      return;
    mutex_.lock();
    allocator.caches_.join();
  }
  ~Hold() EMBER_THREAD_NOTE(release_capability()) { mutex_.unlock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  SpinLock& mutex_;
};

CachingAllocator::CachingAllocator(int device, SegmentSource& source)
    : device_(device), source_(source), uses_(source, device), caches_(*this) {}

CachingAllocator::~CachingAllocator() {
  SpinGuard lock(mutex_);
  for (const auto& [address, segment] : segments_) {
    for (Block* block = segment.first; block != nullptr; block = block->next)
      if (block->state() == Block::allocated) delete block->use;  // parked ones belong to uses_
    (void)source_.free(reinterpret_cast<void*>(address));
  }
}

// ---- Allocate

Block* CachingAllocator::allocate(std::size_t bytes, void* stream) {
  if (bytes == 0) return nullptr;
  if (bytes >= kTooLarge) throw OutOfMemoryError(too_large_text(bytes));
  const Request request{round_size(bytes), bytes, stream};
  Notices notices(watch_);
  if (!notices.wanted()) {
    if (ThreadCache* cache = my_cache()) {
      if (Block* block = allocate_cached(request, *cache)) return block;
    }
  }
  return allocate_shared(request, notices);
}

// The steps of chapter 8, by its numbers.
Block* CachingAllocator::allocate_shared(const Request& request, Notices& notices) {
  if (!uses_.empty()) check(finish_uses(notices));  // 1
  {
    Hold hold(*this);
    if (Block* block = take(request, notices)) return block;  // 2
    if (caches_.any_active()) {
      // What threads keep for themselves is free memory too. Exactly what is wanted, before all.
      if (Block* block = caches_.steal(request.stream, request.size)) {
        put_back(block->link);
        hand_out(block, request, {}, notices);
        return block;
      }
      flush_all();
      if (Block* block = take(request, notices)) return block;
    }
  }
  // 3 (callbacks that free memory) and 4 (garbage collection by age) have their place here.
  Block* block = nullptr;
  Status status = grow(request, notices, block);  // 5
  // 6 (release oversize blocks) has its place here.
  if (status.code() == Code::out_of_memory) {  // 7
    // What cannot be given back does not matter if there is enough all the same.
    check(reclaim(notices).waiting);
    {
      SpinGuard lock(mutex_);
      emit({.kind = Kind::retried}, notices);
    }
    status = grow(request, notices, block);
    if (status.code() == Code::out_of_memory) {
      // A block that was waited for may fit though its segment had to stay.
      SpinGuard lock(mutex_);
      if ((block = take(request, notices)) != nullptr) return block;
    }
  }
  if (status.code() == Code::out_of_memory) fail(request, notices);  // 8
  check(status);
  return block;
}

Block* CachingAllocator::take(const Request& request, Notices& notices) {
  FreeList& list = list_of(request);
  Block* block = list.best_fit(request.size);
  if (block == nullptr) return nullptr;
  SplitChange change;
  unshelve(block, change);
  if (should_split(list.small, block->size, request.size))
    shelve(split(block, request.size), change);
  hand_out(block, request, change, notices);
  return block;
}

void CachingAllocator::hand_out(Block* block, const Request& request, SplitChange change,
                                Notices& notices) {
  block->requested.store(request.requested, std::memory_order_relaxed);
  block->begin_use();
  emit(event_of(Kind::allocated, *block, change), notices);
}

// The rest of a block beyond `size` bytes becomes a block of its own, which is returned.
Block* CachingAllocator::split(Block* block, std::size_t size) {
  Block* rest = pool_.take();
  rest->set(block->position() + size, Block::cached);
  rest->size = block->size - size;
  rest->list = block->list;
  rest->stream = block->stream;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size = size;
  map_.insert(rest);
  return rest;
}

// ---- Free

bool CachingAllocator::free(void* address) noexcept {
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  Block* block = map_.find(position);
  if (block == nullptr || !block->claim(position)) {
    // Without the lock the map may overlook a block; with it, it does not.
    SpinGuard lock(mutex_);
    block = map_.find(position);
    if (block == nullptr || !block->claim(position)) return false;
  }
  free_claimed(block);
  return true;
}

bool CachingAllocator::free(Block* block, void* address, std::uint64_t serial) noexcept {
  if (!block->claim(reinterpret_cast<std::uintptr_t>(address), serial)) return false;
  free_claimed(block);
  return true;
}

void CachingAllocator::free_claimed(Block* block) noexcept {
  Notices notices(watch_);
  ThreadCache* cache = nullptr;
  if (!notices.wanted() && block->use == nullptr) {
    cache = my_cache();
    if (cache != nullptr) {
      const auto answer = cache->put(block);
      if (answer == ThreadCache::Put::kept) return;
      if (answer == ThreadCache::Put::refused) cache = nullptr;
    }
  }
  free_shared(block, notices, cache);
}

void CachingAllocator::free_shared(Block* block, Notices& notices, ThreadCache* full) noexcept {
  StreamUse* const use = block->use;
  {
    Hold hold(*this);
    if (full != nullptr) put_back(caches_.drain(*full, block->stream, block->size));
    emit(event_of(Kind::free_requested, *block), notices);
    if (use == nullptr) return complete(block, notices);
    block->set(Block::parked);
  }
  uses_.park(use);
}

// Nobody uses the block any longer.
void CachingAllocator::complete(Block* block, Notices& notices) {
  AllocEvent event = event_of(Kind::free_completed, *block);  // before the block is merged away
  SplitChange change;
  merge_and_shelve(block, change);
  event.split = change;
  emit(event, notices);
}

void CachingAllocator::shelve(Block* block, SplitChange& change) {
  block->set(Block::free);
  block->list->insert(block);
  if (!block->is_split()) return;
  ++change.blocks;
  change.bytes += static_cast<std::int64_t>(block->size);
}

void CachingAllocator::unshelve(Block* block, SplitChange& change) {
  block->list->remove(block);
  block->set(Block::cached);
  if (!block->is_split()) return;
  --change.blocks;
  change.bytes -= static_cast<std::int64_t>(block->size);
}

void CachingAllocator::merge_and_shelve(Block* block, SplitChange& change) {
  if (Block* before = block->previous; before != nullptr && before->state() == Block::free) {
    unshelve(before, change);
    absorb_next(before);
    block = before;
  }
  if (Block* after = block->next; after != nullptr && after->state() == Block::free) {
    unshelve(after, change);
    absorb_next(block);
  }
  shelve(block, change);
}

void CachingAllocator::absorb_next(Block* block) {
  Block* gone = block->next;
  block->size += gone->size;
  block->next = gone->next;
  if (block->next != nullptr) block->next->previous = block;
  map_.erase(gone);
  pool_.give_back(gone);
}

// ---- Blocks that other streams use

bool CachingAllocator::record_stream(const void* inside, const driver::StreamHandle& stream) {
  Notices notices(watch_);
  SpinGuard lock(mutex_);
  Block* block = containing(inside);
  if (block == nullptr || block->state() != Block::allocated) return false;
  if (stream.native == block->stream && stream.device == device_) return true;
  if (block->use == nullptr) block->use = new StreamUse{block, {}, {}, 0};
  block->use->note(stream);
  AllocEvent event = event_of(Kind::stream_recorded, *block);
  event.stream = stream.native;
  emit(event, notices);
  return true;
}

Status CachingAllocator::finish_uses(Notices& notices) {
  return uses_.poll([&](const std::vector<StreamUse*>& uses) { finish_all(uses, notices); });
}

void CachingAllocator::finish_all(const std::vector<StreamUse*>& uses, Notices& notices) {
  SpinGuard lock(mutex_);
  for (StreamUse* use : uses) {
    auto* block = static_cast<Block*>(use->owner);
    block->use = nullptr;
    delete use;
    complete(block, notices);
  }
}

// ---- Threads' caches

// The calling thread's cache while it is in a session. A session that has run its course ends here,
// unless the lock is still contended.
ThreadCache* CachingAllocator::my_cache() noexcept {
  ThreadCache* cache = caches_.mine();
  if (cache == nullptr || !cache->tick()) return cache;
  if (!mutex_.try_lock()) return caches_.resume();
  flush(*cache, /*end_session=*/true);
  mutex_.unlock();
  return nullptr;
}

Block* CachingAllocator::allocate_cached(const Request& request, ThreadCache& cache) {
  for (bool last = false;; last = true) {
    const auto [block, paid] = cache.take(request.stream, request.size, request.requested);
    if (block != nullptr && !paid && !caches_.borrow_for(cache, *block)) pay(block, cache);
    if (block != nullptr || last) return block;
    if (!caches_.steal_for(cache, request.stream, request.size)) return nullptr;
  }
}

// Counts a block from the cache that its credit did not cover.
void CachingAllocator::pay(Block* block, ThreadCache& cache) {
  Hold hold(*this);
  emit(event_of(Kind::allocated, *block));
  caches_.lend(cache, stats_);
}

}  // namespace ember::memory
