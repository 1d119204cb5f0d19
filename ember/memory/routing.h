// Whether an allocation that names no pool may be served by another one than everybody's.
#pragma once

#include <atomic>
#include <cstdint>

namespace ember::inline v0::memory {

/// Routes that lead to a pool and guards that disable caching, of all devices and threads, and one
/// more while caching is disabled for all: so the ordinary way of an allocation looks at one number
/// that hardly ever changes.
inline constinit std::atomic<int> routes_in_force{0};
inline bool any_route() noexcept { return routes_in_force.load(std::memory_order_relaxed) != 0; }

/// Whether the calling thread allocates without the cache.
bool caching_disabled() noexcept;

/// For the id of a pool, from 1.
std::uint64_t new_pool_number() noexcept;

}  // namespace ember::inline v0::memory
