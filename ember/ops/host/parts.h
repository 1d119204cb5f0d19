// Large loops on the CPU, in parts on several threads.
#pragma once

#include <utility>

#include "ember/base/mutex.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::ops::host {

/// Elements below which another thread costs more than it saves.
inline constexpr std::int64_t kLeastElements = 16384;

/// How many steps of something a part has at least, if each step goes over so many elements.
constexpr std::int64_t least_steps(std::int64_t elements) noexcept {
  return elements >= kLeastElements ? 1 : kLeastElements / (elements > 0 ? elements : 1);
}

/// The dimension to cut along: the longest, of equal ones the outermost, whose parts lie far from
/// each other. `may(d)`: whether it may be d; -1 if it may be none.
template <class Size, class May>
int longest_dim(const Size* sizes, int dims, const May& may) {
  int found = -1;
  for (int d = 0; d < dims; ++d)
    if (may(d) && (found < 0 || sizes[d] >= sizes[found])) found = d;
  return found;
}
/// One of all; 0 if there are none.
template <class Size>
int longest_dim(const Size* sizes, int dims) {
  return dims == 0 ? 0 : longest_dim(sizes, dims, [](int) { return true; });
}

/// HostLaunch::in_pieces for a body that may fail: a failure of one of them, if there is one.
template <class Body>
Status try_in_pieces(const driver::HostLaunch& on, std::int64_t count, std::int64_t least,
                     const Body& body) {
  Mutex mutex;
  Status failure;
  on.in_pieces(count, least, [&](std::int64_t first, std::int64_t last) {
    Status status = body(first, last);
    if (status.ok()) return;
    const MutexLock lock(mutex);
    failure = std::move(status);
  });
  return failure;
}

}  // namespace ember::inline v0::ops::host
