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
  auto first = std::prev(above);
  Entry entry = first->second;
  if (key(pointer) - first->first >= entry.bytes) return {};
  if (entry.kind != Kind::chunk) return Found{reinterpret_cast<void*>(first->first), entry};
  const auto follows = [](const auto& before, const auto& after) {
    return before->second.kind == Kind::chunk && after->second.kind == Kind::chunk &&
           before->first + before->second.bytes == after->first;
  };
  auto end = above;
  while (end != entries_.end() && follows(std::prev(end), end)) ++end;
  while (first != entries_.begin() && follows(std::prev(first), first)) --first;
  const auto last = std::prev(end);
  entry.bytes = last->first + last->second.bytes - first->first;
  return Found{reinterpret_cast<void*>(first->first), entry};
}

std::vector<Allocations::Found> Allocations::chunks_of(int device) noexcept {
  MutexLock lock(mutex_);
  std::vector<Found> found;
  for (const auto& [base, entry] : entries_)
    if (entry.kind == Kind::chunk && entry.device == device)
      found.push_back({reinterpret_cast<void*>(base), entry});
  return found;
}

bool Allocations::any_within(const void* start, std::size_t bytes) noexcept {
  MutexLock lock(mutex_);
  const auto behind = entries_.lower_bound(key(start) + bytes);
  if (behind == entries_.begin()) return false;
  const auto& [base, entry] = *std::prev(behind);
  return base + entry.bytes > key(start);
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
