// What simulated devices offer beside the seam: runs that a seed decides. Defined in driver/sim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/faults.h"
#include "ember/driver/schedule.h"

namespace ember::inline v0::driver {

/// Ends the present run of the process's simulated devices and begins another: blocks until all
/// work is done; forgets faults and access to peers; puts memory back to what it held when the
/// present run began; calls `renew(seed)`, which gives back what is kept for later and must not
/// throw; then numbers streams and handles anew, sets the clock to zero and empties the log.
/// Code::not_supported without simulated devices, Code::not_permitted where the devices were made
/// with `threads` (or the new schedule says so) or on a thread that runs a task;
/// Code::invalid_value for a file that cannot be replayed. A failed call has changed nothing.
/// Thread-safe, but what other threads do meanwhile belongs to neither run.
Status begin_simulated_run(const Schedule& schedule, void (*renew)(std::uint64_t seed));

/// What the present run calls a piece of work that was enqueued.
struct Ticket {
  std::uint64_t number = 0;  ///< in its stream's queue, from 1
  // Where a seed decides:
  std::uint32_t stream = 0;  ///< its stream's number in the run, from 1
  std::uint64_t task = 0;    ///< its number among the stream's tasks of the run; 0: it is a wait
  std::uint64_t point = 0;   ///< the host's point at which it was there
};

/// Of what the calling thread enqueued last on a simulated stream, which is forgotten: the next
/// call gets zeros. Zeros for what a task enqueued.
Ticket take_simulated_ticket() noexcept;
/// Of the graph that the calling thread launched last on simulated devices: of each node, and then
/// of the wait, or else the node, with which the replay ends on its stream. Valid until that thread
/// launches another one. Empty before the first.
std::span<const Ticket> simulated_replay_tickets() noexcept;

/// From now on, or no longer: where a seed decides, what the calling thread enqueues runs at once,
/// and neither that nor waiting for it is a point of the host's, a decision, a step, or something
/// from which the host learns. For work of the library's own that waits for nothing and touches
/// nothing of the program's. Schedule::Kind::model, under which such work takes its time, goes on
/// as ever. Answers what was set before.
bool set_unscheduled(bool unscheduled) noexcept;

/// A wait of the host's: at that point, for the work of a stream up to that number in its queue.
struct RunWait {
  std::uint64_t point = 0;
  std::uint32_t stream = 0;
  std::uint64_t number = 0;
};

/// What a copy wrote to memory of the host.
struct HostCopy {
  std::uint32_t stream = 0;  ///< the task, as in Step
  std::uint64_t task = 0;
  std::size_t bytes = 0;
  std::uint64_t sum = 0;               ///< of all of them
  std::array<std::uint8_t, 16> first;  ///< the first ones
};

/// How a run goes in which a seed decides.
struct Progress {
  std::uint64_t points = 0;  ///< to which the host has come
  std::vector<Step> ran;     ///< all tasks, in their order: as steps they make the same run
  // In runs of kind `steps`:
  std::size_t unfollowed = 0;  ///< steps that could not be done when it was their turn, or are left
  std::vector<RunWait> waits;  ///< in their order
  std::vector<HostCopy> copies;  ///< by stream and task
};
/// Of the present run; nothing where no seed decides. Thread-safe.
EMBER_TEST_API Progress simulated_progress();
/// Its `points` alone.
std::uint64_t simulated_points();

/// From now on calls of the host's fail with Code::not_permitted once so many seconds have passed;
/// zero: never, as at first. So ends a program that would go on for ever. Answers whether any has
/// failed since the last call of this. Work that was enqueued goes on. Thread-safe.
bool limit_simulated_calls(double seconds);

/// The schedule of the present run; `threads` without simulated devices. Thread-safe.
Schedule simulated_schedule();

/// What is to go wrong from now on, in place of what was asked for before. Code::not_supported
/// without simulated devices, Code::invalid_value for a device that does not exist. Thread-safe.
Status set_simulated_faults(const Faults& faults);
/// How many of these faults have happened since. Thread-safe.
std::uint64_t simulated_faults_happened();

/// From now on, accesses of the host to pinned memory that a copy in flight uses are reported on
/// stderr (EMBER_SANITIZER=guard). Before the devices are made, or later. Thread-safe.
void guard_host_memory();
/// How many were. Thread-safe.
std::uint64_t guarded_accesses() noexcept;

/// The log of the present run, as docs/order.md describes it; empty where no seed decides.
/// Thread-safe.
std::string simulated_log();

// ---- Host threads that take turns: sim::thread and what goes with it (runtime/threads.h)

/// What a host thread waits for that another one does. Its methods are called under one lock, which
/// all of these waits and changes share; they must not call anything of a device's.
class TurnWait {
 public:
  TurnWait() = default;
  TurnWait(const TurnWait&) = delete;
  TurnWait& operator=(const TurnWait&) = delete;
  virtual bool ready() const = 0;
  /// It was ready, and the thread goes on.
  virtual void taken() {}
  /// "waits for a mutex that thread 2 holds".
  virtual std::string text() const = 0;

 protected:
  ~TurnWait() = default;
};

/// The calling thread is about to start another one that takes turns: that one's number in the run,
/// from 2, or zero where no seed decides.
EMBER_API std::uint32_t start_turns();
/// The first thing that it does; blocks until it is its turn.
EMBER_API void enter_turns(std::uint32_t number);
/// The last thing that it does, or what is done if it could not be started.
EMBER_API void leave_turns(std::uint32_t number);
/// Others may have their turn. Does nothing in a thread that takes none.
EMBER_API void pass_turn();
/// Others have their turn until that is ready. If nobody's turn can come, the process ends with
/// status 70, says what each waits for, and how the run can be seen again. Blocks, in every thread.
EMBER_API void await_turn(TurnWait& wait);
/// Under the lock of the waits: `change(argument)`, after which they look again.
EMBER_API void change_turns(void (*change)(void*), void* argument);
/// Whether no thread of the run has come to a point, or has the turn now, while another one could
/// have gone on: then no order of turns is another one, but where threads are started. False on a
/// thread that takes no turns.
bool turns_in_order();
/// The calling thread's number in the run; 0 if it takes no turns.
EMBER_API std::uint32_t turn_number();

/// Which settings repeat the present run, as one line without its end; empty where no seed decides.
/// Thread-safe.
std::string simulated_replay_line();

}  // namespace ember::inline v0::driver
