// The allocators in the form of std::pmr, for code that takes a memory resource.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <string>

#include "ember/base/error.h"
#include "ember/base/export.h"
#include "ember/memory/memory.h"

namespace ember::inline v0::cuda {

namespace detail {
/// As pinned_alloc(), at a multiple of `alignment`: a power of two up to 4096.
EMBER_API void* pinned_alloc(std::size_t bytes, std::size_t alignment);
}  // namespace detail

/// Device memory for work on one stream, from the caching allocator. What it gives can be given
/// back to any DeviceResource, or to caching_allocator_delete. Containers of the standard library
/// write to what they allocate, which the host cannot do here: DeviceVector is one that does not.
/// Errors as allocate(); ValueError for an alignment above 512. Thread-safe; blocks as allocate().
class DeviceResource final : public std::pmr::memory_resource {
 public:
  explicit DeviceResource(const Stream& stream = current_stream()) noexcept : stream_(stream) {}
  const Stream& stream() const noexcept { return stream_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > 512)
      throw ValueError("alignment is " + std::to_string(alignment) + ", expected at most 512");
    // Never null, also for no bytes.
    return caching_allocator_alloc(bytes == 0 ? 1 : bytes, stream_.device_index(), stream_);
  }
  void do_deallocate(void* pointer, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    caching_allocator_delete(pointer);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const DeviceResource*>(&other) != nullptr;
  }

  Stream stream_;
};

/// Page-locked host memory, from the caching allocator of pinned memory: `std::pmr::vector<float>
/// staging(n, &resource)` is copied from and to devices without blocking. Note streams that use it
/// with pinned_record_event, or wait for them, before it goes. Errors as allocate_pinned();
/// ValueError for an alignment above 4096. Thread-safe; may block.
class PinnedResource final : public std::pmr::memory_resource {
 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > 4096)
      throw ValueError("alignment is " + std::to_string(alignment) + ", expected at most 4096");
    // Never null, also for no bytes.
    return detail::pinned_alloc(bytes == 0 ? 1 : bytes, alignment);
  }
  void do_deallocate(void* pointer, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
    pinned_delete(pointer);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return dynamic_cast<const PinnedResource*>(&other) != nullptr;
  }
};

}  // namespace ember::inline v0::cuda
