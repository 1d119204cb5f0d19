// The counters of a device as a table for people: memory_summary of chapter 9 of the documents.
#pragma once

#include <string>

#include "ember/base/export.h"
#include "ember/memory/counters.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

/// The documents' table, a line of text after the other, each of 77 characters and ended by a
/// newline. `abbreviated` leaves out the rows of the two kinds of segments. All numbers are of one
/// moment; zeros before initialisation, which this never causes. AcceleratorError for devices that
/// don't exist. Thread-safe; does not block.
EMBER_API std::string memory_summary(DeviceArg device = {}, bool abbreviated = false);

/// The same for counters that were kept.
EMBER_API std::string memory_summary(const MemoryCounters& counters, int device, bool abbreviated);

}  // namespace ember::inline v0::cuda
