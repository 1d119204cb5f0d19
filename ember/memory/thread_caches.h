// All the threads' caches of one allocator: who has one, and what moves between them. What they are
// for is told in thread_cache.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ember/memory/thread_cache.h"

namespace ember::memory {

/// Who is told that a thread with a cache is ending.
class ThreadCacheHome {
 public:
  virtual void retire(ThreadCache& cache) noexcept = 0;

 protected:
  ~ThreadCacheHome() = default;
};

/// The caches of one allocator: at most kMaxCaches, one per thread that ever met contention; those
/// of threads that have ended are used again. Functions that say so need the allocator's lock.
class ThreadCaches {
 public:
  explicit ThreadCaches(ThreadCacheHome& home);
  ~ThreadCaches();
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;

  /// Whether any thread is in a session: one load. If not, no credit is out.
  bool any_active() const noexcept { return active_.load(std::memory_order_acquire) > 0; }
  /// The calling thread's cache, if it is in a session.
  ThreadCache* mine() const noexcept { return any_active() ? mine_in_session() : nullptr; }
  /// Begins a session for the calling thread, and makes its cache if need be. Under the allocator's
  /// lock.
  void join();
  /// Half of what some cache has of that stream and size, as a chain; null if none has any. Under
  /// the allocator's lock.
  Block* steal(const void* stream, std::size_t size) noexcept;
  /// The same for the calling thread's own cache, into which the blocks go, and half of the other
  /// cache's credit with them. Looks at a few caches only, different ones each time; false if they
  /// have none, or if the thread's own cache is full. Without the allocator's lock.
  bool steal_for(ThreadCache& cache, void* stream, std::size_t size) noexcept;
  /// Pays for a block that take() returned unpaid, with credit that other caches have to spare.
  /// False if the few caches that were looked at have too little. Without the allocator's lock.
  bool borrow_for(ThreadCache& cache, const Block& block) noexcept;

  /// Empties all caches and returns their blocks, chained by Block::link. Sessions go on, except
  /// those of threads that did nothing since the last time. Under the allocator's lock.
  Block* drain(Stats& stats) noexcept;
  /// The same for one cache. Ending its session also calls in its credit.
  Block* drain(ThreadCache& cache, Stats& stats, bool end_session) noexcept;
  /// All blocks of one stream and size of one cache. Under the allocator's lock.
  Block* drain(ThreadCache& cache, const void* stream, std::size_t size) noexcept;

  /// Calls in all credit: the counters in `stats` become exact. Under the allocator's lock.
  void settle(Stats& stats) noexcept;
  /// Calls in all credit and shares out anew what `next`, which is about to be counted, leaves of
  /// the room below the peaks. If that is nothing, the counters are exact. Under the allocator's
  /// lock.
  void settle_for(bool small, const Usage& next, Stats& stats) noexcept;
  /// Lends one cache a share of the room below the peaks. Under the allocator's lock.
  void lend(ThreadCache& cache, Stats& stats) noexcept;
  /// Leaves a cache whose session has ended to another thread. Under the allocator's lock.
  void disown(ThreadCache& cache) noexcept { cache.owned_ = false; }

 private:
  ThreadCache* mine_in_session() const noexcept;
  bool resume() noexcept;
  std::span<const std::unique_ptr<ThreadCache>> caches() const noexcept {
    return {caches_.data(), static_cast<std::size_t>(count_.load(std::memory_order_acquire))};
  }
  /// The next cache that a thread looks at for something it lacks; null where it is no use.
  ThreadCache* next_victim(ThreadCache& cache) const noexcept;
  void call_in(Stats& stats) noexcept;
  /// A new share of the room is one of this many: half of it stays for those who need more.
  int shares() const noexcept;

  std::size_t place_;  // in every thread's table of caches; kNoPlace: no caches for this allocator
  std::uint64_t id_;
  std::atomic<int> active_{0};
  static constexpr int kVictims = 4;  // looked at before falling back to the allocator's lock
  // Caches are added, under the allocator's lock, and never removed: looking needs no lock.
  static constexpr int kMaxCaches = 128;
  std::atomic<int> count_{0};
  std::array<std::unique_ptr<ThreadCache>, kMaxCaches> caches_;
};

}  // namespace ember::memory
