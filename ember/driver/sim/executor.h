// Who runs the tasks of streams, and where threads wait for them.
//
// The unit is a task with a list of points that it waits for. A stream is a chain of tasks: each
// waits for the one before it, and a task of kind `wait` for the points of its list besides. A
// stream keeps the tasks; the executor decides when and on which thread each is run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "ember/base/sanitizer.h"
#include "ember/base/status.h"
#include "ember/driver/sim/timeline.h"

namespace ember::inline v0::driver::sim {

class Stream;

enum class TaskKind : std::uint8_t {
  kernel,         ///< run `kernel.host` with `params` and the kernel's context
  copy,           ///< CopyArgs
  fill,           ///< FillArgs
  host_function,  ///< HostFunctionArgs
  wait,           ///< an array of Points: wait until all are reached
  stamp,          ///< StampArgs: note the time in an event
  word_write,     ///< WordArgs: raise the word to the value
  word_wait,      ///< WordArgs: wait until it is that; the kernel's context is what must stay
};

class Executor {
 public:
  using Clock = std::chrono::steady_clock;

  /// What an executor keeps for a stream, as long as that one lives.
  class Runner {
   public:
    Runner() = default;
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;
    virtual ~Runner() = default;
    /// Before the first task, under the stream's lock for submitting. After a failure no task was
    /// submitted, and it is asked again before the next.
    virtual Status start() = 0;
    /// A task of that kind was published. Called without the lock, by the thread that submitted it,
    /// if the runner is listening after that. Does not wait for the task.
    virtual void submitted(TaskKind kind) = 0;
    /// Spares those who submit a call of which nothing would come.
    bool listening() const noexcept {
      const Unseen look;  // that a worker is idle tells the caller nothing of what it has done
      return listening_.load();
    }

   protected:
    std::atomic<bool> listening_{true};
  };

  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor() = default;

  /// Called once for each stream, when it is made. The runner keeps the reference.
  virtual std::unique_ptr<Runner> attach(Stream& stream) = 0;
  /// Blocks until the point is reached. Not on a thread that runs a task.
  virtual Timeline::Waited wait(const Point& point) = 0;
  /// The same for a thread of the user's, who may interrupt it.
  virtual Timeline::Waited wait_interruptibly(const Point& point) = 0;
  /// A device has left an epoch: what waits in its streams for others gives up.
  virtual void epoch_began(Stream& stream) = 0;
  /// Whether tasks run beside each other and beside the user's threads.
  virtual bool concurrent() const noexcept = 0;
  /// The time that a timed event notes.
  virtual Clock::time_point now() = 0;
  /// The time that work notes for who asked (Driver::time_next): the same, but never set back.
  virtual Clock::time_point unbroken_now() { return now(); }
};

/// Code::not_permitted on a thread that runs a task: `what` would wait for itself there. Every call
/// of the driver that may block asks this before it waits.
Status refuse_on_worker(const char* what);
/// Whether the calling thread is running a task, or is a thread that does nothing else.
bool on_worker() noexcept;

/// While it lives, the calling thread is one that runs tasks.
class OnWorker {
 public:
  OnWorker() noexcept;
  ~OnWorker();
  OnWorker(const OnWorker&) = delete;
  OnWorker& operator=(const OnWorker&) = delete;

 private:
  const bool before_;
};

}  // namespace ember::inline v0::driver::sim
