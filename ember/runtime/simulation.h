// Runs of simulated devices in which a seed decides the order. docs/order.md is the guide.
//
// EMBER_SIM_SCHEDULE, or schedule(), says before the first use of a device who decides in which
// order simulated devices do what is ready:
//
//   threads          as it comes: a thread for each stream (the default)
//   random:SEED      any task that is ready, by the seed
//   pct:SEED:DEPTH   by priorities from the seed, for bugs that need DEPTH orderings
//   replay:FILE      as in the log of an earlier run
//   steps:LIST       as late as can be, except for single steps; steps:@FILE has them in a file
//   model            by the times of a device model; model:h100, model:FILE
//   swarm:SEED       as random, pct or a model, and with faults, as the seed draws
//
// With all but `threads`, tasks run one at a time on the threads that use the devices, in calls
// that enqueue, ask or wait.
#pragma once

#include <cstdint>
#include <string>

#include "ember/base/export.h"

namespace ember::inline v0::sim {

/// The schedule of the simulated devices to be made, in place of EMBER_SIM_SCHEDULE. ValueError for
/// a malformed text; Error once devices are in use. Thread-safe, does not block.
EMBER_API void schedule(const std::string& text);

/// What is to go wrong on simulated devices from now on, as EMBER_SIM_FAULTS has it
/// (docs/faults.md): "alloc:3,launch:10,lost:1@50". Takes the place of what was asked for before;
/// an empty text asks for nothing, and brings lost devices back, which have to be reset. Counts
/// begin anew. Makes the devices if there are none. ValueError for a malformed text; Error without
/// simulated devices. Thread-safe, does not block.
EMBER_API void faults(const std::string& text);
/// How many of these faults have happened since. 0 without simulated devices; makes none.
EMBER_API std::uint64_t faults_happened() noexcept;

/// Whether a seed decides in this process. False before the first use of a device; makes none.
/// Thread-safe.
EMBER_API bool seeded() noexcept;

/// Ends the present run and begins another of the same kind, with `seed`: waits until all work is
/// done, sets the clock of timed events to zero, numbers streams, their ids and handles as in a new
/// process, empties the log and the caches of memory, forgets faults and access to peers, and seeds
/// the default generators with `seed`. Device memory that was allocated before the present run
/// began is put back to what it held then; new memory holds a pattern from the seed until it is
/// written. Makes the devices if there are none. Streams and events that the program holds stay.
/// Costs as much as the present run has used and written. Error where no seed decides, in a host
/// function, and while a program is explored. Blocks.
EMBER_API void begin_run(std::uint64_t seed);
/// The same with a schedule in full, which must not be `threads`. ValueError for a malformed one,
/// or a file that is no log of a run.
EMBER_API void begin_run(const std::string& schedule);

/// The decisions of the present run so far, as text that `replay:FILE` reads. Empty where no seed
/// decides. Thread-safe.
EMBER_API std::string log();
/// Writes log() to a file, anew. FileError if that fails. Blocks on the file.
EMBER_API void save_log(const std::string& file);

/// The settings that repeat the present run, such as `EMBER_SIM_SCHEDULE=random:7`: for messages of
/// checks that failed. Empty where no seed decides. Thread-safe.
EMBER_API std::string replay_line();

}  // namespace ember::inline v0::sim
