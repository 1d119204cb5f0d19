// What is current for the calling thread. Private to runtime/.
#pragma once

#include <functional>
#include <vector>

#include "ember/base/ref.h"
#include "ember/driver/choice.h"
#include "ember/runtime/stream.h"

namespace ember::inline v0::cuda::detail {

struct ThreadState {
  ThreadState() = default;
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;
  ~ThreadState();

  int device = 0;
  /// By device; null is the default stream.
  std::vector<Ref<StreamState>> streams;
};

/// The calling thread's state: made at first use of devices, gone with the thread. Only a pointer
/// is thread-local, so that looking costs one load.
extern thread_local constinit ThreadState* this_thread [[gnu::tls_model("initial-exec")]];
ThreadState& make_thread_state();
inline ThreadState::~ThreadState() { this_thread = nullptr; }
inline ThreadState& thread_state() {
  ThreadState* state = this_thread;
  return state != nullptr ? *state : make_thread_state();
}

/// Number of devices; initialises.
int count_devices();

/// Makes a device ready, once in each of its epochs.
void activate(int device);

/// For the child of a fork: whatever was current belonged to the parent.
inline void forget_thread_state() noexcept { this_thread = nullptr; }

/// Puts `stream` (null: the default stream) in as current stream of `device`, which must exist, and
/// returns what was there.
Ref<StreamState> exchange_current(int device, Ref<StreamState> stream);

/// The current stream of an existing device, never null.
Ref<StreamState> current_state(int device);

/// The default stream of an existing device.
Ref<StreamState> default_state(int device);

/// A stream out of the pool of an existing device, made if all are in use.
Ref<StreamState> take_stream(int device, int priority);

/// The live stream with that id, or null.
Ref<StreamState> find_stream(int device, std::int64_t id);

/// (least, greatest) that this library supports on an existing device.
driver::PriorityRange priority_range(int device);

/// Access of `device` to `peer` was taken back: the next use_peer_access asks again.
void forget_peer(int device, int peer) noexcept;

/// Asks something of what the driver would be made from, while there is none: beside no making of
/// one and no counting. ValueError for a malformed EMBER_DEVICES; Error in a child that was forked
/// in the middle of such a thing, for which it cannot be done.
Status with_choice(const std::function<Status(const driver::Choice&)>& ask);

/// What simulated devices that are still to be made follow, in place of EMBER_SIM_SCHEDULE. Error
/// once devices are in use.
void set_schedule(const driver::Schedule& schedule);

/// The one that devices which are still to be made will follow: not seeded if these are none of
/// simulated ones. Failed: a setting is malformed.
Status schedule_to_come(driver::Schedule& out);

/// How many operations of each stream are to be kept from the first use of devices on. ValueError
/// for a malformed EMBER_RECORD_LAUNCHES.
int launches_to_record();
/// Tells the driver that was just made.
void begin_recording(driver::Driver& machine, int count) noexcept;
/// For the child of a fork.
void renew_recording_lock() noexcept;

/// True when every launch has to wait for its result (CUDA_LAUNCH_BLOCKING).
bool launch_blocking() noexcept;

}  // namespace ember::inline v0::cuda::detail
