// What is said of a conflict: chapter 20's text, what would have ordered the two, and JSON.
#pragma once

#include <string>

#include "ember/base/export.h"
#include "ember/sanitizer/conflict.h"

namespace ember::inline v0::cuda::sanitizer {

/// "kernel add.float32 of stream 0x55d0 (cuda:0)", "host_reads of the host (thread 1)".
std::string name_of(const Side& side);

/// What would have ordered them: "a wait of stream B for an event recorded on stream A after X".
std::string missing_order(const Conflict& conflict);

/// Lines in the form of chapter 20, and after them what kind of conflict it is, what would have
/// ordered the two, and where the memory was freed. Ends with a line break.
EMBER_API std::string report_text(const Conflict& conflict);
/// The same as one JSON object, without line breaks.
EMBER_API std::string report_json(const Conflict& conflict);

}  // namespace ember::inline v0::cuda::sanitizer
