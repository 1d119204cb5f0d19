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

namespace ember::driver::sim {

class Stream {
 public:
  Stream(Machine& machine, int device)
      : machine_(machine), device_(device), timeline_(machine.exit) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Appends a task and returns the number the timeline reaches with it. The worker is started at
  /// the first task; when that is impossible nothing was appended and the status says why.
  Status submit(Task::Kind kind, const Kernel& kernel, const Params& params, std::uint64_t& number);

  /// The point at which everything submitted so far is done.
  Point tail() noexcept { return {&timeline_, queue_.published()}; }
  Timeline& timeline() noexcept { return timeline_; }
  /// Blocks until task `number` is done; Code::shutting_down when that will not happen any more.
  Status wait(std::uint64_t number) noexcept {
    return timeline_.wait(number) ? Status() : Status(Code::shutting_down);
  }
  int device() const noexcept { return device_; }
  /// Everything is done, so another owner would not notice the previous one.
  bool reusable() noexcept { return tail().reached(); }
  void set_priority(int priority) noexcept { priority_ = priority; }

 private:
  void work();
  /// Blocks until task `number` is published.
  void await(std::uint64_t number);
  /// False when the process is exiting and the task was not run.
  bool run(const Task& task);
  Status execute(const Task& task);
  Status fault_of(const Task& task, const Status& status) const;

  Machine& machine_;
  const int device_;
  std::atomic<int> priority_{0};
  Timeline timeline_;

  // Held by whoever appends a task. The worker takes tasks without it.
  Mutex producers_;
  TaskQueue queue_;
  bool started_ EMBER_GUARDED_BY(producers_) = false;

  // An idle worker sleeps here; `asleep_` tells producers that somebody has to wake it.
  Mutex sleeping_;
  Condition filled_;
  std::atomic<bool> asleep_{false};
};

}  // namespace ember::driver::sim
