// Who holds how much of which device: what the command `ember top` shows.
//
// A process with EMBER_TOP=1 in its environment, or that calls allow(), answers to processes of the
// same user through a socket in a folder that is private to that user: `ember` in XDG_RUNTIME_DIR,
// or `ember-<user>` in the system's folder for temporary files. Both sides ask the kernel who the
// other one is. It tells which devices it uses, what it holds of them, and its command line.
#pragma once

#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/memory/top_record.h"

namespace ember::inline v0::cuda::top {

/// Lets processes of the same user ask this one, from now on and until it ends. A second call does
/// nothing; nor does a forked child inherit it. A thread of its own answers, which is asleep
/// otherwise. Error, with the reason, if the folder is not private or the socket cannot be made.
EMBER_API void allow();

/// What the processes answer that allow it, in the order of their numbers; their sensors may be a
/// second old. Blocks for a second at most for one that does not answer, and leaves it out.
EMBER_API std::vector<ProcessUse> processes();

/// All of the machine's devices that this process sees, with their sensors, and who uses them, as a
/// table for a terminal: processes that NVML knows, and those that answer. Initialises CUDA where
/// there are real devices, but no device.
EMBER_API std::string table();

/// allow() if EMBER_TOP asks for it, once; a warning if that fails. Internal.
void start_if_asked() noexcept;

}  // namespace ember::inline v0::cuda::top
