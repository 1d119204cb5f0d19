// A simulated stream: a chain of tasks, in order. Who runs them is the executor's business.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/kernel.h"
#include "ember/driver/piece_size.h"
#include "ember/driver/recent_launches.h"
#include "ember/driver/sim/event.h"
#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/task_queue.h"
#include "ember/driver/sim/timeline.h"
#include "ember/driver/simulation.h"

namespace ember::inline v0::driver::sim {

class Stream {
 public:
  Stream(Machine& machine, int device)
      : machine_(machine),
        device_(device),
        timeline_(machine.exit, device),
        runner_(machine.executor->attach(*this)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Appends a task for an epoch of the device (or kAnyEpoch) and gives the point at which it is
  /// done; the task owns a share of `times`. When the executor cannot run it, or the epoch has
  /// passed, nothing was appended and the status says why. A task that is held may not start
  /// before others are submitted, or somebody asks for a point of the stream, or as many are held
  /// as a batch hands over at once.
  Status submit(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel, const Params& params,
                Point& done, PeerMemory peer = {}, WorkTimes* times = nullptr,
                const Trouble& trouble = {}, bool hold = false);
  /// Lets the executor see tasks that are held.
  void hand_over() noexcept {
    if (holds_.load(std::memory_order_relaxed)) [[unlikely]]
      hand_over_held();
  }

  /// After work was submitted: waits, if the stream is too far behind. See Note [How far a host
  /// gets ahead].
  void stay_near() noexcept {
    if (queue_.published() - looked_.load(std::memory_order_relaxed) >= kLookEvery) [[unlikely]]
      wait_until_near();
  }

  /// Several tasks of several streams between which nothing comes; they may run when it ends.
  class Together;

  /// The point at which everything submitted so far is done.
  Point tail() noexcept {
    hand_over();
    // The epoch first: it may be too old, which is noticed, and never newer than the work.
    const std::uint32_t epoch = machine_.health_of(device_).epoch();
    return {&timeline_, queue_.published(), epoch};
  }
  /// The same, once nobody is inside submit(): after a turn of the epoch no task of an earlier one
  /// comes behind it.
  Point settled_tail() {
    bool more = false;
    Point end;
    {
      const MutexLock lock(producers_);
      more = publish_held();
      end = tail();
    }
    if (more && runner_->listening()) runner_->submitted(Task::Kind::kernel);
    return end;
  }
  /// What is enqueued from now on comes after a point that is reached, without a task that waits
  /// for it. For the thread sanitizer alone.
  void follow(const Point& point) noexcept {
    if (!kThreadSanitizer || machine_.executor->concurrent() || point.timeline == nullptr) return;
    const MutexLock lock(producers_);
    timeline_.order().follows(queue_.published(), point);
  }
  /// What is kept of the stream's tasks, and what became of them.
  std::vector<RecentLaunch> recent();
  /// Its handle, and where the task with that number was submitted, if that was kept: "number 3 of
  /// stream 0x100000002".
  std::string place_of(std::uint64_t number);
  /// The handle under which it is known from now on.
  void call(const void* native) noexcept { native_.store(native, std::memory_order_relaxed); }
  Timeline& timeline() noexcept { return timeline_; }
  int device() const noexcept { return device_; }
  int priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
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

  /// Whether it is part of a capture (capture.h), which alone changes that.
  bool capturing() const noexcept { return capturing_.load(std::memory_order_relaxed); }
  void set_capturing(bool capturing) noexcept {
    capturing_.store(capturing, std::memory_order_relaxed);
  }

  // For the executor, which is the only one to take tasks; see TaskQueue.

  std::uint64_t published() const noexcept { return queue_.published(); }
  Task& front(std::uint64_t done) noexcept { return queue_.front(done); }

 private:
  /// Whether a task of an epoch (or kAnyEpoch) can be appended: what submit() answers otherwise.
  /// Makes that the present one.
  Status prepare(std::uint32_t& epoch) EMBER_REQUIRES(producers_);
  /// After prepare(), for the same epoch: appends it, noting the place `stack`, if those are kept.
  Point append(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel, const Params& params,
               PeerMemory peer, WorkTimes* times, const Trouble& trouble, std::uint64_t stack,
               bool hold = false) EMBER_REQUIRES(producers_);
  /// Makes held tasks visible; true if there were some, of which the runner is to be told.
  bool publish_held() EMBER_REQUIRES(producers_) {
    if (queue_.held() == 0) return false;
    (void)queue_.publish_held();
    holds_.store(false, std::memory_order_relaxed);
    return true;
  }
  void hand_over_held() noexcept;
  void wait_until_near() noexcept;
  /// Where the calling thread stands, if that is kept.
  std::uint64_t place() const noexcept;

  Machine& machine_;
  const int device_;
  std::atomic<bool> capturing_{false};
  std::atomic<int> priority_{0};
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<const void*> native_{nullptr};
  Timeline timeline_;
  const std::unique_ptr<Executor::Runner> runner_;

  // Held by whoever appends a task. The executor takes tasks without it.
  Mutex producers_;
  TaskQueue queue_;
  std::atomic<bool> holds_{false};  // written by the producers
  static constexpr std::uint64_t kLookEvery = 1024;
  std::atomic<std::uint64_t> looked_{0};  // how many tasks there were when stay_near() last looked
  PieceSize piece_ EMBER_GUARDED_BY(producers_);
  LaunchRing recent_ EMBER_GUARDED_BY(producers_);
  bool started_ EMBER_GUARDED_BY(producers_) = false;
  std::uint64_t runnable_ EMBER_GUARDED_BY(producers_) = 0;  // tasks that are no waits
};

class Stream::Together {
 public:
  Together() = default;
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;
  /// As end().
  ~Together();

  /// Lets the executor see what was added. For each stream that was included, what it was given
  /// last; `task` counts waits as the task before them.
  std::vector<Ticket> end();

  /// Takes a stream's lock for submitting, for tasks of that epoch. Fails as submit() does; then
  /// nothing may be added to any.
  Status include(Stream& stream, std::uint32_t epoch);
  /// Appends a task to a stream that was included.
  Point add(Stream& stream, Task::Kind kind, const Kernel& kernel, const Params& params,
            PeerMemory peer = {}, const Trouble& trouble = {});

 private:
  struct Included {
    Stream* stream;
    std::uint64_t stack;
    std::uint32_t epoch;
    bool any = false;
    Task::Kind last = Task::Kind::wait;
    Ticket ticket = {};
  };
  std::vector<Included> streams_;
};

/// What the calling thread has submitted last. `task` counts all that the stream ever had; where a
/// seed decides, the executor makes it the run's.
Ticket& this_ticket() noexcept;
/// The same of a graph's replay: for each node, and then for the end of the replay.
std::vector<Ticket>& these_tickets() noexcept;
/// Whether the calling thread has called set_unscheduled(true).
bool unscheduled() noexcept;

}  // namespace ember::inline v0::driver::sim
