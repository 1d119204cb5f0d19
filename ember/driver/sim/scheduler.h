// In which order the workers of a simulated machine may run what is ready.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "ember/base/mutex.h"

namespace ember::inline v0::driver::sim {

/// Every worker asks before it runs a task and reports after it. A task is ready when everything
/// before it in its stream is done and what it waits for has been reached.
class Scheduler {
 public:
  struct Task {
    int device = 0;
    int priority = 0;      ///< smaller is more urgent
    bool computes = true;  ///< false for copies and host functions, which need no multiprocessor
  };
  virtual ~Scheduler() = default;
  /// Blocks until the task may run.
  virtual void begin(const Task& task) = 0;
  virtual void end(const Task& task) = 0;
};

/// The usual policy: a device runs a few kernels at a time. When more are ready, the most urgent
/// starts first, and of equals the one that became ready first. Copies and host functions start at
/// once. A kernel that has been ready for `patience` starts in any case: as on hardware there is
/// always room for one more small kernel, and kernels that wait for each other must not lock up.
class PriorityScheduler final : public Scheduler {
 public:
  static constexpr int kSlotsPerDevice = 4;
  static constexpr std::chrono::milliseconds kPatience{2};

  explicit PriorityScheduler(int devices) : devices_(static_cast<std::size_t>(devices)) {}
  void begin(const Task& task) override;
  void end(const Task& task) override;

 private:
  struct Waiter {
    int priority = 0;
    bool chosen = false;
    Condition chosen_now;
  };
  struct Device {
    Mutex mutex;
    int running EMBER_GUARDED_BY(mutex) = 0;
    std::list<Waiter*> waiting EMBER_GUARDED_BY(mutex);  // most urgent first, then oldest
  };
  std::vector<Device> devices_;
};

}  // namespace ember::inline v0::driver::sim
