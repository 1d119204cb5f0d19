// Snapshots of memory to be looked at in a browser.
#pragma once

#include <string>
#include <string_view>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

/// A page (HTML, in UTF-8) that shows a snapshot in any browser and needs no network: memory over
/// time and by address, segments with their blocks, and who holds how much, by stack, stream, pool
/// and tag. `snapshot` is a pickle as `_dump_snapshot` and PyTorch's write it, read as
/// `snapshot_json` does; `name` stands in the title. With `before`, an earlier snapshot, the
/// holders are shown with what they grew by; empty: without. ValueError for what is no snapshot.
/// Thread-safe; needs no device; does not wait for one.
EMBER_API std::string snapshot_page(std::string_view snapshot, std::string_view name,
                                    std::string_view before = {},
                                    std::string_view name_before = {});

}  // namespace ember::inline v0::cuda
