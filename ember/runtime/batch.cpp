#include "ember/runtime/batch.h"

#include "ember/base/error.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

/// How deep the calling thread is in batches.
thread_local constinit int depth = 0;

}  // namespace

constinit std::atomic<int> detail::batching_threads{0};

// A failure of what is handed over is not lost: the driver says it in its next call.
void detail::hand_over_here() noexcept {
  if (depth == 0) return;
  driver::Driver* const machine = driver_if_made();
  if (machine == nullptr) return;  // in the child of a fork
  (void)machine->batch_end();
  (void)machine->batch_begin();
}

Batch::Batch() {
  settle_deferred();
  if (depth == 0) {
    check(active_driver().batch_begin());
    detail::batching_threads.fetch_add(1, std::memory_order_relaxed);
  }
  ++depth;
}

Batch::~Batch() {
  if (--depth != 0) return;
  detail::batching_threads.fetch_sub(1, std::memory_order_relaxed);
  if (driver::Driver* const machine = driver_if_made()) (void)machine->batch_end();
}

void OutsideBatch::leave() noexcept {
  driver::Driver* const machine = driver_if_made();
  if (depth == 0 || machine == nullptr) return;
  (void)machine->batch_end();
  left_ = true;
}

void OutsideBatch::enter() noexcept {
  if (driver::Driver* const machine = driver_if_made()) (void)machine->batch_begin();
}

}  // namespace ember::inline v0::cuda
