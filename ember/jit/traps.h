// Compiled texts that a processor refuses to run on: where a real device gives some value, the
// host's would end the process.
#pragma once

#include "ember/base/status.h"

namespace ember::inline v0::jit {

/// A kernel compiled for hosts: works on elements [first, last); `data` is where the operands lie.
using HostEntry = void (*)(const void* arguments, void* const* data, long long first,
                           long long last);

/// Takes over the signals by which a processor stops (SIGFPE, SIGILL), unless that is so: before
/// calls, since others may have taken them meanwhile. What is not of a call() goes to whoever had
/// them. Thread-safe.
void take_traps() noexcept;

/// Calls it on this thread. device_assert, and why, if the processor stopped it at an instruction:
/// an integer is divided by zero, or the least one by -1. What it had done until then is done.
/// Thread-safe.
Status call(HostEntry entry, const void* arguments, void* const* data, long long first,
            long long last) noexcept;

}  // namespace ember::inline v0::jit
