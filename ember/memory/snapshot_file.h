// Snapshots of memory that programs have left in files, PyTorch's among them.
#pragma once

#include <string>
#include <string_view>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// A snapshot (a pickle of protocol 2 to 5, as PyTorch's `_dump_snapshot` writes it) as JSON. What
/// it names is never executed: it is read as None, bool, int, float, str, list, dict and tuple, and
/// any other opcode is an error. ValueError that names the opcode and its offset for what cannot be
/// read, and for a snapshot that would have more than 1 GiB as JSON. Thread-safe; needs no device.
EMBER_API std::string snapshot_json(std::string_view pickle);

}  // namespace ember::inline v0::cuda
