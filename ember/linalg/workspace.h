// Memory that cuBLASLt works in: one piece per stream, as products on one stream follow each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/runtime/device.h"

namespace ember::inline v0::linalg {

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// The workspace of the current stream of a real device; made at the first call, and in a capture
/// at the first call of that, so that replays share it with nobody. Empty if there is
/// no memory left, which leaves the slower algorithms. Thread-safe.
Workspace workspace(Device device);

/// Gives up those that a capture has had made: its graph's memory holds them. `capture`: the
/// driver's number of it. Thread-safe.
void drop_workspaces(std::uint64_t capture);

/// CUBLAS_WORKSPACE_CONFIG as bytes: pairs `:KiB:count`. Zero if the text says something else.
/// Exposed for tests.
std::size_t parse_workspace_config(const char* text) noexcept;

}  // namespace ember::inline v0::linalg
