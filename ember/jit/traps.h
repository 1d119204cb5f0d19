// Compiled texts that a processor refuses to run on: where a real device gives some value, the
// host's would end the process.
#pragma once

#include "ember/base/status.h"

namespace ember::inline v0::jit {

/// A kernel compiled for hosts: works on elements [first, last); `data` is where the operands lie.
using HostEntry = void (*)(const void* arguments, void* const* data, long long first,
                           long long last);

/// Calls it on this thread. device_assert, and why, if the processor stopped it at an instruction:
/// an integer is divided by zero, or the least one by -1. What it had done until then is done.
///
/// The first call takes over the signals for that (SIGFPE, SIGILL); what is not of such a call goes
/// to whoever had them. Thread-safe.
Status call(HostEntry entry, const void* arguments, void* const* data, long long first,
            long long last) noexcept;

}  // namespace ember::inline v0::jit
