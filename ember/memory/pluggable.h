// Allocators of the program's own: functions that ember calls for memory of devices, in place of
// asking the driver. Chapter 13 of the documents.
//
// The functions bring memory and take it back; all else is ember's, as for its own memory:
// record_stream(), statistics, limits, history, snapshots, private pools, OutOfMemoryError with its
// callbacks, and resets.
//
// An allocator of the process (change_current_allocator) is called for each allocation, with the
// size that was asked for: a segment with one block. Of one that a MemPool has, the pool asks for
// segments, which it caches as other pools do.
//
// What is demanded of the functions:
//  - They may be called by any thread, by several at once, and without a lock of ember's that they
//    could meet. They may block.
//  - `alloc_fn` returns memory of that device, aligned to 512 bytes, which begins no other
//    allocation; or null, if it has none. Then everything that is cached is given back, and it is
//    called once more, before there is an OutOfMemoryError. std::bad_alloc and OutOfMemoryError
//    mean the same. Any other exception ends the allocation with an Error that names the function
//    and says what it threw, and memory that cannot be used is given back and does the same.
//  - `free_fn` is called once for each, with the address, size, device and stream (native handle,
//    null: the default stream) of the allocation, possibly before work of that stream is done that
//    uses the memory: as with cudaFreeAsync. Other streams that record_stream() noted are done. If
//    it throws, the memory stays what it is, counted and unused, and free_fn is called again by
//    later calls; empty_cache() throws what it threw.
//  - Neither asks ember's allocators for memory, gives them any, or empties caches: device_malloc()
//    and device_free() are there for that. (Asking the allocator that it serves is an Error.)
//  - A reset of a device takes the memory: free_fn is not called for it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "ember/base/export.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::memory {
class UserMemory;
}  // namespace ember::inline v0::memory

namespace ember::inline v0::cuda {

/// Two functions for memory (Python: CUDAPluggableAllocator). Copies are the same allocator. What
/// it was made of stays until the process ends, since its memory may.
class EMBER_API PluggableAllocator {
 public:
  using Allocate = std::function<void*(std::size_t bytes, int device, void* stream)>;
  using Free = std::function<void(void* pointer, std::size_t bytes, int device, void* stream)>;

  /// `name` is for errors. ValueError for an empty function. Initialises nothing.
  PluggableAllocator(Allocate alloc_fn, Free free_fn, const std::string& name = "the program");
  /// Two functions of a shared object, of these types and without C++'s decoration of names:
  ///   void* alloc_fn(size_t size, int device, cudaStream_t stream);
  ///   void free_fn(void* ptr, size_t size, int device, cudaStream_t stream);
  /// The object is loaded, and stays so. Error with the loader's text if it cannot be loaded, or
  /// has no such symbol. Initialises nothing.
  PluggableAllocator(const std::string& path_to_so_file, const std::string& alloc_fn_name,
                     const std::string& free_fn_name);

  /// Optional, and to be set before the allocator is used: called once, with the number of devices,
  /// before alloc_fn is. What it throws ends that allocation; the next one calls it again.
  void set_init_fn(std::function<void(int device_count)> init_fn);
  /// Optional: of the allocator of the process, called by empty_cache() for each device, and where
  /// memory is short, after all free memory was given to free_fn: it gives the device what it
  /// keeps. empty_cache() throws what it throws.
  void set_reset_fn(std::function<void()> reset_fn);

  /// What its functions are called in errors.
  const std::string& alloc_fn_name() const noexcept;
  const std::string& free_fn_name() const noexcept;

  friend bool operator==(const PluggableAllocator&, const PluggableAllocator&) = default;

 private:
  friend class MemPool;
  friend void change_current_allocator(const PluggableAllocator& allocator);
  memory::UserMemory* memory_;
};

/// From now on device memory of the process comes from the allocator, and nothing of it is cached.
/// Only before any memory of a device was asked for: Error `Can't swap an already initialized
/// allocator` after that. The last change counts. Initialises nothing. Thread-safe.
EMBER_API void change_current_allocator(const PluggableAllocator& allocator);

// ---- For functions of such allocators

/// Memory of the device's own, which no allocator counts or reuses: cudaMalloc, on every kind of
/// device. Aligned to 512 bytes. Null for zero bytes, and if the device has no such memory left.
/// May block. AcceleratorError for anything else. Initialises. Thread-safe.
EMBER_API void* device_malloc(std::size_t bytes, DeviceArg device = {});
/// Gives back what device_malloc returned; null is ignored. Waits for work on the device, as
/// cudaFree does. Error for anything else, memory among it that an allocator has; AcceleratorError
/// `operation not permitted` in a host function, which it would wait for.
EMBER_API void device_free(void* pointer);

}  // namespace ember::inline v0::cuda
