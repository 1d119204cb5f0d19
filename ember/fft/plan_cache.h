// The plans of one device's transforms, least recently used first to go. Chapter 21 of the
// documents. A class of its own, which knows no device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/base/ref.h"
#include "ember/driver/fft.h"

namespace ember::inline v0::fft {

/// What a device has made for a geometry, in one of its epochs. `state` is written while the plan
/// is made, and only read afterwards.
struct Plan final : driver::Context {
  Plan(const driver::FftGeometry& of, std::uint32_t made_in) : geometry(of), epoch(made_in) {}
  const driver::FftGeometry geometry;
  const std::uint32_t epoch;
  mutable driver::FftPlanState state;
  /// Threads that are about to enqueue work with it.
  std::atomic<int> users{0};
};

/// A plan that is not destroyed while this lives. Null by default.
class PlanLease {
 public:
  PlanLease() noexcept = default;
  explicit PlanLease(Ref<Plan> plan) noexcept : plan_(std::move(plan)) {
    if (plan_) plan_->users.fetch_add(1, std::memory_order_relaxed);
  }
  PlanLease(PlanLease&& other) noexcept : plan_(std::exchange(other.plan_, Ref<Plan>())) {}
  PlanLease& operator=(PlanLease&& other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }
  ~PlanLease() {
    // What was enqueued with it is to be seen by whoever finds that there are no users.
    if (plan_) plan_->users.fetch_sub(1, std::memory_order_release);
  }

  explicit operator bool() const noexcept { return static_cast<bool>(plan_); }
  const Ref<Plan>& plan() const noexcept { return plan_; }
  Plan* operator->() const noexcept { return plan_.get(); }

 private:
  Ref<Plan> plan_;
};

/// Thread-safe; nothing blocks. Plans that leave it are handed to the caller (`gone`): the last
/// transforms of theirs may be in progress.
class PlanCache {
 public:
  static constexpr std::int64_t kDefaultMaxSize = 4096;
  using Plans = std::vector<Ref<Plan>>;

  /// The plan of a geometry that was made in an epoch; it is the most recently used one now.
  PlanLease find(const driver::FftGeometry& geometry, std::uint32_t epoch) EMBER_EXCLUDES(mutex_);
  /// Keeps a plan as the most recently used one, and drops others for it where there are too many.
  /// If there is a plan of this geometry already, that one is returned, and the other one goes. So
  /// it does, in use all the same, where the limits leave no room for it.
  PlanLease keep(Ref<Plan> plan, Plans& gone) EMBER_EXCLUDES(mutex_);

  std::int64_t size() const EMBER_EXCLUDES(mutex_);
  std::size_t bytes() const EMBER_EXCLUDES(mutex_);  ///< of the plans' tables
  std::int64_t max_size() const EMBER_EXCLUDES(mutex_);
  std::size_t max_bytes() const EMBER_EXCLUDES(mutex_);  ///< 0: as many as there are
  void set_max_size(std::int64_t most, Plans& gone) EMBER_EXCLUDES(mutex_);
  void set_max_bytes(std::size_t most, Plans& gone) EMBER_EXCLUDES(mutex_);
  /// Drops the plans that were least recently used: half of them, and one at least.
  void shed(Plans& gone) EMBER_EXCLUDES(mutex_);
  void clear(Plans& gone) EMBER_EXCLUDES(mutex_);
  /// Drops those of other epochs.
  void renew(std::uint32_t epoch, Plans& gone) EMBER_EXCLUDES(mutex_);

 private:
  struct Same {
    bool operator()(const driver::FftGeometry* a, const driver::FftGeometry* b) const noexcept {
      return std::memcmp(a, b, sizeof *a) == 0;
    }
  };
  struct Hash {
    std::size_t operator()(const driver::FftGeometry* geometry) const noexcept;
  };
  using Order = std::list<Ref<Plan>>;  // the most recently used one first

  void drop(Order::iterator which, Plans& gone) EMBER_REQUIRES(mutex_);
  void trim(Plans& gone) EMBER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Order order_ EMBER_GUARDED_BY(mutex_);
  /// By the geometries in the plans.
  std::unordered_map<const driver::FftGeometry*, Order::iterator, Hash, Same> places_
      EMBER_GUARDED_BY(mutex_);
  std::size_t bytes_ EMBER_GUARDED_BY(mutex_) = 0;
  std::int64_t max_size_ EMBER_GUARDED_BY(mutex_) = kDefaultMaxSize;
  std::size_t max_bytes_ EMBER_GUARDED_BY(mutex_) = 0;
};

}  // namespace ember::inline v0::fft
