#include "ember/memory/thread_caches.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ember/base/no_destructor.h"

namespace ember::memory {
namespace {

// Allocators that may have caches. A thread finds its cache by the allocator's place here; the id
// tells a live allocator from an earlier one in the same place. There is one allocator per device,
// so places run out only in programs that make many; those do without caches.
constexpr std::size_t kPlaces = 64;
constexpr std::size_t kNoPlace = kPlaces;
struct Place {
  Mutex mutex;  // before the allocator's
  std::uint64_t id EMBER_GUARDED_BY(mutex) = 0;
  ThreadCacheHome* home EMBER_GUARDED_BY(mutex) = nullptr;
};
std::array<Place, kPlaces>& places() {
  static NoDestructor<std::array<Place, kPlaces>> places;
  return *places;
}

struct Entry {
  std::uint64_t id = 0;
  ThreadCache* cache = nullptr;
};
// kPlaces of them, once the thread has a cache. Trivial, so that looking costs no check whether it
// has been made; the destructor is apart. A pointer only, since memory that can be found so quickly
// is scarce.
constinit thread_local Entry* my_caches [[gnu::tls_model("initial-exec")]] = nullptr;
constinit thread_local bool exiting = false;

struct AtThreadExit {
  const pid_t process = getpid();
  ~AtThreadExit() {
    exiting = true;
    const std::unique_ptr<Entry[]> caches(std::exchange(my_caches, nullptr));
    // Forked: the locks may be those of threads that are gone.
    if (caches == nullptr || getpid() != process) return;
    for (std::size_t i = 0; i < kPlaces; ++i) {
      const Entry entry = caches[i];
      if (entry.id == 0) continue;
      Place& place = places()[i];
      MutexLock lock(place.mutex);
      if (place.id == entry.id) place.home->retire(*entry.cache);
    }
  }
};

}  // namespace

ThreadCaches::ThreadCaches(ThreadCacheHome& home) : place_(kNoPlace), id_(0) {
  static std::atomic<std::uint64_t> ids{0};
  const std::uint64_t id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
  for (std::size_t i = 0; i < kPlaces && id_ == 0; ++i) {
    Place& place = places()[i];
    MutexLock lock(place.mutex);
    if (place.id != 0) continue;
    place.id = id;
    place.home = &home;
    place_ = i;
    id_ = id;
  }
}

ThreadCaches::~ThreadCaches() {
  if (place_ == kNoPlace) return;
  Place& place = places()[place_];
  MutexLock lock(place.mutex);
  place.id = 0;
}

ThreadCache* ThreadCaches::mine_in_session() const noexcept {
  if (place_ == kNoPlace || my_caches == nullptr) return nullptr;
  const Entry& entry = my_caches[place_];
  return entry.id == id_ && entry.cache->in_session() ? entry.cache : nullptr;
}

bool ThreadCaches::resume() noexcept {
  if (my_caches == nullptr) return false;
  const Entry& entry = my_caches[place_];
  if (entry.id != id_) return false;
  entry.cache->begin_session(active_);
  return true;
}

void ThreadCaches::join() {
  if (place_ == kNoPlace || exiting || resume()) return;
  static thread_local AtThreadExit at_exit;
  (void)at_exit;
  const int count = count_.load(std::memory_order_relaxed);
  int i = 0;
  while (i < count && caches_[i]->owned_) ++i;
  if (i == kMaxCaches) return;
  if (i == count) {
    caches_[i] = std::make_unique<ThreadCache>(i);
    count_.store(count + 1, std::memory_order_release);
  }
  if (my_caches == nullptr) my_caches = new Entry[kPlaces];
  caches_[i]->owned_ = true;
  my_caches[place_] = {id_, caches_[i].get()};
  caches_[i]->begin_session(active_);
}

Block* ThreadCaches::steal(const void* stream, std::size_t size) noexcept {
  for (const auto& cache : caches()) {
    if (!cache->in_session()) continue;
    SpinGuard lock(cache->mutex_);
    ThreadCache::Shelf* shelf = cache->find(stream, size);
    Block* chain = nullptr;
    for (std::size_t n = shelf != nullptr ? (shelf->count + 1) / 2 : 0; n > 0; --n) {
      Block* block = cache->pop(*shelf);
      block->link = std::exchange(chain, block);
    }
    if (chain != nullptr) return chain;
  }
  return nullptr;
}

ThreadCache* ThreadCaches::next_victim(ThreadCache& cache) const noexcept {
  const auto others = caches();
  if (++cache.next_victim_ >= static_cast<int>(others.size())) cache.next_victim_ = 0;
  ThreadCache* victim = others[static_cast<std::size_t>(cache.next_victim_)].get();
  return victim != &cache && victim->in_session() ? victim : nullptr;
}

// Both locks are taken in the order of settle(), which must find all credit in some cache.

bool ThreadCaches::steal_for(ThreadCache& cache, void* stream, std::size_t size) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (int i = 0; i < kVictims; ++i) {
    ThreadCache* const victim = next_victim(cache);
    if (victim == nullptr) continue;
    const bool mine_first = cache.index_ < victim->index_;
    SpinGuard first(mine_first ? cache.mutex_ : victim->mutex_);
    SpinGuard second(mine_first ? victim->mutex_ : cache.mutex_);
    ThreadCache::Shelf* theirs = victim->find(stream, size);
    if (theirs == nullptr || theirs->count == 0) continue;
    ThreadCache::Shelf* mine = cache.in_session() ? cache.find_room(stream, size) : nullptr;
    const std::size_t most = mine != nullptr ? cache.room_for(size) : 0;
    if (most == 0) return false;
    for (std::size_t n = std::min((theirs->count + 1) / 2, most); n > 0; --n)
      cache.push(*mine, victim->pop(*theirs));
    victim->lend_half(cache);
    return true;
  }
  return false;
}

