// Private pools of device memory, and allocations without the cache. Chapters 7 to 9 of the
// documents; what is not there (MemPool, use_mem_pool) is as in today's PyTorch.
//
// Memory of a private pool serves no allocation of another pool, and no other pool's memory serves
// its own. An allocation goes to the pool that the innermost guard of the thread names for its
// device; without a guard, to the ordinary one. Blocks in use stay valid whatever becomes of their
// pool. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ember/base/export.h"
#include "ember/memory/pluggable.h"
#include "ember/memory/pool_id.h"
#include "ember/memory/snapshot.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::memory {
struct Pool;
}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

/// How a pool serves.
struct MemPoolOptions {
  /// When an allocation of another pool would fail, and all else was tried, a free block of this
  /// one that was used on the same stream serves it.
  bool use_on_oom = false;
  /// Blocks are not split: each is a segment of its own, as large as what was asked for first.
  bool no_split = false;
};

/// A private pool of a device. Once it is gone, its free memory goes back to the device, and what
/// is in use when it is free and the cache is emptied. Movable, not copyable.
/// Members may be called from any thread, but not while another thread moves or destroys it.
class EMBER_API MemPool {
 public:
  /// Initialises. Without a device: of the current one.
  explicit MemPool(const MemPoolOptions& options = {}, DeviceArg device = {});
  /// Its segments come from the allocator. They are cached, and given back as other pools' are,
  /// unless the allocator of the whole process was changed, or caching is off: then each allocation
  /// is a segment.
  explicit MemPool(const PluggableAllocator& allocator, const MemPoolOptions& options = {},
                   DeviceArg device = {});
  MemPool(MemPool&& other) noexcept;
  MemPool& operator=(MemPool&& other) noexcept;
  /// Gives free memory back, so it may wait for work of the device as empty_cache() does. What
  /// cannot be given back now goes back later. Wakes it first if it sleeps; where that fails, what
  /// is in use then stays with the host, and can be freed only.
  ~MemPool();

  const MemPoolId& id() const noexcept { return id_; }
  Device device() const noexcept { return {Device::Type::cuda, device_}; }
  const MemPoolOptions& options() const noexcept { return options_; }
  /// Nothing if its memory comes from where other pools' does.
  const std::optional<PluggableAllocator>& allocator() const noexcept { return allocator_; }
  /// How many there are that need it: this object, guards, and beginnings of
  /// begin_allocate_to_pool. 0 if it was moved from.
  int use_count() const;
  /// Puts the pool to sleep: what is in use on its device moves to page-locked memory of the host,
  /// and all its memory goes back to the device. Addresses, tensors and buffers stay what they are;
  /// restore() brings the contents back to them. What is free in the pool goes for good, as with
  /// empty_cache(). Nothing if it sleeps already.
  ///
  /// Meanwhile an allocation from the pool is an Error that names the pool. Freeing works, and what
  /// was freed is not brought back. To use the memory is a mistake of the program's: on simulated
  /// devices a kernel that does faults (Code::illegal_address, with its name), and a copy is
  /// refused; on CUDA both are an illegal address. A reset of the device ends the sleep with the
  /// memory, as it ends all memory. memory_allocated() counts what sleeps, memory_reserved() does
  /// not; snapshots have it as segments that are `asleep`.
  ///
  /// Blocks for the work of the streams that its memory was allocated for or noted for
  /// (record_stream), and of all streams of the device if a graph's work used some of it; other
  /// work that uses it must be over, and no thread may use it meanwhile. Then for the copies.
  ///
  /// All of its memory in use must be in segments that grow (expandable_segments:True when it was
  /// allocated): else Error, which names the setting. Error also while a graph lives that was
  /// captured with the pool, while work is captured, and if another process has memory of it.
  /// AcceleratorError `out of memory` if the host has not enough page-locked memory, and what the
  /// device reports; `operation not permitted` in a host function. After an error the pool is
  /// awake, unless the text says otherwise. ValueError if it was moved from.
  void offload();
  /// Wakes the pool: memory at the same addresses, with the same contents. Nothing if it does not
  /// sleep. Blocks until the copies are done. OutOfMemoryError, after all that an allocation would
  /// have tried, if the device has not enough memory (the report's `segment` is what was wanted):
  /// then, and after any other error, the pool sleeps as before, and the same call succeeds once
  /// there is memory. The host's memory goes back to the cache of pinned memory. ValueError if it
  /// was moved from.
  void restore();
  /// Whether it sleeps. False if it was moved from.
  bool asleep() const;
  /// Its segments, as memory_snapshot(id()) has them.
  std::vector<MemorySnapshot::Segment> snapshot() const;

