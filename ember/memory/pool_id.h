// What a pool of device memory is known by.
#pragma once

#include <cstdint>
#include <utility>

namespace ember::inline v0::cuda {

/// (0, 0) is the ordinary pool, which serves whatever names none; (0, n) a pool that a program
/// made, or a handle of graph_pool_handle(); (n, 0) a pool that a capture made. The same on all
/// devices.
using MemPoolId = std::pair<std::uint64_t, std::uint64_t>;

}  // namespace ember::inline v0::cuda
