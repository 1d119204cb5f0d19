// A simulated stream: an in-order queue and one worker thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/driver/kernel.h"
#include "ember/driver/sim/event.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/task_queue.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

/// Code::not_permitted on a thread that runs tasks: `what` would wait for itself there. Every call
/// of the driver that may block asks this before it waits.
Status refuse_on_worker(const char* what);
/// Whether the calling thread runs the tasks of a stream.
bool on_worker() noexcept;

class Stream {
 public:
  Stream(Machine& machine, int device)
      : machine_(machine),
        device_(device),
        timeline_(machine.exit, device),
        activity_(machine.activity_of(device)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Appends a task for an epoch of the device (or kAnyEpoch) and gives the point at which it is
  /// done. The worker is started at the first task. When that is impossible, or the epoch has
  /// passed, nothing was appended and the status says why.
  Status submit(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel, const Params& params,
                Point& done, PeerMemory peer = {});

  /// The point at which everything submitted so far is done.
  Point tail() noexcept {
    // The epoch first: it may be too old, which is noticed, and never newer than the work.
    const std::uint32_t epoch = machine_.health_of(device_).epoch();
    return {&timeline_, queue_.published(), epoch};
  }
  /// The same, once nobody is inside submit(): after a turn of the epoch no task of an earlier one
  /// comes behind it.
  Point settled_tail() {
    const MutexLock lock(producers_);
    return tail();
  }
  Timeline& timeline() noexcept { return timeline_; }
  int device() const noexcept { return device_; }
  /// Everything is done, so another owner would not notice the previous one.
  bool reusable() noexcept {
    const Unseen look;
    return tail().reached();
  }
  /// In which epoch it was handed out last; for the table of handles only.
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
  void begin_life(std::uint32_t epoch, int priority) noexcept {
    epoch_.store(epoch, std::memory_order_relaxed);
    priority_ = priority;
  }

 private:
  void work();
  /// Blocks until task `number` is published.
  void await(std::uint64_t number);
  /// Runs the task or drops it. False when the process is exiting and it was not run.
  bool run(const Task& task);
  void drop(const Task& task);
  /// Waits for the task's point. False as run().
  bool wait(const Task& task);
  /// Waits for the task's word.
  void wait_for_word(const Task& task);
  Status execute(const Task& task);
  Status copy(const CopyArgs& copy);
  Status fault_of(const Task& task, const Status& status) const;

  Machine& machine_;
  const int device_;
  std::atomic<int> priority_{0};
  std::atomic<std::uint32_t> epoch_{0};
  Timeline timeline_;

  WorkerActivity activity_;  // the worker's

  // Held by whoever appends a task. The worker takes tasks without it.
  Mutex producers_;
  TaskQueue queue_;
  bool started_ EMBER_GUARDED_BY(producers_) = false;

  // An idle worker sleeps here; `asleep_` tells producers that somebody has to wake it.
  Mutex sleeping_;
  Condition filled_;
  std::atomic<bool> asleep_{false};
};

}  // namespace ember::inline v0::driver::sim
