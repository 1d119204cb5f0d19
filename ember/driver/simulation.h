// What simulated devices offer beside the seam: runs that a seed decides. Defined in driver/sim.
#pragma once

#include <cstdint>
#include <string>

#include "ember/base/status.h"
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

/// The schedule of the present run; `threads` without simulated devices. Thread-safe.
Schedule simulated_schedule();

/// The log of the present run, as docs/order.md describes it; empty where no seed decides.
/// Thread-safe.
std::string simulated_log();

/// Which settings repeat the present run, as one line without its end; empty where no seed decides.
/// Thread-safe.
std::string simulated_replay_line();

}  // namespace ember::inline v0::driver
