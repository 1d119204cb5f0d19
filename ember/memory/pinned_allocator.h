// The caching allocator of page-locked host memory: chapter 14 of the documents, but for sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/counters.h"
#include "ember/memory/pinned_block.h"
#include "ember/memory/segment_source.h"
#include "ember/memory/stream_uses.h"

namespace ember::inline v0::memory {

/// Hands out the best fit among the free blocks, the lowest address among equals, cut to the size
/// asked for (PinnedPolicy). A freed block joins its free neighbours once the work is done that was
/// on its recorded streams when it was freed. Thread-safe; the source is never called while
/// `mutex_` is held. Freeing takes nothing from the heap.
///
/// A reset of any device may leave memory from before it no longer page-locked. So that is not
/// handed out again: segments that nobody uses go back with the next call here, the others when
/// their last block is free.
class PinnedAllocator {
 public:
  /// `source` and `events` must outlive the allocator.
  PinnedAllocator(PinnedSource& source, EventPool& events)
      : source_(source), uses_(events, StreamUses::kNoDevice), generation_(source.epoch()) {}
  /// Gives everything back, whether in use or not.
  ~PinnedAllocator();
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  /// Holds for what is allocated and freed from now on.
  void apply(const PinnedPolicy& policy);

  /// Null for zero bytes. May block. Throws AcceleratorError (out of memory: after the unused
  /// segments were given back and that did not help), and ValueError for 2^60 bytes and more.
  /// `alignment` of the address: a power of two up to a page.
  /// `user`: a literal that observers get as the name.
  PinnedBlock* allocate(std::size_t bytes, std::size_t alignment = PinnedPolicy::kUnit,
                        const char* user = nullptr);
  /// False, and nothing else, if no block in use begins at `pointer`. Does not block, except to
  /// give back a segment from before a reset, or beyond what may be cached.
  bool free(void* pointer) noexcept;

  /// Notes that work on the stream uses the block in use that `context` is, or that begins at
  /// `pointer`. False if there is neither; either may be anything.
  bool record_event(const void* pointer, const void* context, const driver::StreamHandle& stream);

  /// Keeps the block that contains `inside`: when its user frees it, nobody else gets it before
  /// each keep() was answered by a release(). Adds it to `kept`, or does nothing if it is there
  /// already. False if there is none that is in use, or kept. Looks at every block.
  bool keep(const void* inside, std::vector<PinnedBlock*>& kept);
  /// `last`: a stream with work that uses the block, if there may be some.
  void release(PinnedBlock* block, const std::optional<driver::StreamHandle>& last) noexcept;

  /// Gives segments that nobody uses back. Waits for devices of streams that were destroyed after
  /// they had been recorded, and for nothing else. Failed: the first error; the rest has been given
  /// back.
  Status empty_cache();
  cuda::PinnedCounters counters();
  /// Peaks begin at what there is now.
  void reset_peaks();
  /// Sums, and numbers and times of calls of the driver, begin at zero.
  void reset_accumulated();

 private:
  PinnedBlock* take(std::size_t size, std::size_t alignment) EMBER_REQUIRES(mutex_);
  PinnedBlock* grow(std::size_t size, std::size_t alignment, std::uint32_t generation);
  Status obtain(std::size_t size, PinnedSegment& out);
  Status ask(std::size_t bytes, void*& out);
  void keep_nothing_for(PinnedSegment& segment);
  void hand_out(PinnedBlock* block, std::size_t size) EMBER_REQUIRES(mutex_);
  void enlist(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  void split(PinnedBlock* block, std::size_t size) EMBER_REQUIRES(mutex_);
  PinnedBlock* skip(PinnedBlock* block, std::size_t bytes) EMBER_REQUIRES(mutex_);
  StreamUse* give_up(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  void put_back(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  void end_free(StreamUse* use, bool leaving) noexcept;
  void join(PinnedBlock* left, PinnedBlock* right) EMBER_REQUIRES(mutex_);
  void leave_list(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  bool is_current(const PinnedSegment& segment) const EMBER_REQUIRES(mutex_);
  static bool is_cached(const PinnedBlock& block);
  void send_away(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  PinnedBlock* find(const void* pointer, const void* context) EMBER_REQUIRES(mutex_);

  void catch_up();
  void finish_uses(bool settle);
  Status release_leaving();

  PinnedSource& source_;
  StreamUses uses_;

  Mutex mutex_;
  PinnedPolicy policy_ EMBER_GUARDED_BY(mutex_);
  std::unordered_map<const void*, PinnedBlock*> by_address_ EMBER_GUARDED_BY(mutex_);  // all
  std::unordered_set<const void*> contexts_ EMBER_GUARDED_BY(mutex_);                  // the same
  PinnedFree free_ EMBER_GUARDED_BY(mutex_);                   // of this generation
  std::size_t cached_ EMBER_GUARDED_BY(mutex_) = 0;            // bytes of whole segments in free_
  bool reserved_ EMBER_GUARDED_BY(mutex_) = false;             // the segment that stays was made
  PinnedSegment* leaving_ EMBER_GUARDED_BY(mutex_) = nullptr;  // to be given back
  std::uint32_t generation_ EMBER_GUARDED_BY(mutex_);  // resets of devices that were noticed
  cuda::PinnedCounters counters_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::memory
