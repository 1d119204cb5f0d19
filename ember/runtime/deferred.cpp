#include "ember/runtime/deferred.h"

#include <utility>

namespace ember::inline v0::cuda {
namespace {

thread_local constinit Deferred* of_this_thread = nullptr;

}  // namespace

constinit std::atomic<int> detail::deferring_threads{0};

void detail::settle_here() {
  if (of_this_thread != nullptr) of_this_thread->settle();
}

Deferred* exchange_deferred(Deferred* deferred) noexcept {
  const int more = (deferred != nullptr ? 1 : 0) - (of_this_thread != nullptr ? 1 : 0);
  if (more != 0) detail::deferring_threads.fetch_add(more, std::memory_order_relaxed);
  return std::exchange(of_this_thread, deferred);
}

}  // namespace ember::inline v0::cuda
