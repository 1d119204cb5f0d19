// Names of files that users give.
#pragma once

#include <string>

namespace ember::inline v0 {

/// ValueError for an empty name, and for one with a null character, at which the system would take
/// it to end: another file would be written. `argument` names it in the error.
void require_file_name(const std::string& name, const char* argument);

}  // namespace ember::inline v0
