// The caching allocator of one device: chapter 8 of the documents.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/biased_lock.h"
#include "ember/memory/block.h"
#include "ember/memory/block_map.h"
#include "ember/memory/free_list.h"
#include "ember/memory/notices.h"
#include "ember/memory/out_of_memory.h"
#include "ember/memory/segment_source.h"
#include "ember/memory/stats.h"
#include "ember/memory/stream_uses.h"
#include "ember/memory/thread_caches.h"

namespace ember::memory {

/// A segment and its blocks, as they were at one moment.
struct SegmentView {
  struct BlockView {
    std::uintptr_t address = 0;
    std::size_t size = 0;
    std::size_t requested = 0;
    Block::State state = Block::free;
  };
  std::uintptr_t address = 0;
  std::size_t size = 0;
  bool small = false;
  void* stream = nullptr;
  std::vector<BlockView> blocks;  // in the order of addresses
};

/// Thread-safe. Blocks are reused by work of the same stream only, best fit first, lowest address
/// among equals. The source is never called while `mutex_` is held, so several threads may grow at
/// once. While the lock is contended, threads keep free blocks for themselves (thread_cache.h).
///
/// The order of locks: reclaim_, then the turn of uses_, then mutex_, then a thread's cache. The
/// watch mutex comes before all of them.
class CachingAllocator final : private ThreadCacheHome {
 public:
  /// `source` must outlive the allocator.
  CachingAllocator(int device, SegmentSource& source);
  /// Gives every segment back, whether in use or not. No other call may be in progress.
  ~CachingAllocator();

  /// A block of at least `bytes` for work on `stream`; null for zero bytes. May block while the
  /// device is asked for memory, and for work that uses freed memory when there is none left.
  /// Throws OutOfMemoryError, and AcceleratorError when the device reports anything else.
  Block* allocate(std::size_t bytes, void* stream);

  /// Frees the block in use that begins at `address`; false if there is none. Does not block on the
  /// device, never fails otherwise.
  bool free(void* address) noexcept;
  /// The same for callers that kept the record and its serial; if that use has ended, it is
  /// refused.
  bool free(Block* block, void* address, std::uint64_t serial) noexcept;

  /// Notes that work on another stream uses the block in use that contains `inside`: it will not be
  /// reused until the work that is on that stream at free() is done. False, and nothing else, for
  /// memory that is not in use here.
  bool record_stream(const void* inside, const driver::StreamHandle& stream);

  /// Waits for blocks that other streams use, and gives all unsplit cached segments back. Failed:
  /// the first error; everything that could be given back has been.
  Status empty_cache();

  /// The device was reset: its memory is gone, all blocks are forgotten. No other call may be in
  /// progress on this device.
  void forget() noexcept;
  /// Another device was reset: drops what is kept for later work there.
  void forget_device(int other) noexcept { uses_.forget_device(other); }

  /// Most that the allocator may hold, in bytes; kNoLimit for no limit.
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  void set_limit(std::size_t bytes);

  /// Whether the lock was contended lately: threads keep free blocks for themselves.
  bool contended() const noexcept { return caches_.any_active(); }

  /// Bytes in use, exact. One load, except while threads have caches.
  std::int64_t allocated();
  std::int64_t max_allocated() const noexcept { return stats_.max_allocated(); }
  std::int64_t reserved() const noexcept { return stats_.reserved(); }
  std::int64_t max_reserved() const noexcept { return stats_.max_reserved(); }
  /// All counters, of one moment.
  cuda::MemoryCounters counters();
  void reset_peaks();
  /// All segments in the order of addresses. Blocks in threads' caches come back first.
  std::vector<SegmentView> snapshot();

 private:
  struct Request {
    std::size_t size;       // rounded
    std::size_t requested;  // as asked
    void* stream;
  };
  struct Segment {
    std::size_t size = 0;
    Block* first = nullptr;
  };
  struct StreamLists {
    explicit StreamLists(void* stream) : small(stream, true), large(stream, false) {}
    FreeList small, large;
  };
  struct Reclaimed {
    Status waiting, releasing;
  };
  /// Takes mutex_; a thread that finds it taken begins to cache.
  class Hold;

  // caching_allocator.cpp: the algorithm.
  Block* allocate_shared(const Request& request, Notices& notices);
  template <class Find, class Claim>
  bool free_found(const Find& find, const Claim& claim) noexcept;
  Block::Others others() const noexcept EMBER_REQUIRES(mutex_);
  Status finish_uses(Notices& notices);
  void finish_all(const std::vector<StreamUse*>& uses, Notices& notices);
  ThreadCache* my_cache() noexcept;
  Block* allocate_cached(const Request& request, ThreadCache& cache);
  void pay(Block* block, ThreadCache& cache);
  void retire(ThreadCache& cache) noexcept override;