  /// For other libraries: what ember_allocator_malloc() (allocator_functions.h) returns within a
  /// MemPoolGuard of this pool, with the errors of both; freed by ember_allocator_free(). Blocks as
  /// that does. Thread-safe.
  void* allocate(std::size_t bytes, int device, void* native_stream) const;

 private:
  friend class MemPoolGuard;
  MemPool(const std::optional<PluggableAllocator>& allocator, const MemPoolOptions& options,
          DeviceArg device);
  memory::Pool* retain(int device) const;
  memory::Pool& pool_for(const char* function) const;

  std::optional<PluggableAllocator> allocator_;
  MemPoolOptions options_;
  MemPoolId id_;
  int device_ = 0;
  memory::Pool* pool_ = nullptr;
};

/// While it lives, what its thread allocates on a device comes from the pool. Guards nest: the
/// innermost one of a device counts. On a device that is not the pool's own, the pool of the same
/// id there, which lives as long as the guard and what is allocated. Several threads may use a
/// pool at once.
class [[nodiscard]] EMBER_API MemPoolGuard {
 public:
  /// Without a device: for the current one. ValueError if the pool was moved from.
  explicit MemPoolGuard(const MemPool& pool, DeviceArg device = {});
  ~MemPoolGuard();
  MemPoolGuard(const MemPoolGuard&) = delete;
  MemPoolGuard& operator=(const MemPoolGuard&) = delete;

 private:
  int device_;
  memory::Pool* pool_;
  std::uint64_t route_;
};
inline MemPoolGuard use_mem_pool(const MemPool& pool, DeviceArg device = {}) {
  return MemPoolGuard(pool, device);
}

/// Gives all memory of a pool that is not in use back to the devices, as empty_cache() does with
/// the ordinary pool's and with that of pools that nobody needs any longer. Nothing before
/// initialisation, and for a pool that there is not. Waits and fails as empty_cache().
EMBER_API void empty_cache(const MemPoolId& pool);
inline void empty_cache(const MemPool& pool) { empty_cache(pool.id()); }

// ---- For captures of graphs

/// A new id for a pool. The pool is made by whoever allocates to it first.
EMBER_API MemPoolId graph_pool_handle() noexcept;

/// Whether an allocation for work on that stream (native handle) is meant. Called under a lock of
/// the allocator's: it may ask the driver about the stream, and must neither allocate, free nor
/// throw.
using StreamFilter = std::function<bool(const void* stream)>;

/// From now on, allocations of all threads on the device for streams that the filter accepts come
/// from the pool, except those of threads with a guard. The pool is made if there is none, and is
/// needed until release_pool(). Error `beginAllocateToPool: already recording to mempool_id` until
/// end_allocate_to_pool(); ValueError for (0, 0) or an empty filter.
EMBER_API void begin_allocate_to_pool(const MemPoolId& pool, StreamFilter filter,
                                      DeviceArg device = {});
/// No longer. Error `endAllocatePool: not currently recording to mempool_id` unless it was begun.
EMBER_API void end_allocate_to_pool(const MemPoolId& pool, DeviceArg device = {});
/// One who needed the pool does not any more. Once for each beginning; Error if nobody needs it.
EMBER_API void release_pool(const MemPoolId& pool, DeviceArg device = {});

// ---- Without the cache

/// False: from now on each allocation of the process is one of the device's own, of exactly the
/// size asked for, and goes back to the device when it is freed, which waits for the device's work.
/// True is the default. What is in use and what is cached stays as it is. Statistics count all of
/// it. Does not block or initialise.
EMBER_API void caching_allocator_enable(bool value = true) noexcept;
/// Whether caching is on for the calling thread: enabled, and without a guard.
EMBER_API bool caching_allocator_enabled() noexcept;

/// While it lives, its thread allocates without the cache, also where a guard names a pool. Nests.
/// Ends on the thread on which it began.
class [[nodiscard]] EMBER_API CachingAllocatorDisabled {
 public:
  CachingAllocatorDisabled() noexcept;
  ~CachingAllocatorDisabled();
  CachingAllocatorDisabled(const CachingAllocatorDisabled&) = delete;
  CachingAllocatorDisabled& operator=(const CachingAllocatorDisabled&) = delete;
};

}  // namespace ember::inline v0::cuda
