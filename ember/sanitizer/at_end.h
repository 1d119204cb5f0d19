// What a watched process does when it ends: EMBER_SANITIZER_EXITCODE and EMBER_SANITIZER_SUMMARY.
#pragma once

#include <string>

namespace ember::inline v0::cuda::sanitizer {

struct AtEnd {
  int exit_code = 0;         ///< of a process that found something; 0: as it ends by itself
  std::string summary_path;  ///< the file that gets a line of JSON; empty for none
};

/// What the environment asks for. ValueError, naming the variable, for a number that is not 1 to
/// 255, and for a file that cannot be opened for writing, which is made if it is missing.
AtEnd at_end_as_asked();

/// Has the process end so, once the first time that this is called: when it ends by exit() or by a
/// return from main, after its own exit handlers and the destructors of its static objects. Forked
/// children are not meant. Thread-safe.
void end_watched(AtEnd at_end);

}  // namespace ember::inline v0::cuda::sanitizer
