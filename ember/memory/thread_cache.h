// Free blocks that one thread keeps while the allocator's lock is contended.
//
// An uncontended allocator behaves exactly as the documents say, so ordinarily there are no such
// caches. A thread that finds the lock taken starts a session: for the next few thousand operations
// it keeps what it frees, and serves requests of exactly the same size and stream from that. Its
// cache has a lock of its own, which nobody else wants, except a thread that needs the blocks back:
// before the allocator asks the device for more, and whenever blocks are looked at, all caches are
// flushed.
//
// Note [Peak credits]
// ~~~~~~~~~~~~~~~~~~~
// Counters are exact, peaks included, though a cache counts without the allocator's lock. A thread
// that allocates must know that the total stays below the recorded peak, or the peak would have to
// be raised, which takes the exact total. So the right to allocate is handed out in advance:
//
//   - The current values in Stats are upper bounds U: the true totals plus all credit that caches
//     hold. While any credit is out, U <= peak holds for every counter concerned.
//   - A cached allocation is paid from the cache's credit; a cached free adds to it. Neither
//     changes U, and since credit is never negative, the true total is never above U, nor above the
//     peak: no peak can be missed, none can be invented.
//   - Without enough credit the thread first moves some over from another cache, with both caches'
//     locks held, which changes no sum. If there is none, it takes the allocator's lock and counts
//     there, as uncached allocations do. If that would lift U above a peak, all credit is called in
//     first (settle): with every cache's lock held at once, U becomes the true total of that
//     moment, and the peak is raised from there, exactly.
//   - New credit is a share of the room left below the peaks. None of it is needed for correctness:
//     a thread without credit only takes the lock more often.
//
// Reading a current value while credit is out settles first. Peaks can be read at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ember/memory/block.h"
#include "ember/memory/spin_lock.h"
#include "ember/memory/stats.h"

namespace ember::memory {

class alignas(64) ThreadCache {
 public:
  /// `index`: its place among the allocator's caches.
  explicit ThreadCache(int index) noexcept : index_(index), next_victim_(index) {}

  struct Taken {
    Block* block = nullptr;  ///< null: nothing of that size here
    bool paid = false;       ///< false: the caller must count the allocation
  };
  /// A block of exactly that size, marked as handed out.
  Taken take(void* stream, std::size_t size, std::size_t requested) EMBER_EXCLUDES(mutex_);

  enum class Put { kept, refused, full, unclaimed };
  /// Keeps a claimed block and counts the free. Otherwise nothing has happened; `full` means that
  /// draining the blocks of its size would make room.
  Put put(Block* block) EMBER_EXCLUDES(mutex_) {
    return put(block, [] { return true; });
  }
  /// The same for a block that `claim()` claims first, if the cache is still in a session; else, or
  /// if that fails, it is `unclaimed`.
  template <class Claim>
  Put put(Block* block, const Claim& claim) EMBER_EXCLUDES(mutex_) {
    SpinGuard lock(mutex_);
    used_ = true;
    // A flush may have ended the session between the caller's look and now.
    return in_session() && claim() ? keep(block) : Put::unclaimed;
  }

  /// Counts one operation of the session; true when it was the last one. For the owning thread.
  bool tick() noexcept { return --operations_left_ <= 0; }
  /// Some more operations, as long as no flush has ended the session.
  void go_on() noexcept;
  /// Begins a session, or goes on with an expired one. Sessions grow while contention lasts. Under
  /// the allocator's lock: who holds it knows whether there is any.
  void begin_session(std::atomic<int>& active) noexcept EMBER_EXCLUDES(mutex_);
  bool in_session() const noexcept { return session_.load(std::memory_order_relaxed); }

 private:
  friend class ThreadCaches;

  // Of one stream and size; `first` leads to the rest through Block::link.
  struct Shelf {
    void* stream = nullptr;
    std::size_t size = 0;
    Block* first = nullptr;
    std::size_t count = 0;
  };
  static constexpr std::size_t kShelves = 128;
  static constexpr std::size_t kProbes = 4;
  // Generous, since everything comes back before the device is asked for more.
  static constexpr std::size_t kMaxBlocks = 512;
  static constexpr std::size_t kMaxBytes = 256 * kMiB;
  static constexpr std::size_t kMaxBlockBytes = 16 * kMiB;
  static constexpr int kShortSession = 1 << 11;
  static constexpr int kLongSession = 1 << 16;

  static std::size_t home(const void* stream, std::size_t size) noexcept;
  Shelf* find(const void* stream, std::size_t size) noexcept EMBER_REQUIRES(mutex_);
  Shelf* find_room(void* stream, std::size_t size) noexcept EMBER_REQUIRES(mutex_);
  bool spend(std::size_t size, std::size_t requested) noexcept EMBER_REQUIRES(mutex_);
  Put keep(Block* block) noexcept EMBER_REQUIRES(mutex_);
  Block* pop(Shelf& shelf) noexcept EMBER_REQUIRES(mutex_);
  void push(Shelf& shelf, Block* block) noexcept EMBER_REQUIRES(mutex_);
  /// How many more blocks of that size it may keep.
  std::size_t room_for(std::size_t size) const noexcept EMBER_REQUIRES(mutex_);

  /// Half of the credit changes over. Under both caches' locks.
  void lend_half(ThreadCache& borrower) noexcept;

  // In the order of use: another thread that looks in here waits for one cache line after the
  // other.
  std::atomic<bool> session_{false};
  SpinLock mutex_;                              // after the allocator's
  bool owned_ = false;                          // by a thread; under the allocator's lock
  bool used_ EMBER_GUARDED_BY(mutex_) = false;  // since the last flush
  const int index_;
  int operations_left_ = 0;  // this and the next two are the owning thread's
  int session_length_ = kShortSession;
  int next_victim_;
  std::size_t blocks_ EMBER_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ EMBER_GUARDED_BY(mutex_) = 0;
  PoolUsage credit_ EMBER_GUARDED_BY(mutex_);
  PoolUsage gained_ EMBER_GUARDED_BY(mutex_);  // allocations since the last settlement
  std::array<Shelf, kShelves> shelves_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::memory
