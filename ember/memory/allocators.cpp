#include "ember/memory/allocators.h"

#include <atomic>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/memory/caching.h"
#include "ember/memory/direct.h"
#include "ember/memory/driver_source.h"
#include "ember/memory/top.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"

namespace ember::inline v0::memory {
namespace {

constinit std::atomic<DeviceAllocator*> by_device[kMaxDevices] = {};
constinit std::atomic<PinnedAllocator*> pinned = nullptr;
constinit std::atomic<bool> any_used = false;  // any of what is below

Mutex& making() {
  static Mutex mutex;
  return mutex;
}

/// The one pool of events. Under making().
EventPool& events() {
  static auto* const made = new EventPool(*new DriverEventSource);
  return *made;
}

// The same for all devices. Under making().
std::unique_ptr<BackEnd> make_back_end() {
  static const bool direct = env::get("PYTORCH_NO_CUDA_MEMORY_CACHING").has_value();
  if (direct) return std::make_unique<DirectBackEnd>();
  return std::make_unique<CachingBackEnd>();
}

/// What a run has left in the caches must not show in the next one.
void empty_caches(std::uint64_t) {
  for (int device = 0; device < kMaxDevices; ++device)
    if (DeviceAllocator* made = allocator_if_made(device)) (void)made->empty_cache();
  if (PinnedAllocator* made = pinned_allocator_if_made()) (void)made->empty_cache();
  const MutexLock lock(making());
  events().empty();
}

void watch_runs() {
  static std::atomic<bool> watching{false};
  if (sim::seeded() && !watching.exchange(true)) cuda::on_run_begun(&empty_caches);
}

DeviceAllocator& make(int device) {
  if (device < 0 || device >= kMaxDevices)
    throw AcceleratorError(Status(Code::invalid_device, "device " + std::to_string(device) +
                                                            " has no allocator: at most 64 have"));
  any_used = true;
  cuda::top::start_if_asked();
  watch_runs();
  const MutexLock lock(making());
  DeviceAllocator* allocator = by_device[device].load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    allocator =
        new DeviceAllocator(device, *new DriverSegmentSource(device), events(), make_back_end());
    by_device[device].store(allocator, std::memory_order_release);
  }
  return *allocator;
}

}  // namespace

DeviceAllocator& allocator_of(int device) {
  if (DeviceAllocator* allocator = allocator_if_made(device)) [[likely]]
    return *allocator;
  (void)cuda::active_driver();  // throws in a forked child
  return make(device);
}

DeviceAllocator* allocator_if_made(int device) noexcept {
  if (device < 0 || device >= kMaxDevices || cuda::driver_if_made() == nullptr) return nullptr;
  return by_device[device].load(std::memory_order_acquire);
}

PinnedAllocator& pinned_allocator() {
  (void)cuda::active_driver();
  if (PinnedAllocator* made = pinned.load(std::memory_order_acquire)) return *made;
  any_used = true;
  watch_runs();
  const MutexLock lock(making());
  PinnedAllocator* allocator = pinned.load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    allocator = new PinnedAllocator(*new DriverPinnedSource, events());
    pinned.store(allocator, std::memory_order_release);
  }
  return *allocator;
}

PinnedAllocator* pinned_allocator_if_made() noexcept {
  if (cuda::driver_if_made() == nullptr) return nullptr;
  return pinned.load(std::memory_order_acquire);
}

bool in_forked_child() noexcept { return any_used && cuda::driver_if_made() == nullptr; }

}  // namespace ember::inline v0::memory
