#include "ember/memory/caching_allocator.h"

#include <utility>

#include "ember/base/error.h"

namespace ember::memory {

using Kind = AllocEvent::Kind;

class EMBER_THREAD_NOTE(scoped_lockable) CachingAllocator::Hold {
 public:
  explicit Hold(CachingAllocator& allocator) EMBER_THREAD_NOTE(acquire_capability(allocator.mutex_))
      : mutex_(allocator.mutex_) {
    if (mutex_.lock()) [[unlikely]]
      allocator.caches_.join();
  }
  ~Hold() EMBER_THREAD_NOTE(release_capability()) { mutex_.unlock(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  BiasedLock& mutex_;
};

CachingAllocator::CachingAllocator(int device, SegmentSource& source)
    : device_(device), source_(source), uses_(source, device), caches_(*this) {}

CachingAllocator::~CachingAllocator() {
  BiasedGuard lock(mutex_);
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
      BiasedGuard lock(mutex_);
      emit({.kind = Kind::retried}, notices);
    }
    status = grow(request, notices, block);
    if (status.code() == Code::out_of_memory) {
      // A block that was waited for may fit though its segment had to stay.
      BiasedGuard lock(mutex_);
      if ((block = take(request, notices)) != nullptr) return block;
    }
  }
  if (status.code() == Code::out_of_memory) fail(request, notices);  // 8
  check(status);
  return block;
}

// Note [The same block again]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Memory is often freed right after it was allocated, and the same is asked for again. Between the
// two the free lists did not change, so taking the block in would make them exactly what they were
// before, and the next request of its stream and size would find it again. So such a block
// (`handed_`) is not merged and put into a list, only counted as if it were: it waits outside
// (`returned_`) for that request, and nobody can tell the difference. Before anything else that
// reads or changes the lists, settle_returned() makes up for it.
Block* CachingAllocator::take(const Request& request, Notices& notices) {
  if (returned_ != nullptr && handed_size_ == request.size && returned_->stream == request.stream) {
    Block* block = std::exchange(returned_, nullptr);
    hand_out(block, request, handed_change_, notices);
    return block;
  }
  settle_returned();
  FreeList& list = list_of(request);
  Block* block = list.best_fit(request.size);
  if (block == nullptr) return nullptr;
  SplitChange change;
  unshelve(block, change);
  if (should_split(list.small, block->size, request.size))
    shelve(split(block, request.size), change);
  handed_ = block;
  handed_size_ = request.size;
  handed_change_ = change;
  hand_out(block, request, change, notices);
  return block;
}

void CachingAllocator::hand_out(Block* block, const Request& request, const SplitChange& change,
                                Notices& notices) {
  block->requested.store(request.requested, std::memory_order_relaxed);
  block->begin_use();
  emit(Kind::allocated, *block, notices);
  stats_.apply(block->list->small, change);
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

// Blocks are claimed under the allocator's lock, or under that of the claiming thread's cache while
// it is in a session. So who holds the first and sees no session is the only one.
Block::Others CachingAllocator::others() const noexcept {
  return caches_.any_active() ? Block::Others::may_claim : Block::Others::cannot;
}

bool CachingAllocator::free(void* address) noexcept {
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  return free_found([&] { return map_.find(position); },
                    [position](Block* block, Block::Others others) {
                      return block != nullptr && block->claim(position, others);
                    });
}

bool CachingAllocator::free(Block* block, void* address, std::uint64_t serial) noexcept {
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  return free_found([block] { return block; },
                    [position, serial](Block* found, Block::Others others) {
                      return found->claim(position, serial, others);
                    });
}

template <class Find, class Claim>
bool CachingAllocator::free_found(const Find& find, const Claim& claim) noexcept {
  Notices notices(watch_);
  Block* block = nullptr;
  ThreadCache* full = nullptr;
  if (!notices.wanted()) {
    if (ThreadCache* cache = my_cache()) {
      Block* const found = find();
      switch (cache->put(found, [&] { return claim(found, Block::Others::may_claim); })) {
        case ThreadCache::Put::kept: return true;
        case ThreadCache::Put::unclaimed: break;
        case ThreadCache::Put::full: full = cache; [[fallthrough]];
        case ThreadCache::Put::refused: block = found; break;
      }
    }
  }
  StreamUse* use = nullptr;
  {
    Hold hold(*this);
    if (block == nullptr) {
      // Without the lock the map may overlook a block; with it, it does not.
      Block* const found = find();
      if (!claim(found, others())) return false;
      block = found;
    }
    if (full != nullptr) put_back(caches_.drain(*full, block->stream, block->size));
    use = block->use;
    if (use == nullptr) {
      emit(Kind::freed, *block, notices);
      take_in(block);
      return true;
    }
    emit(Kind::free_requested, *block, notices);
    block->set(Block::parked);
  }
  uses_.park(use);
  return true;
}

// Nobody uses the block any longer: it goes back into the lists.
void CachingAllocator::take_in(Block* block) {
  const bool small = block->list->small;  // before the block is merged away
  SplitChange change;
  if (block == handed_) {  // Note [The same block again]
    returned_ = block;
    change = {-handed_change_.blocks, -handed_change_.bytes};
  } else {
    merge_and_shelve(block, change);
  }
  stats_.apply(small, change);
}

void CachingAllocator::shelve_returned() {
  SplitChange counted;
  merge_and_shelve(std::exchange(returned_, nullptr), counted);
}

void CachingAllocator::shelve(Block* block, SplitChange& change) {
  handed_ = nullptr;
  block->set(Block::free);
  block->list->insert(block);
  if (!block->is_split()) return;
  ++change.blocks;
  change.bytes += static_cast<std::int64_t>(block->size);
}

void CachingAllocator::unshelve(Block* block, SplitChange& change) {
  handed_ = nullptr;
  block->list->remove(block);
  block->set(Block::cached);
  if (!block->is_split()) return;
  --change.blocks;
  change.bytes -= static_cast<std::int64_t>(block->size);
}

void CachingAllocator::merge_and_shelve(Block* block, SplitChange& change) {
  settle_returned();
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
  BiasedGuard lock(mutex_);
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
  BiasedGuard lock(mutex_);
  for (StreamUse* use : uses) {
    auto* block = static_cast<Block*>(use->owner);
    block->use = nullptr;
    delete use;
    emit(Kind::free_completed, *block, notices);
    take_in(block);
  }
}

// ---- Threads' caches

// The calling thread's cache while it is in a session. A session that has run its course ends here,
// unless the lock is still contended.
ThreadCache* CachingAllocator::my_cache() noexcept {
  ThreadCache* cache = caches_.mine();
  if (cache == nullptr || !cache->tick()) return cache;
  if (!mutex_.try_lock()) {
    cache->go_on();
    return cache;
  }
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
  count(Kind::allocated, *block);
  caches_.lend(cache, stats_);
}

}  // namespace ember::memory
