// Accesses of the host to pinned memory that a copy in flight uses: EMBER_SANITIZER=guard.
//
// While a copy waits in its stream's queue, the pages of pinned memory that it is to read cannot be
// written, and those that it is to write cannot be touched. Whoever does so all the same faults,
// and the signal's handler compares the address with the copy's bytes: if they meet, that is
// reported. Either way the page is let go, and the access goes on. Threads that run tasks (kernels
// and host functions, which the streams order) are never reported.
#pragma once

#include <cstdint>

#include "ember/driver/sim/stream.h"
#include "ember/driver/sim/task_queue.h"

namespace ember::inline v0::driver::sim::host_guard {

/// Guards copies from now on. Takes the place of the handler of SIGSEGV, to which it passes on what
/// is no access to a guarded page. Once; later calls do nothing. Thread-safe.
void enable();

/// Whether copies are guarded: one load.
bool enabled() noexcept;
/// A copy is about to be enqueued on a stream, which reports call `handle`: protects the pages of
/// those of its sides that are pinned. Does nothing unless enabled, and for more than 1024 sides in
/// flight. Thread-safe.
void begin(const CopyArgs& copy, bool target_is_pinned, bool source_is_pinned, const Stream& stream,
           const void* handle);
/// The same copy runs now, or never will. Nothing for one that is not guarded.
void end(const CopyArgs& copy, const Stream& stream);

/// Accesses that were reported, each once for a copy. Thread-safe.
std::uint64_t reported() noexcept;

}  // namespace ember::inline v0::driver::sim::host_guard
