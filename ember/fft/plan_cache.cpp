#include "ember/fft/plan_cache.h"

#include <iterator>
#include <type_traits>

namespace ember::inline v0::fft {

using driver::FftGeometry;

std::size_t PlanCache::Hash::operator()(const FftGeometry* geometry) const noexcept {
  static_assert(std::has_unique_object_representations_v<FftGeometry>);
  std::uint64_t words[sizeof *geometry / sizeof(std::uint64_t)];
  static_assert(sizeof words == sizeof *geometry);
  std::memcpy(words, geometry, sizeof words);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  return hash;
}

PlanLease PlanCache::find(const FftGeometry& geometry, std::uint32_t epoch) {
  const MutexLock lock(mutex_);
  // Mostly the one that was used last.
  if (!order_.empty() && order_.front()->epoch == epoch &&
      Same()(&order_.front()->geometry, &geometry))
    return PlanLease(order_.front());
  const auto found = places_.find(&geometry);
  if (found == places_.end() || (*found->second)->epoch != epoch) return {};
  order_.splice(order_.begin(), order_, found->second);
  return PlanLease(order_.front());
}

PlanLease PlanCache::keep(Ref<Plan> plan, Plans& gone) {
  const MutexLock lock(mutex_);
  if (const auto found = places_.find(&plan->geometry); found != places_.end()) {
    if ((*found->second)->epoch == plan->epoch) {
      order_.splice(order_.begin(), order_, found->second);
      gone.push_back(std::move(plan));
      return PlanLease(order_.front());
    }
    drop(found->second, gone);
  }
  bytes_ += plan->state.table_bytes;
  order_.push_front(std::move(plan));
  places_.emplace(&order_.front()->geometry, order_.begin());
  PlanLease lease(order_.front());
  trim(gone);
  return lease;
}

void PlanCache::drop(Order::iterator which, Plans& gone) {
  places_.erase(&(*which)->geometry);
  bytes_ -= (*which)->state.table_bytes;
  gone.push_back(std::move(*which));
  order_.erase(which);
}

void PlanCache::trim(Plans& gone) {
  while (!order_.empty() && (static_cast<std::int64_t>(order_.size()) > max_size_ ||
                             (max_bytes_ != 0 && bytes_ > max_bytes_)))
    drop(std::prev(order_.end()), gone);
}

std::int64_t PlanCache::size() const {
  const MutexLock lock(mutex_);
  return static_cast<std::int64_t>(order_.size());
}
std::size_t PlanCache::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}
std::int64_t PlanCache::max_size() const {
  const MutexLock lock(mutex_);
  return max_size_;
}
std::size_t PlanCache::max_bytes() const {
  const MutexLock lock(mutex_);
  return max_bytes_;
}

void PlanCache::set_max_size(std::int64_t most, Plans& gone) {
  const MutexLock lock(mutex_);
  max_size_ = most;
  trim(gone);
}

void PlanCache::set_max_bytes(std::size_t most, Plans& gone) {
  const MutexLock lock(mutex_);
  max_bytes_ = most;
  trim(gone);
}

void PlanCache::shed(Plans& gone) {
  const MutexLock lock(mutex_);
  for (std::size_t left = (order_.size() + 1) / 2; left > 0; --left)
    drop(std::prev(order_.end()), gone);
}

void PlanCache::clear(Plans& gone) {
  const MutexLock lock(mutex_);
  while (!order_.empty()) drop(order_.begin(), gone);
}

void PlanCache::renew(std::uint32_t epoch, Plans& gone) {
  const MutexLock lock(mutex_);
  for (auto plan = order_.begin(); plan != order_.end();) {
    const auto here = plan++;
    if ((*here)->epoch != epoch) drop(here, gone);
  }
}

}  // namespace ember::inline v0::fft
