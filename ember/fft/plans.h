// The plans of all devices: made when a transform needs them, and destroyed when nothing does any
// more.
#pragma once

#include <cstdint>

#include "ember/base/error.h"
#include "ember/fft/plan_cache.h"

namespace ember::inline v0::fft {

/// The plan of a geometry on an existing device, in the epoch of the tensors that it is for. Made
/// on the current stream if there is none; where that finds no memory, plans that were least
/// recently used go, then all of them and what the caching allocator keeps, each followed by
/// another attempt. In a capture it is made beside it, and nothing goes. OutOfMemoryError if none
/// succeeds; AcceleratorError for other reasons. Thread-safe; blocks only where plans have to be
/// destroyed.
PlanLease plan_for(int device, std::uint32_t epoch, const driver::FftGeometry& geometry);

/// What a transform on the device's current stream owns: the plan, and in a capture a lease of it,
/// so that it is destroyed after the graph.
Ref<const driver::Context> context_of(const PlanLease& plan, int device);

/// The cache of an existing device, without plans of earlier epochs.
PlanCache& plan_cache_of(int device);

/// Destroys plans that left the cache of a device, once nothing uses them: at once if `now`, else
/// when there are some of them. Waits for the device then, since transforms may be in progress;
/// where a wait is not possible, as in a host function, they stay for another time.
void retire(int device, PlanCache::Plans&& gone, bool now);

/// Calls `make()`, and if that finds no memory, once more after each of `rooms`, the steps that
/// free some. OutOfMemoryError with `what` if all of it was in vain.
template <class Make, class... Rooms>
auto with_room(const char* what, const Make& make, const Rooms&... rooms) {
  const auto attempt = [&](auto& result) {
    try {
      result = make();
      return true;
    } catch (const AcceleratorError& error) {
      if (error.code() != Code::out_of_memory) throw;
      return false;
    }
  };
  decltype(make()) made{};
  if (attempt(made) || ((rooms(), attempt(made)) || ...)) return made;
  throw OutOfMemoryError(std::string("CUDA out of memory. ") + what);
}

}  // namespace ember::inline v0::fft
