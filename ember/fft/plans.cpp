#include "ember/fft/plans.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/fft/kernels.h"
#include "ember/memory/allocators.h"
#include "ember/memory/memory.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"
#include "ember/scalar/types.h"

namespace ember::inline v0::fft {
namespace {

using Plans = PlanCache::Plans;

struct DevicePlans {
  PlanCache cache;
  Mutex mutex;
  /// Left the cache, and may be in use.
  Plans retired EMBER_GUARDED_BY(mutex);
};

/// More retired plans than this, and the device is waited for.
constexpr std::size_t kMostRetired = 16;

constinit std::atomic<DevicePlans*> by_device[memory::kMaxDevices] = {};

DevicePlans& plans_of(int device) {
  std::atomic<DevicePlans*>& slot = by_device[device];
  DevicePlans* plans = slot.load(std::memory_order_acquire);
  if (plans != nullptr) [[likely]]
    return *plans;
  // Never destroyed: work may be enqueued until the process ends.
  auto* const made = new DevicePlans;
  if (slot.compare_exchange_strong(plans, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *plans;
}

/// What the device is asked to do with a plan, within the call. (Simulated devices keep nothing of
/// plans, and do it some time later.)
void ask_device(int device, const Ref<Plan>& plan, bool destroy) {
  driver::Kernel kernel = plan_kernel();
  kernel.context = plan;
  const driver::FftPlanArgs args{&plan->state, plan->geometry, destroy};
  cuda::launch_on_current(device, plan->epoch, {}, kernel, driver::Params(args),
                          cuda::no_accesses());  // of memory that others see
}

/// About what the roots of unity of a plan take. A device may say it better.
std::size_t estimated_bytes(const driver::FftGeometry& geometry) {
  std::size_t roots = 0;
  for (int d = 0; d < geometry.dims; ++d) roots += static_cast<std::size_t>(geometry.sizes[d]);
  return roots * static_cast<std::size_t>(geometry.complex_bytes());
}

Ref<Plan> make_plan(int device, std::uint32_t epoch, const driver::FftGeometry& geometry) {
  Ref<Plan> plan = make_ref<Plan>(geometry, epoch);
  plan->state.table_bytes = estimated_bytes(geometry);
  // Sums of float16 are rounded before they are scaled, wherever they were made.
  plan->state.scales = geometry.real_bytes != 2;
  ask_device(device, plan, false);
  return plan;
}

/// Plans are made and not captured, and no room is made for them.
Ref<Plan> make_plan_beside_capture(int device, std::uint32_t epoch,
                                   const driver::FftGeometry& geometry) {
  const cuda::RelaxedCapture relaxed;
  const cuda::StreamGuard aside{cuda::Stream(device)};
  try {
    return with_room(
        "The plan of a Fourier transform found no memory, and a capture frees none for it.",
        [&] { return make_plan(device, epoch, geometry); });
  } catch (const AcceleratorError& error) {
    throw AcceleratorError(
        Status(error.code(),
               "making the plan of a Fourier transform during a capture, which CUDA permits for "
               "some lengths only: call the transform once before the capture"));
  }
}

/// Owns a plan for a graph, whose replays use it.
struct KeptPlan final : driver::Context {
  explicit KeptPlan(const Ref<Plan>& plan) : lease(plan) {}
  const PlanLease lease;
};

bool is_captured(int device) {
  return cuda::any_capture() && cuda::is_captured(cuda::current_stream(device).handle());
}

/// Moves those that can be destroyed to the end of `plans`.
Plans::iterator idle_ones(Plans& plans) {
  return std::stable_partition(plans.begin(), plans.end(), [](const Ref<Plan>& plan) {
    return plan->users.load(std::memory_order_acquire) != 0;
  });
}

}  // namespace

void retire(int device, Plans&& gone, bool now) {
  DevicePlans& plans = plans_of(device);
  driver::Driver& machine = cuda::active_driver();
  const std::uint32_t epoch = machine.device_epoch(device);
  // Without anything of the device's to destroy a plan just goes; so does one whose memory went
  // with a reset.
  std::erase_if(gone, [&](const Ref<Plan>& plan) {
    return plan->state.native == nullptr || plan->epoch != epoch;
  });
  Plans idle;
  {
    const MutexLock lock(plans.mutex);
    std::move(gone.begin(), gone.end(), std::back_inserter(plans.retired));
    if (plans.retired.empty() || (!now && plans.retired.size() <= kMostRetired)) return;
    const auto first = idle_ones(plans.retired);
    std::move(first, plans.retired.end(), std::back_inserter(idle));
    plans.retired.erase(first, plans.retired.end());
  }
  if (idle.empty()) return;
  if (cuda::any_capture()) {  // which a wait for the device would invalidate
    const MutexLock lock(plans.mutex);
    std::move(idle.begin(), idle.end(), std::back_inserter(plans.retired));
    return;
  }
  const Status waited = machine.may_wait() ? cuda::HostWait::device(cuda::WaitKind::library, device)
                                           : Status(Code::not_permitted);
  if (!waited.ok() && !is_sticky(waited.code())) {
    const MutexLock lock(plans.mutex);
    std::move(idle.begin(), idle.end(), std::back_inserter(plans.retired));
    return;
  }
  for (const Ref<Plan>& plan : idle) {
    try {
      ask_device(device, plan, true);
    } catch (const Error&) {
      // The device is in a fault or was reset: there is nothing left to destroy.
    }
  }
}

PlanCache& plan_cache_of(int device) {
  PlanCache& cache = plans_of(device).cache;
  Plans gone;
  cache.renew(cuda::device_epoch(device), gone);
  retire(device, std::move(gone), false);
  return cache;
}

PlanLease plan_for(int device, std::uint32_t epoch, const driver::FftGeometry& geometry) {
  PlanCache& cache = plans_of(device).cache;
  if (PlanLease found = cache.find(geometry, epoch)) [[likely]]
    return found;
  Plans gone;
  if (is_captured(device)) [[unlikely]] {
    Ref<Plan> made = make_plan_beside_capture(device, epoch, geometry);
    PlanLease lease = cache.keep(std::move(made), gone);
    retire(device, std::move(gone), false);
    return lease;
  }
  const auto drop_and_empty = [&](void (PlanCache::*drop)(Plans&)) {
    Plans dropped;
    (cache.*drop)(dropped);
    retire(device, std::move(dropped), true);
    cuda::empty_cache();
  };
  Ref<Plan> made = with_room(
      "The plan of a Fourier transform needs memory beside that of tensors, and there was none "
      "left after all other plans and the cached memory were given back.",
      [&] { return make_plan(device, epoch, geometry); }, [&] { drop_and_empty(&PlanCache::shed); },
      [&] { drop_and_empty(&PlanCache::clear); });
  PlanLease lease = cache.keep(std::move(made), gone);
  if (!gone.empty()) retire(device, std::move(gone), false);
  return lease;
}

Ref<const driver::Context> context_of(const PlanLease& plan, int device) {
  if (!is_captured(device)) [[likely]]
    return plan.plan();
  return make_ref<KeptPlan>(plan.plan());
}

}  // namespace ember::inline v0::fft
