// The caching allocator of page-locked host memory: chapter 14 of the documents.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/counters.h"
#include "ember/memory/segment_source.h"
#include "ember/memory/stream_uses.h"

namespace ember::inline v0::memory {

/// A piece of pinned memory. Its address is the "context" by which views of the memory know it.
struct PinnedBlock {
  void* data = nullptr;
  std::size_t bytes = 0;         ///< a power of two
  std::uint32_t generation = 0;  ///< how many resets of devices there were before it was made
  bool in_use = false;
  StreamUse* use = nullptr;     ///< streams that copy from or to it
  PinnedBlock* next = nullptr;  ///< in the list of its size
};

/// Blocks have powers of two as sizes and are never split. A freed block is reused, last freed
/// first, once the work is done that was on its recorded streams when it was freed. Thread-safe;
/// the source is never called while `mutex_` is held. Nothing is allocated on the heap for a reuse.
///
/// A reset of any device may leave memory from before it no longer page-locked. So that is not
/// handed out again: what is cached goes back with the next call here, what is in use when it is
/// free.
class PinnedAllocator {
 public:
  /// `source` and `events` must outlive the allocator.
  PinnedAllocator(PinnedSource& source, EventPool& events)
      : source_(source), uses_(events, StreamUses::kNoDevice), generation_(source.epoch()) {}
  /// Gives everything back, whether in use or not.
  ~PinnedAllocator();
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  /// Null for zero bytes. May block. Throws AcceleratorError (out of memory: after the unused
  /// blocks were given back and that did not help), and ValueError for 2^60 bytes and more.
  PinnedBlock* allocate(std::size_t bytes);
  /// False, and nothing else, if no block in use begins at `pointer`. Does not block, except to
  /// give back a block from before a reset.
  bool free(void* pointer) noexcept;

  /// Notes that work on the stream uses the block in use that `context` is, or that begins at
  /// `pointer`. False if there is neither; either may be anything.
  bool record_event(const void* pointer, const void* context, const driver::StreamHandle& stream);

  /// Gives unused blocks back. Waits for devices of streams that were destroyed after they had been
  /// recorded, and for nothing else. Failed: the first error; the rest has been given back.
  Status empty_cache();
  cuda::PinnedCounters counters();

 private:
  void catch_up();
  void finish_uses(bool settle);
  Status release_cached();
  Status release_retired();
  Status release(const std::vector<PinnedBlock*>& unused);
  PinnedBlock* adopt(void* data, std::size_t bytes, std::uint32_t generation);
  void put_back(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  void insert(PinnedBlock* block) EMBER_REQUIRES(mutex_);
  void take_out(PinnedBlock*& list, std::vector<PinnedBlock*>& out) EMBER_REQUIRES(mutex_);
  PinnedBlock* find(const void* pointer, const void* context) EMBER_REQUIRES(mutex_);

  PinnedSource& source_;
  StreamUses uses_;

  Mutex mutex_;
  std::unordered_map<const void*, PinnedBlock*> by_address_ EMBER_GUARDED_BY(mutex_);
  std::unordered_set<const void*> contexts_ EMBER_GUARDED_BY(mutex_);
  std::array<PinnedBlock*, 64> free_ EMBER_GUARDED_BY(mutex_){};  // by the logarithm of the size
  PinnedBlock* retired_ EMBER_GUARDED_BY(mutex_) = nullptr;       // unused, but to be given back
  std::uint32_t generation_ EMBER_GUARDED_BY(mutex_);  // resets of devices that were noticed
  cuda::PinnedCounters counters_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::memory
