// The allocators of this process: one per device, one for pinned memory. Made at first use, never
// destroyed: buffers with longer lives may still free while the process exits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ember/memory/device_allocator.h"
#include "ember/memory/pinned_allocator.h"

namespace ember::inline v0::memory {

/// The allocator of an existing device. Throws what initialisation throws, also in a forked child.
DeviceAllocator& allocator_of(int device);
/// The same if it was made, else null. Null in a forked child, whose parent's memory is not its
/// own.
DeviceAllocator* allocator_if_made(int device) noexcept;
inline constexpr int kMaxDevices = 64;

PinnedAllocator& pinned_allocator();
/// Null before the first use and in a forked child.
PinnedAllocator* pinned_allocator_if_made() noexcept;

/// The settings in force, of the environment unless they were changed. They live for ever. Throws
/// ValueError for an environment variable that is none, and asks again the next time.
const Settings& settings();
/// See cuda::set_allocator_settings.
void change_settings(std::string_view text);

/// From now on memory of all devices comes from there, and nothing is cached. False if an allocator
/// was made already: then nothing has changed. `memory` lives for ever.
bool change_memory(MemorySource& memory);
/// Whether it was.
bool memory_changed() noexcept;

/// Whether this is a forked child of a process that had memory from here.
bool in_forked_child() noexcept;

}  // namespace ember::inline v0::memory
