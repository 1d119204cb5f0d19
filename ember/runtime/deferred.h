// Work that a thread has put off, to do several operations at once (ember/fuse/). Whatever else the
// thread enqueues, records or waits for comes behind it, as if nothing had been put off: it is done
// first.
#pragma once

#include <atomic>

#include "ember/base/export.h"

namespace ember::inline v0::cuda {

class Deferred {
 public:
  /// Does what was put off. May throw what that does.
  virtual void settle() = 0;

 protected:
  ~Deferred() = default;
};

namespace detail {
/// How many threads put work off: what everybody else looks at.
EMBER_API extern std::atomic<int> deferring_threads;
EMBER_API void settle_here();
}  // namespace detail

/// From now on the calling thread's; null ends it. Returns the one before.
Deferred* exchange_deferred(Deferred* deferred) noexcept;

/// Does what the calling thread has put off, which is nearly always nothing.
inline void settle_deferred() {
  if (detail::deferring_threads.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::settle_here();
}

}  // namespace ember::inline v0::cuda
