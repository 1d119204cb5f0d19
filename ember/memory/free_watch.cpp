#include "ember/memory/free_watch.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/memory/allocators.h"

namespace ember::inline v0::memory {
namespace {

constexpr std::size_t kMostGone = 64;

struct Watched {
  std::size_t bytes = 0;
  FreeWatch* by = nullptr;
};

/// After the locks of allocators.
struct Registry {
  Mutex mutex;
  std::multimap<std::uintptr_t, Watched> ranges EMBER_GUARDED_BY(mutex);  // by their first byte
  std::size_t longest EMBER_GUARDED_BY(mutex) = 0;
};
Registry& registry() {
  static NoDestructor<Registry> made;  // memory is freed until the process ends
  return *made;
}
constinit std::atomic<std::size_t> watched_count{0};

std::uintptr_t position_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

bool any_free_watched() noexcept { return watched_count.load(std::memory_order_relaxed) != 0; }

FreeWatch::~FreeWatch() {
  if (in_forked_child()) return;  // where nothing is freed, and a thread may have had the lock
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  std::erase_if(all.ranges, [this](const auto& range) { return range.second.by == this; });
  watched_count = all.ranges.size();
}

void FreeWatch::add(const void* first, std::size_t bytes) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  const auto [begin, end] = all.ranges.equal_range(position_of(first));
  for (auto at = begin; at != end; ++at)
    if (at->second.by == this) {
      at->second.bytes = std::max(at->second.bytes, bytes);
      all.longest = std::max(all.longest, bytes);
      return;
    }
  all.ranges.emplace(position_of(first), Watched{bytes, this});
  all.longest = std::max(all.longest, bytes);
  watched_count = all.ranges.size();
}

FreeWatch::Found FreeWatch::watch(const void* inside, const cuda::MemPoolId& except) {
  for (int device = 0; device < kMaxDevices; ++device) {
    DeviceAllocator* const allocator = allocator_if_made(device);
    if (allocator == nullptr) continue;
    if (const Found found = allocator->watch_free(inside, except, *this); found != Found::unknown)
      return found;
  }
  return Found::unknown;
}

std::vector<GoneMemory> FreeWatch::gone() const {
  const MutexLock lock(registry().mutex);
  return gone_;
}

void tell_gone(const GoneMemory& gone) noexcept {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  const std::uintptr_t least = gone.address > all.longest ? gone.address - all.longest : 0;
  for (auto at = all.ranges.lower_bound(least);
       at != all.ranges.end() && at->first < gone.address + gone.bytes;) {
    const auto each = at++;
    if (each->first + each->second.bytes <= gone.address) continue;
    FreeWatch& by = *each->second.by;
    if (by.gone_.size() < kMostGone) by.gone_.push_back(gone);
    by.count_.fetch_add(1, std::memory_order_relaxed);
    all.ranges.erase(each);
  }
  watched_count = all.ranges.size();
}

}  // namespace ember::inline v0::memory
