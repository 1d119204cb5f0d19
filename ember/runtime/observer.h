// Watching what happens: one slot, empty by default, above the seam, so that it sees the same on
// simulated and on real devices. Logs, the stream sanitizer, timelines and tests are observers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

namespace nvtx {
struct Attributes;
}

/// Memory that a kernel reads or writes: from the first to the last byte that it may touch.
struct Access {
  const void* address = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// One thing that happened. Fields that a kind does not name are zero.
struct Activity {
  enum class Kind : std::uint8_t {
    initialized,           ///< the driver was made
    device_reset,          ///< device
    device_synchronized,   ///< device; the wait is over
    stream_created,        ///< device, stream, stream_id
    stream_synchronized,   ///< device, stream, stream_id
    event_created,         ///< device, event (at its first record)
    event_destroyed,       ///< device, event
    event_recorded,        ///< device, event, stream, stream_id
    event_waited,          ///< device (the stream's), event, stream, stream_id: a wait was enqueued
    event_synchronized,    ///< device, event; the wait is over
    kernel_launched,       ///< device, stream, stream_id, name; accesses if they are known
    copied,                ///< device, stream, stream_id, address (target), source, bytes
    filled,                ///< device, stream, stream_id, address, bytes
    host_function_queued,  ///< device, stream, stream_id
    peer_enabled,          ///< device, peer
    peer_disabled,         ///< device, peer
    memory_allocated,      ///< device, stream, address, bytes (rounded), requested; totals
    memory_free_requested,   ///< device, stream, address, bytes; totals
    memory_free_completed,   ///< device, stream, address, bytes: reusable from now on; totals
    memory_stream_recorded,  ///< device, stream (the other one), address
    segment_allocated,       ///< device, stream, address, bytes; totals
    segment_freed,           ///< device, stream, address, bytes; totals
    out_of_memory,           ///< device, stream, bytes (the segment wanted), requested; totals
    pinned_allocated,        ///< address, bytes: page-locked host memory obtained
    pinned_freed,            ///< address, bytes
    marked,                  ///< domain, annotation
    range_pushed,            ///< domain, annotation: a range of the calling thread
    range_popped,            ///< domain: the innermost range of the calling thread there
    range_started,           ///< domain, annotation, range
    range_ended,             ///< domain, range; on any thread
  };

  Kind kind = Kind::initialized;
  int device = -1;
  int peer = -1;
  const void* stream = nullptr;  ///< native handle; null is the default stream
  std::int64_t stream_id = 0;
  const void* event = nullptr;  ///< native handle
  const char* name = nullptr;   ///< lives as long as the program
  const void* address = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
  std::size_t requested = 0;
  std::span<const Access> accesses = {};  ///< valid during the notification
  std::uint64_t total_allocated = 0;      ///< bytes in use on the device after the change
  std::uint64_t total_reserved = 0;  ///< bytes the allocator holds on the device after the change
  const char* domain = nullptr;      ///< lives as long as the program; "" is the one without a name
  /// What a mark or a range says (nvtx/nvtx.h); valid during the notification.
  const nvtx::Attributes* annotation = nullptr;
  /// Tells ranges of range_start apart; 0 for one that began while nobody watched.
  std::uint64_t range = 0;
};

/// The text of a kind: "kernel_launched".
EMBER_API const char* activity_name(Activity::Kind kind) noexcept;

class EMBER_API Observer {
 public:
  virtual ~Observer() = default;
  /// Called after the thing was done, on the thread that did it; several threads may call at once.
  /// What the observer itself does through ember is not reported. It must not change the observer.
  virtual void notice(const Activity& activity) noexcept = 0;
};

/// Fills the slot (null empties it) and returns the previous observer. When the call returns, no
/// notification to the previous observer is in progress: it may be destroyed. Error from within
/// notice().
EMBER_API Observer* set_observer(Observer* observer);

namespace detail {
EMBER_API extern std::atomic<Observer*> observer_slot;
EMBER_API void notify_slow(const Activity& activity) noexcept;
/// For the child of a fork.
void renew_observer_lock() noexcept;
}  // namespace detail

/// True while somebody watches: to skip work that only serves notifications.
inline bool observed() noexcept {
  return detail::observer_slot.load(std::memory_order_relaxed) != nullptr;
}

/// Reports an activity. Costs one load and a branch when nobody watches.
inline void notify(const Activity& activity) noexcept {
  if (observed()) [[unlikely]]
    detail::notify_slow(activity);
}

}  // namespace ember::inline v0::cuda
