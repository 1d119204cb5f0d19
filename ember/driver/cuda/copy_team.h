// Copying on the host by several threads at once: one alone moves a third of what the link to a
// device can take.
#pragma once

#include <cstddef>

namespace ember::inline v0::driver::cuda {

/// Whether the machine has the threads to make it worth it.
bool copy_team_is_faster() noexcept;

/// memcpy by a few threads, the caller among them. Blocks until it is done; never waits for
/// anything but the team. Thread-safe: callers share the team.
void copy_by_team(void* target, const void* source, std::size_t bytes) noexcept;

}  // namespace ember::inline v0::driver::cuda