  Block* take(const Request& request, Notices& notices) EMBER_REQUIRES(mutex_);
  void hand_out(Block* block, const Request& request, const SplitChange& change, Notices& notices)
      EMBER_REQUIRES(mutex_);
  Block* split(Block* block, std::size_t size) EMBER_REQUIRES(mutex_);
  void shelve(Block* block, SplitChange& change) EMBER_REQUIRES(mutex_);
  void unshelve(Block* block, SplitChange& change) EMBER_REQUIRES(mutex_);
  void merge_and_shelve(Block* block, SplitChange& change) EMBER_REQUIRES(mutex_);
  void settle_returned() EMBER_REQUIRES(mutex_) {
    if (returned_ != nullptr) [[unlikely]]
      shelve_returned();
  }
  void shelve_returned() EMBER_REQUIRES(mutex_);
  void absorb_next(Block* block) EMBER_REQUIRES(mutex_);
  void take_in(Block* block) EMBER_REQUIRES(mutex_);
  void flush(ThreadCache& cache, bool end_session) EMBER_REQUIRES(mutex_);
  void flush_all() EMBER_REQUIRES(mutex_);
  void put_back(Block* chain) EMBER_REQUIRES(mutex_);

  // bookkeeping.cpp: what is where, what is counted, who is told.
  FreeList& list_of(const Request& request) EMBER_REQUIRES(mutex_);
  Block* containing(const void* inside) EMBER_REQUIRES(mutex_);
  void count(AllocEvent::Kind kind, const Block& block) noexcept EMBER_REQUIRES(mutex_) {
    const bool small = block.list->small;
    const Usage usage{1, static_cast<std::int64_t>(block.size),
                      static_cast<std::int64_t>(block.requested_bytes())};
    if (kind == AllocEvent::Kind::allocated && caches_.any_active()) [[unlikely]]
      make_room(small, usage);
    stats_.apply(kind, small, usage);
  }
  void emit(AllocEvent::Kind kind, const Block& block, Notices& notices) EMBER_REQUIRES(mutex_) {
    count(kind, block);
    if (notices.wanted()) [[unlikely]]
      report(event_of(kind, block), notices);
  }
  void emit(const AllocEvent& event, Notices& notices) EMBER_REQUIRES(mutex_) {
    stats_.apply(event);
    if (notices.wanted()) report(event, notices);
  }
  void make_room(bool small, const Usage& usage) noexcept EMBER_REQUIRES(mutex_);
  void report(const AllocEvent& event, Notices& notices) EMBER_REQUIRES(mutex_);
  static AllocEvent event_of(AllocEvent::Kind kind, const Block& block) {
    return {kind,       block.list->small,      block.stream, block.address(),
            block.size, block.requested_bytes()};
  }

  // segments.cpp: memory from the device and back.
  Status grow(const Request& request, Notices& notices, Block*& out);
  Block* add_segment(void* address, std::size_t size, FreeList& list, Notices& notices)
      EMBER_REQUIRES(mutex_);
  Reclaimed reclaim(Notices& notices);
  std::vector<Block*> pick_unsplit() EMBER_REQUIRES(mutex_);
  Status release(Block* block, Notices& notices);
  [[noreturn]] void fail(const Request& request, Notices& notices);

  const int device_;
  SegmentSource& source_;
  StreamUses uses_;          // has its own locks
  ThreadCaches caches_;      // partly under mutex_
  BlockMap map_;             // written under mutex_
  alignas(64) Stats stats_;  // written under mutex_

  Mutex watch_;    // see Notices
  Mutex reclaim_;  // held while segments are given back, so that who comes second finds them gone
  alignas(64) BiasedLock mutex_;  // not on a line that is read without it
  BlockPool pool_ EMBER_GUARDED_BY(mutex_);
  std::map<std::uintptr_t, Segment> segments_ EMBER_GUARDED_BY(mutex_);
  std::unordered_map<void*, std::unique_ptr<StreamLists>> lists_ EMBER_GUARDED_BY(mutex_);
  StreamLists* last_lists_ EMBER_GUARDED_BY(mutex_) = nullptr;
  // See Note [The same block again] in caching_allocator.cpp.
  Block* handed_ EMBER_GUARDED_BY(mutex_) = nullptr;
  std::size_t handed_size_ EMBER_GUARDED_BY(mutex_) = 0;  // what was asked for, rounded
  SplitChange handed_change_ EMBER_GUARDED_BY(mutex_);
  Block* returned_ EMBER_GUARDED_BY(mutex_) = nullptr;
  std::size_t limit_ EMBER_GUARDED_BY(mutex_) = kNoLimit;
  std::size_t growing_ EMBER_GUARDED_BY(mutex_) = 0;  // asked of the source at this moment
};

}  // namespace ember::memory
