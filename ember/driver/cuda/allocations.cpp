#include "ember/driver/cuda/allocations.h"

#include <iterator>

namespace ember::inline v0::driver::cuda {
namespace {

std::uintptr_t key(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

void Allocations::add(void* base, const Entry& entry) noexcept {
  MutexLock lock(mutex_);
  entries_.insert_or_assign(key(base), entry);
}

std::optional<Allocations::Entry> Allocations::take(const void* base, Kind kind,
                                                    std::optional<int> device) noexcept {
  MutexLock lock(mutex_);
  const auto found = entries_.find(key(base));
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  if (entry.kind != kind || entry.device != device.value_or(entry.device)) return {};
  entries_.erase(found);
  return entry;
}

std::optional<Allocations::Found> Allocations::find(const void* pointer) noexcept {
  MutexLock lock(mutex_);
  const auto above = entries_.upper_bound(key(pointer));
  if (above == entries_.begin()) return {};
  const auto& [base, entry] = *std::prev(above);
  if (key(pointer) - base >= entry.bytes) return {};
  return Found{reinterpret_cast<void*>(base), entry};
}

void Allocations::drop(int device) noexcept {
  MutexLock lock(mutex_);
  for (auto item = entries_.begin(); item != entries_.end();) {
    Entry& entry = item->second;
    const bool ends = entry.device == device && entry.kind != Kind::pinned;
    if (entry.device == device) entry.device = kNoDevice;
    item = ends ? entries_.erase(item) : std::next(item);
  }
}

}  // namespace ember::inline v0::driver::cuda
