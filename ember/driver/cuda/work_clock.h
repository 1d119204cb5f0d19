// When work ran, from CUPTI: the library under NVIDIA's profilers. It is opened when the first
// piece of work is to be timed, and takes part in the process until nobody asks for times any more.
// A process has one user of CUPTI at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "ember/base/mutex.h"
#include "ember/base/ref.h"
#include "ember/base/status.h"
#include "ember/driver/cuda/cupti_api.h"
#include "ember/driver/work_times.h"

namespace ember::inline v0::driver::cuda {

/// Names pieces of work while they are enqueued, and hears from CUPTI's own thread when they ran.
/// Thread-safe. Never destroyed: CUPTI may call while the process ends.
class WorkClock {
 public:
  using Number = std::uint64_t;  // of a piece of work; 0 is none

  static WorkClock& instance();

  /// What the calling thread enqueues from here on, until end_work(), is the work whose times these
  /// are. Code::not_supported, saying why, where CUPTI is missing or somebody else's; it is asked
  /// again after pause().
  Status begin_work(int device, std::uint32_t epoch, WorkTimes* times, Number& out) noexcept;
  void end_work() noexcept;
  /// For work that CUPTI does not know: the caller notes when it runs. Null for no work.
  Ref<WorkTimes> take(Number work) noexcept;

  /// Brings what CUPTI has to where it is to stand, on a thread of its own: a program's threads may
  /// hold locks that others' callbacks need. Of work that is not over the rest of its buffer may
  /// have to wait. Work for which `lost(device, epoch)` is true counts as dropped if CUPTI knows
  /// nothing of it. What begin_work() last refused with, if it did.
  Status collect(const std::function<bool(int, std::uint32_t)>& lost) noexcept;
  /// CUPTI takes no part any more until the next begin_work().
  void pause() noexcept;

 private:
  struct Work {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool known = false;
    int device = 0;
    std::uint32_t epoch = 0;
    Ref<WorkTimes> times;
  };
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  using Spans = std::unordered_multimap<std::uint32_t, Span>;

  Status turn_on() noexcept;
  Status subscribe(const cupti::Calls& calls) noexcept EMBER_REQUIRES(switching_);
  static void take_buffer(void* context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t size, std::size_t valid);
  void read(const cupti::Calls& calls, std::uint8_t* buffer, std::size_t valid) noexcept;
  /// On a thread of its own; forced: of buffers that are not complete, too.
  void flush(bool forced) noexcept;
  /// The process ends: what CUPTI has is taken, and CUPTI not called any more.
  void leave() noexcept;
  void note(Number work, Span span) noexcept EMBER_REQUIRES(mutex_);
  /// Forgets what nobody else keeps the times of.
  void sweep() noexcept EMBER_REQUIRES(mutex_);

  // Held while CUPTI is told something; never by its callbacks.
  Mutex switching_;
  std::atomic<bool> on_{false};
  std::atomic<bool> over_{false};
  bool refused_ EMBER_GUARDED_BY(switching_) = false;  // since pause()
  Status why_ EMBER_GUARDED_BY(switching_);            // the last refusal, until one was none
  cupti::Subscriber subscriber_ EMBER_GUARDED_BY(switching_) = nullptr;
  std::atomic<const cupti::Calls*> calls_{nullptr};
  std::atomic<Number> last_{0};

  // Held while the tables are used; not while CUPTI is called.
  Mutex mutex_;
  std::unordered_map<Number, Work> works_ EMBER_GUARDED_BY(mutex_);
  // Which calls of CUDA's belong to which work. What CUPTI knows of a call may come before that:
  // within one buffer, or across the border of two.
  std::unordered_map<std::uint32_t, Number> owners_ EMBER_GUARDED_BY(mutex_);
  Spans early_ EMBER_GUARDED_BY(mutex_);
  std::size_t sweep_at_ EMBER_GUARDED_BY(mutex_) = 1 << 12;
};

}  // namespace ember::inline v0::driver::cuda
