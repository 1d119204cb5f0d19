#include "ember/ops/recorder.h"

#include <utility>

namespace ember::inline v0::ops {
namespace {

thread_local constinit Recorder* of_this_thread = nullptr;

}  // namespace

Recorder* exchange_recorder(Recorder* recorder) noexcept {
  (void)cuda::exchange_deferred(recorder);
  return std::exchange(of_this_thread, recorder);
}

Recorder* detail::recorder_of_thread() noexcept { return of_this_thread; }

}  // namespace ember::inline v0::ops
