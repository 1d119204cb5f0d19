// The plans of the host's transforms, which hold roots of unity: kept, since making one may take
// longer than a transform.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ember/base/mutex.h"

namespace ember::inline v0::fft::host {

/// The last plans of one type, for all threads; those of `Source`, a type of the source file that
/// asks. The child of a fork starts with none: another thread may have held the lock.
template <class Plan, class Source>
class PlanTable {
 public:
  /// The plan of a length, by `make()` if there is none yet; several threads may make it at once.
  template <class Make>
  static std::shared_ptr<Plan> get(std::size_t length, bool vectorized, const Make& make) {
    PlanTable& table = all();
    if (std::shared_ptr<Plan> kept = table.find(length, vectorized)) return kept;
    std::shared_ptr<Plan> made = make();
    table.keep({length, vectorized, 0, made});
    return made;
  }

 private:
  static constexpr std::size_t kMost = 32;
  struct Entry {
    std::size_t length = 0;
    bool vectorized = false;
    std::uint64_t used = 0;
    std::shared_ptr<Plan> plan;
  };

  static PlanTable& all() {
    static std::atomic<PlanTable*> current{nullptr};
    [[maybe_unused]] static const int handler =
        pthread_atfork(nullptr, nullptr, [] { current.store(nullptr, std::memory_order_relaxed); });
    PlanTable* table = current.load(std::memory_order_acquire);
    if (table != nullptr) [[likely]]
      return *table;
    // Never destroyed: threads may compute until the process ends.
    auto* const made = new PlanTable;
    if (current.compare_exchange_strong(table, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *table;
  }

  std::shared_ptr<Plan> find(std::size_t length, bool vectorized) EMBER_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (Entry& entry : entries_)
      if (entry.plan != nullptr && entry.length == length && entry.vectorized == vectorized) {
        entry.used = ++uses_;
        return entry.plan;
      }
    return nullptr;
  }
  void keep(Entry made) EMBER_EXCLUDES(mutex_) {
    // The one that goes is destroyed without the lock.
    const MutexLock lock(mutex_);
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    made.used = ++uses_;
    std::swap(*oldest, made);
  }

  Mutex mutex_;
  std::array<Entry, kMost> entries_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t uses_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::fft::host
