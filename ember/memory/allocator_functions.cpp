#include "ember/memory/allocator_functions.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/memory/allocators.h"
#include "ember/memory/memory.h"
#include "ember/memory/pools.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/device.h"
#include "ember/runtime/runtime.h"

using ember::memory::DeviceAllocator;

namespace {

/// Calls `function(allocator, device)`, of the named device first, until one has the memory.
template <class Function>
bool with_owner(int device, const Function& function) {
  const auto ask = [&](int index) {
    DeviceAllocator* const allocator = ember::memory::allocator_if_made(index);
    return allocator != nullptr && function(*allocator, index);
  };
  if (device >= 0 && device < ember::memory::kMaxDevices && ask(device)) return true;
  for (int other = 0; other < ember::memory::kMaxDevices; ++other)
    if (other != device && ask(other)) return true;
  return false;
}

}  // namespace

void* ember_allocator_malloc(std::size_t bytes, int device, void* stream) {
  const int index = ember::cuda::DeviceArg(device).existing();
  return ember::memory::allocator_of(index).allocate(bytes, stream).address;
}

void ember_allocator_free(void* pointer, std::size_t /*bytes*/, int device,
                          void* /*stream*/) noexcept {
  if (pointer == nullptr || ember::memory::in_forked_child()) return;
  const auto free = [&](DeviceAllocator& allocator, int) {
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that is not the C library's free
    return allocator.free(pointer);
  };
  if (ember::cuda::driver_if_made() != nullptr && with_owner(device, free)) return;
  std::fprintf(stderr,
               "ember: a library freed %p, expected the start of device memory that it allocated "
               "by ember_allocator_malloc and has not yet freed; ignored\n",
               pointer);
}

void ember_allocator_record_stream(void* pointer, void* stream) {
  if (pointer == nullptr || ember::cuda::driver_if_made() == nullptr) return;
  const int current = ember::cuda::current_device();
  with_owner(current, [&](DeviceAllocator& allocator, int owner) {
    return allocator.record_stream(pointer, {stream, owner});
  });
}

void ember_allocator_empty_cache() { ember::cuda::empty_cache(); }

void ember_allocator_set_fraction(double fraction, int device) {
  ember::cuda::set_per_process_memory_fraction(fraction, device);
}

void* ember_allocator_base(void* pointer, std::size_t* bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  void* base = nullptr;
  std::size_t size = 0;
  with_owner(ember::cuda::current_device(), [&](DeviceAllocator& allocator, int) {
    if (!allocator.holds(pointer)) return false;
    for (const ember::memory::SegmentView& segment : allocator.snapshot()) {
      if (address < segment.address || address - segment.address >= segment.size) continue;
      base = reinterpret_cast<void*>(segment.address);
      size = segment.size;
      return true;
    }
    return false;
  });
  if (bytes != nullptr) *bytes = size;
  return base;
}

void ember_allocator_begin_pool(int device, ember::cuda::MemPoolId pool,
                                std::function<bool(void*)> filter) {
  // From now on streams are asked whether they are captured before an event is recorded or looked
  // at: the capture is not one of ember's, which are counted where they begin.
  ember::cuda::detail::captures.fetch_add(1);
  try {
    ember::cuda::begin_allocate_to_pool(
        pool,
        [filter = std::move(filter)](const void* stream) {
          return filter(const_cast<void*>(stream));
        },
        device);
  } catch (...) {
    ember::cuda::detail::captures.fetch_sub(1);
    throw;
  }
}

void ember_allocator_end_pool(int device, ember::cuda::MemPoolId pool) {
  ember::cuda::end_allocate_to_pool(pool, device);
  ember::cuda::detail::captures.fetch_sub(1);
}

void ember_allocator_release_pool(int device, ember::cuda::MemPoolId pool) {
  ember::cuda::release_pool(pool, device);
}