bool ThreadCaches::borrow_for(ThreadCache& cache, const Block& block) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (int i = 0; i < kVictims; ++i) {
    ThreadCache* const victim = next_victim(cache);
    if (victim == nullptr) continue;
    const bool mine_first = cache.index_ < victim->index_;
    SpinGuard first(mine_first ? cache.mutex_ : victim->mutex_);
    SpinGuard second(mine_first ? victim->mutex_ : cache.mutex_);
    if (!cache.in_session()) return false;
    victim->lend_half(cache);
    if (cache.spend(block.size, block.requested_bytes())) return true;
  }
  return false;
}

Block* ThreadCaches::drain(Stats& stats) noexcept {
  Block* all = nullptr;
  for (const auto& cache : caches()) {
    Block* block = drain(*cache, stats, /*end_session=*/false);
    while (block != nullptr) {
      Block* const rest = std::exchange(block->link, all);
      all = std::exchange(block, rest);
    }
  }
  return all;
}

Block* ThreadCaches::drain(ThreadCache& cache, Stats& stats, bool end_session) noexcept {
  SpinGuard lock(cache.mutex_);
  Block* all = nullptr;
  for (std::size_t i = 0; cache.blocks_ > 0; ++i) {
    ThreadCache::Shelf& shelf = cache.shelves_[i];
    while (shelf.first != nullptr) {
      Block* block = cache.pop(shelf);
      block->link = std::exchange(all, block);
    }
  }
  const bool idle = !std::exchange(cache.used_, false);
  if (!cache.in_session() || !(idle || end_session)) return all;
  stats.take_back(std::exchange(cache.credit_, {}));
  stats.add_increases(std::exchange(cache.gained_, {}));
  cache.session_.store(false, std::memory_order_relaxed);
  active_.fetch_sub(1, std::memory_order_release);  // after the counters: see any_active()
  return all;
}

Block* ThreadCaches::drain(ThreadCache& cache, const void* stream, std::size_t size) noexcept {
  SpinGuard lock(cache.mutex_);
  Block* all = nullptr;
  ThreadCache::Shelf* shelf = cache.find(stream, size);
  while (shelf != nullptr && shelf->first != nullptr) {
    Block* block = cache.pop(*shelf);
    block->link = std::exchange(all, block);
  }
  return all;
}

// All locks at once: taken one by one, usage could move from a cache that is still to come to one
// that has been counted, and the sum would be a total that never was.
void ThreadCaches::settle(Stats& stats) noexcept EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (const auto& cache : caches()) cache->mutex_.lock();
  call_in(stats);
  for (const auto& cache : caches()) cache->mutex_.unlock();
}

void ThreadCaches::settle_for(bool small, const Usage& next, Stats& stats) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (const auto& cache : caches()) cache->mutex_.lock();
  call_in(stats);
  const PoolUsage share = stats.share_of_room(shares(), small, next);
  for (const auto& cache : caches()) {
    if (!cache->in_session()) continue;
    cache->credit_ = share;
    stats.lend(share);
  }
  for (const auto& cache : caches()) cache->mutex_.unlock();
}

void ThreadCaches::call_in(Stats& stats) noexcept EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (const auto& cache : caches()) {
    stats.take_back(std::exchange(cache->credit_, {}));
    stats.add_increases(std::exchange(cache->gained_, {}));
  }
}

int ThreadCaches::shares() const noexcept {
  return 2 * std::max(1, active_.load(std::memory_order_relaxed));
}

void ThreadCaches::lend(ThreadCache& cache, Stats& stats) noexcept {
  SpinGuard lock(cache.mutex_);
  if (!cache.in_session()) return;
  const PoolUsage share = stats.share_of_room(shares(), false, {});
  stats.lend(share);
  for (const Pool pool : {kAll, kSmall, kLarge}) cache.credit_[pool] += share[pool];
}

}  // namespace ember::memory
