#include "ember/runtime/observer.h"

#include <mutex>
#include <shared_mutex>
#include <type_traits>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace detail {
std::atomic<Observer*> observer_slot{nullptr};
}

namespace {

/// Held shared while an observer is told something, exclusively while it is exchanged: so nobody is
/// inside an observer that has left the slot. Shared, since an observer may wait for a thread that
/// is telling it something (for Python's lock, say).
/// It needs no making, which a fork could interrupt, and no destroying.
constinit std::shared_mutex telling;
static_assert(std::is_trivially_destructible_v<std::shared_mutex>);

/// What an observer does through ember is not reported to it.
thread_local constinit bool noticing = false;

}  // namespace

void detail::renew_observer_lock() noexcept { renew_in_child(telling); }

void detail::notify_slow(const Activity& activity) noexcept {
  if (noticing) return;
  const std::shared_lock lock(telling);
  Observer* observer = observer_slot.load(std::memory_order_acquire);
  if (observer == nullptr) return;
  noticing = true;
  observer->notice(activity);
  noticing = false;
}

Observer* set_observer(Observer* observer) {
  if (noticing) throw Error("set_observer: must not be called from within notice()");
  const std::unique_lock lock(telling);
  return detail::observer_slot.exchange(observer, std::memory_order_acq_rel);
}

bool inside_notice() noexcept { return noticing; }

const char* activity_name(Activity::Kind kind) noexcept {
  using Kind = Activity::Kind;
  switch (kind) {
    case Kind::initialized: return "initialized";
    case Kind::device_reset: return "device_reset";
    case Kind::device_synchronized: return "device_synchronized";
    case Kind::stream_created: return "stream_created";
    case Kind::stream_synchronized: return "stream_synchronized";
    case Kind::event_created: return "event_created";
    case Kind::event_destroyed: return "event_destroyed";
    case Kind::event_recorded: return "event_recorded";
    case Kind::event_waited: return "event_waited";
    case Kind::event_synchronized: return "event_synchronized";
    case Kind::kernel_launched: return "kernel_launched";
    case Kind::copied: return "copied";
    case Kind::filled: return "filled";
    case Kind::host_function_queued: return "host_function_queued";
    case Kind::peer_enabled: return "peer_enabled";
    case Kind::peer_disabled: return "peer_disabled";
    case Kind::memory_allocated: return "memory_allocated";
    case Kind::memory_free_requested: return "memory_free_requested";
    case Kind::memory_free_completed: return "memory_free_completed";
    case Kind::memory_stream_recorded: return "memory_stream_recorded";
    case Kind::segment_allocated: return "segment_allocated";
    case Kind::segment_freed: return "segment_freed";
    case Kind::out_of_memory: return "out_of_memory";
    case Kind::pinned_allocated: return "pinned_allocated";
    case Kind::pinned_freed: return "pinned_freed";
    case Kind::marked: return "marked";
    case Kind::range_pushed: return "range_pushed";
    case Kind::range_popped: return "range_popped";
    case Kind::range_started: return "range_started";
    case Kind::range_ended: return "range_ended";
  }
  return "unknown";
}

}  // namespace ember::inline v0::cuda
