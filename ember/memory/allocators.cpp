#include "ember/memory/allocators.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/no_destructor.h"
#include "ember/memory/caching.h"
#include "ember/memory/direct.h"
#include "ember/memory/driver_source.h"
#include "ember/memory/top.h"
#include "ember/runtime/device.h"
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

/// Whether memory is kept for reuse: the same for all of it. Under making().
bool caches() {
  static const bool direct = env::get("PYTORCH_NO_CUDA_MEMORY_CACHING").has_value();
  return !direct;
}

PinnedPolicy pinned_policy(const Settings& settings) {
  PinnedPolicy policy;
  policy.caching = caches();
  policy.max_round_threshold = settings.pinned_max_round_threshold;
  policy.max_cached = settings.pinned_max_cached_size;
  policy.reserve = settings.pinned_reserve_segment_size;
  return policy;
}

/// Under making().
bool any_made() {
  return std::any_of(std::begin(by_device), std::end(by_device), [](const auto& made) {
    return made.load(std::memory_order_relaxed) != nullptr;
  });
}

/// Of the program's (cuda::change_current_allocator); null: of the devices. Written under making().
constinit std::atomic<MemorySource*> of_program{nullptr};

constinit std::atomic<const Settings*> in_force{nullptr};

/// Where all memory comes from; null: of the devices, and it is cached. Under making().
MemorySource* source() {
  static OrderedDeviceMemory ordered;
  if (MemorySource* const found = of_program.load(std::memory_order_relaxed)) return found;
  return in_force.load(std::memory_order_relaxed)->ordered ? &ordered : nullptr;
}

// The same for all devices. Under making().
std::unique_ptr<BackEnd> make_back_end() {
  if (!caches()) return std::make_unique<DirectBackEnd>(/*counts=*/false);
  if (source() != nullptr) return std::make_unique<DirectBackEnd>(/*counts=*/true);
  return std::make_unique<CachingBackEnd>();
}

/// Settings are kept for ever: any thread may be reading them. Under making().
const Settings* keep(Settings settings) {
  static NoDestructor<std::deque<Settings>> kept;
  return &kept->emplace_back(std::move(settings));
}

void check_settings(const Status& status, const char* where) {
  if (status.ok()) return;
  throw ValueError(where == nullptr ? status.detail() : status.detail() + " (in " + where + ")");
}

/// Shown without a lock.
void warn_of(const Settings& settings) {
  if (settings.ordered && settings.any_native())
    warn(Warning::user,
         "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
         "garbage_collect_threshold.");
  std::string names;
  for (const std::string& name : settings.without_effect())
    names += (names.empty() ? "" : ", ") + name;
  if (!names.empty())
    warn(Warning::user, "These options of the allocator have no effect in ember: " + names + ".");
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
  (void)settings();  // may throw
  any_used = true;
  cuda::top::start_if_asked();
  watch_runs();
  const std::size_t total = cuda::get_device_properties(device).total_memory;
  const MutexLock lock(making());
  DeviceAllocator* allocator = by_device[device].load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    const Settings& now = *in_force.load(std::memory_order_relaxed);
    allocator = new DeviceAllocator(device, *new DriverSegmentSource(device), events(),
                                    make_back_end(), source());
    allocator->apply(now);
    if (now.per_process_memory_fraction < 1)
      allocator->set_fraction(now.per_process_memory_fraction, total);
    by_device[device].store(allocator, std::memory_order_release);
    // Once it can be found, so that no change of what is wanted passes it by.
    allocator->apply(history_wish());
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
  (void)settings();  // may throw
  any_used = true;
  watch_runs();
  const MutexLock lock(making());
  PinnedAllocator* allocator = pinned.load(std::memory_order_relaxed);
  if (allocator == nullptr) {
    allocator = new PinnedAllocator(*new DriverPinnedSource, events());
    allocator->apply(pinned_policy(*in_force.load(std::memory_order_relaxed)));
    pinned.store(allocator, std::memory_order_release);
  }
  return *allocator;
}

PinnedAllocator* pinned_allocator_if_made() noexcept {
  if (cuda::driver_if_made() == nullptr) return nullptr;
  return pinned.load(std::memory_order_acquire);
}

const Settings& settings() {
  if (const Settings* now = in_force.load(std::memory_order_acquire)) return *now;
  Settings read;
  for (const char* name : {"EMBER_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
    if (const auto text = env::get(name)) {
      check_settings(parse_settings(*text, read), name);
      break;
    }
  const Settings* now = nullptr;
  {
    const MutexLock lock(making());
    now = in_force.load(std::memory_order_relaxed);
    if (now != nullptr) return *now;
    now = keep(std::move(read));
    in_force.store(now, std::memory_order_release);
  }
  warn_of(*now);
  return *now;
}

void change_settings(std::string_view text) {
  (void)settings();
  Settings warned;
  check_settings(parse_settings(text, warned), nullptr);
  {
    const MutexLock lock(making());
    Settings changed = *in_force.load(std::memory_order_relaxed);
    const Settings& defaults = default_settings();
    changed.max_split_size = defaults.max_split_size;
    changed.roundup_divisions = defaults.roundup_divisions;
    changed.garbage_collection_threshold = defaults.garbage_collection_threshold;
    const bool ordered = changed.ordered;
    check_settings(parse_settings(text, changed), nullptr);
    if (changed.ordered != ordered && any_made())
      throw ValueError(
          "Allocator backend parsed at runtime != allocator backend parsed at load time: memory of "
          "a device was asked for before, with backend:" +
          std::string(ordered ? "cudaMallocAsync" : "native"));
    const Settings* now = keep(std::move(changed));
    for (int device = 0; device < kMaxDevices; ++device)
      if (DeviceAllocator* made = allocator_if_made(device)) made->apply(*now);
    if (PinnedAllocator* made = pinned_allocator_if_made()) made->apply(pinned_policy(*now));
    in_force.store(now, std::memory_order_release);
  }
  warn_of(warned);
}

bool change_memory(MemorySource& memory) {
  const MutexLock lock(making());
  if (any_made()) return false;
  of_program.store(&memory, std::memory_order_relaxed);
  return true;
}

bool memory_changed() noexcept { return of_program.load(std::memory_order_relaxed) != nullptr; }

bool in_forked_child() noexcept { return any_used && cuda::driver_if_made() == nullptr; }

}  // namespace ember::inline v0::memory
