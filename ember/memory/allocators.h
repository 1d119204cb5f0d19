// The allocators of this process: one per device, one for pinned memory. Made at first use, never
// destroyed: buffers with longer lives may still free while the process exits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/memory/caching_allocator.h"
#include "ember/memory/pinned_allocator.h"

namespace ember::memory {

/// Whether PYTORCH_NO_CUDA_MEMORY_CACHING is set. Read once.
bool caching_disabled();

/// The allocator of an existing device. Throws what initialisation throws, also in a forked child.
CachingAllocator& allocator_of(int device);
/// The same if it was made, else null. Null in a forked child, whose parent's memory is not its
/// own.
CachingAllocator* allocator_if_made(int device) noexcept;
inline constexpr int kMaxDevices = 64;

PinnedAllocator& pinned_allocator();
/// Null before the first use and in a forked child.
PinnedAllocator* pinned_allocator_if_made() noexcept;

/// How often a device was reset since memory was first asked for here.
std::uint32_t reset_count(int device) noexcept;

/// Whether this is a forked child of a process that had memory from here.
bool in_forked_child() noexcept;

/// Memory straight from the device, for processes without caching. Throws OutOfMemoryError.
void* direct_allocate(std::size_t bytes, int device);
/// False if the driver does not know the pointer as the start of device memory.
bool direct_free(void* pointer) noexcept;

}  // namespace ember::memory
