#include "ember/memory/allocators.h"

#include <atomic>

#include "ember/base/embedding.h"
#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/memory/driver_source.h"
#include "ember/runtime/runtime.h"

namespace ember::memory {
namespace {

constinit std::atomic<CachingAllocator*> by_device[kMaxDevices] = {};
constinit std::atomic<PinnedAllocator*> pinned = nullptr;
constinit std::atomic<bool> used = false;  // any of what is below
constinit std::atomic<std::uint32_t> resets[kMaxDevices] = {};

Mutex& making() {
  static Mutex mutex;
  return mutex;
}

void device_was_reset(int device) {
  if (device < 0 || device >= kMaxDevices) return;
  resets[device].fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < kMaxDevices; ++i) {
    CachingAllocator* allocator = allocator_if_made(i);
    if (allocator == nullptr) continue;
    if (i == device)
      allocator->forget();
    else
      allocator->forget_device(device);
  }
  if (PinnedAllocator* allocator = pinned_allocator_if_made()) allocator->forget_device(device);
}

/// Before the first memory of any kind.
void begin_use() {
  static const bool hooked = (cuda::on_device_reset(&device_was_reset), true);
  (void)hooked;
  used = true;
}

CachingAllocator& make(int device) {
  if (device < 0 || device >= kMaxDevices)
    throw AcceleratorError(Status(Code::invalid_device, "device " + std::to_string(device) +
                                                            " has no allocator: at most 64 have"));
  begin_use();
  MutexLock lock(making());
  CachingAllocator* allocator = by_device[device].load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    allocator = new CachingAllocator(device, *new DriverSegmentSource(device));
    by_device[device].store(allocator, std::memory_order_release);
  }
  return *allocator;
}

}  // namespace

bool caching_disabled() {
  // No static object with a lock: a forked child may ask before it is refused, and must not wait.
  enum : std::uint8_t { unread, yes, no };
  static constinit std::atomic<std::uint8_t> known{unread};
  std::uint8_t disabled = known.load(std::memory_order_relaxed);
  if (disabled == unread) {
    disabled = env::get("PYTORCH_NO_CUDA_MEMORY_CACHING").has_value() ? yes : no;
    known.store(disabled, std::memory_order_relaxed);
  }
  return disabled == yes;
}

CachingAllocator& allocator_of(int device) {
  if (CachingAllocator* allocator = allocator_if_made(device)) [[likely]]
    return *allocator;
  (void)cuda::active_driver();  // throws in a forked child
  return make(device);
}

CachingAllocator* allocator_if_made(int device) noexcept {
  if (device < 0 || device >= kMaxDevices || cuda::driver_if_made() == nullptr) return nullptr;
  return by_device[device].load(std::memory_order_acquire);
}

PinnedAllocator& pinned_allocator() {
  (void)cuda::active_driver();
  if (PinnedAllocator* made = pinned.load(std::memory_order_acquire)) return *made;
  begin_use();
  MutexLock lock(making());
  PinnedAllocator* allocator = pinned.load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    allocator = new PinnedAllocator(*new DriverPinnedSource);
    pinned.store(allocator, std::memory_order_release);
  }
  return *allocator;
}

PinnedAllocator* pinned_allocator_if_made() noexcept {
  if (cuda::driver_if_made() == nullptr) return nullptr;
  return pinned.load(std::memory_order_acquire);
}

std::uint32_t reset_count(int device) noexcept {
  return resets[device].load(std::memory_order_relaxed);
}

bool in_forked_child() noexcept { return used && cuda::driver_if_made() == nullptr; }

void* direct_allocate(std::size_t bytes, int device) {
  if (bytes == 0) return nullptr;
  if (bytes >= kTooLarge) throw OutOfMemoryError(too_large_text(bytes));
  begin_use();
  void* pointer = nullptr;
  Status status = cuda::active_driver().malloc(device, bytes, pointer);
  if (status.code() == Code::out_of_memory) {
    DriverSegmentSource source(device);
    OutOfMemory what;
    what.device = device;
    what.segment = what.requested = bytes;
    (void)source.memory_info(what.info);
    what.processes = source.processes();
    throw OutOfMemoryError(out_of_memory_text(what));
  }
  check(status);
  return pointer;
}

bool direct_free(void* pointer) noexcept {
  driver::Driver* driver = cuda::driver_if_made();
  if (driver == nullptr) return false;
  driver::PointerInfo info;
  if (!driver->pointer_info(pointer, info).ok()) return false;
  if (info.kind != driver::PointerInfo::Kind::device || info.base != pointer) return false;
  const UnexpectedWait until_freed;
  return driver->free(info.device, pointer).ok();
}

}  // namespace ember::memory
