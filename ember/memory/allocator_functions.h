// Ember's device memory for other libraries, as functions with plain names: libember is the shared
// object that their interfaces for allocators load. PyTorch takes them by
// ember.integrations.torch.install() (Python), CuPy by ember.integrations.cupy.install().
//
// They do what the functions of memory.h and pools.h do, with what an allocator is told there: a
// device's index, and native handles of streams (null: the device's default stream). They make no
// stream, load no kernel, never take Python's lock, and leave the calling thread's context and its
// mode of captures as they were. All are thread-safe. Those that throw say so: what they throw is
// derived from std::exception.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "ember/base/export.h"
#include "ember/memory/pool_id.h"

extern "C" {

/// Memory of the device for work on the stream; null for zero bytes. May block while the device is
/// asked for more memory. Throws ember::OutOfMemoryError, and AcceleratorError. Initialises.
EMBER_API void* ember_allocator_malloc(std::size_t bytes, int device, void* stream);

/// Frees what ember_allocator_malloc returned; null is ignored, and so is everything once the
/// process ends. What is not from there is left alone, and said on stderr. Never throws; blocks
/// only where nothing is cached.
EMBER_API void ember_allocator_free(void* pointer, std::size_t bytes, int device,
                                    void* stream) noexcept;

/// As record_stream(): the memory that contains `pointer` is used by work on a stream of its
/// device. Throws AcceleratorError.
EMBER_API void ember_allocator_record_stream(void* pointer, void* stream);

/// As empty_cache().
EMBER_API void ember_allocator_empty_cache();

/// As set_per_process_memory_fraction(); ValueError unless within 0 and 1.
EMBER_API void ember_allocator_set_fraction(double fraction, int device);

/// Where the segment begins that contains `pointer`, and its bytes; null and 0 if none does.
EMBER_API void* ember_allocator_base(void* pointer, std::size_t* bytes);

/// As begin_allocate_to_pool(), with a filter for streams, which PyTorch's captures call. What can
/// disturb a capture is not done until the end.
EMBER_API void ember_allocator_begin_pool(int device, ember::cuda::MemPoolId pool,
                                          std::function<bool(void*)> filter);
/// As end_allocate_to_pool() and release_pool().
EMBER_API void ember_allocator_end_pool(int device, ember::cuda::MemPoolId pool);
EMBER_API void ember_allocator_release_pool(int device, ember::cuda::MemPoolId pool);

}  // extern "C"
