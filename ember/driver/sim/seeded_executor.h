// Runs in which a seed decides: no threads of its own, one task at a time.
//
// Tasks run on the user's threads, at points: where a thread has submitted work, asks whether it is
// done, or waits. At each point the Decider chooses among the tasks that are ready and, unless the
// thread waits, the thread itself. No stack is ever switched, so a task runs to its end before
// anything else does. Time is a clock that tasks and calls advance.
//
// Where a device model decides, tasks begin at its times instead, and end by events of their own
// (modelled_run.cpp).
//
// In builds for the thread sanitizer the streams have threads all the same, which take no decisions
// (seen_stream.h); and all that the executor does is out of the sanitizer's sight, since its lock
// is no order that a program may rely on.
//
// Streams, tasks and decisions are numbered by what the program does, never by address or time, so
// a program of one thread that does the same makes the same run anywhere. Several host threads are
// safe, not repeatable: the log says from where on.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/sim/decider.h"
#include "ember/driver/sim/executor.h"
#include "ember/driver/sim/machine.h"
#include "ember/driver/sim/modelled_devices.h"
#include "ember/driver/sim/schedule_files.h"
#include "ember/driver/sim/watchdog.h"
#include "ember/driver/simulation.h"

namespace ember::inline v0::driver::sim {

class SeededExecutor final : public Executor {
 public:
  /// The first run, with what its schedule names. `patience`: seconds after which a task that runs
  /// ends the process; zero: never.
  SeededExecutor(Machine& machine, const Schedule& schedule, ScheduleFiles files, int patience);

  std::unique_ptr<Executor::Runner> attach(Stream& stream) override;
  Timeline::Waited wait(const Point& point) override { return wait_until(point, false); }
  Timeline::Waited wait_interruptibly(const Point& point) override {
    return wait_until(point, true);
  }
  /// What a query of the user's is answered: false where the point is not reached, and at first
  /// where the host cannot know that it is.
  bool query(const Point& point);
  void epoch_began(Stream& stream) override;
  bool concurrent() const noexcept override { return false; }
  Clock::time_point now() override { return Clock::time_point(std::chrono::nanoseconds(time())); }
  Clock::time_point unbroken_now() override {
    return Clock::time_point(std::chrono::nanoseconds(base_ + time()));
  }

  /// By their numbers in the run, and then those that have none.
  void sort(std::vector<Stream*>& streams);

  /// Begins another run; all streams must be idle.
  void begin_run(const Schedule& schedule, ScheduleFiles files);
  /// As it was asked for: of kind swarm, if that has drawn the one that decides.
  Schedule schedule();
  std::string log();
  Progress progress();
  std::uint64_t points() {
    const MutexLock lock(mutex_);
    return decider_.points();
  }
  /// See Decider::left().
  std::size_t left() {
    const MutexLock lock(mutex_);
    return decider_.left();
  }
  // See driver/simulation.h: host threads that take turns.
  std::uint32_t start_turns();
  void enter_turns(std::uint32_t number);
  void leave_turns(std::uint32_t number);
  void pass_turn();
  void await_turn(TurnWait& wait);
  void change_turns(void (*change)(void*), void* argument);
  std::uint32_t turn_number();
  bool turns_in_order();

  /// "EMBER_SIM_SCHEDULE=random:7", with what else it takes to see the run again.
  std::string replay_line();

 private:
  class Runner;
  /// Of a runner: nothing to do; its next task could run, waits, or runs.
  enum class State : std::uint8_t { idle, ready, blocked, running };

  Timeline::Waited wait_until(const Point& point, bool interruptible);
  // Of these, the ones that run a task let go of the lock meanwhile.
  /// What wait_until() and query() answer.
  Timeline::Waited run_until(const Point& point, bool interruptible);
  bool answer(const Point& point);
  /// The calling thread has come to a point at which it may be overtaken.
  void reach(At at) EMBER_REQUIRES(mutex_);
  /// What runs before the host goes on from where it is.
  void overtake(At at) EMBER_REQUIRES(mutex_);
  /// Decides, and does it: false where the host goes on.
  bool step(At at, bool host) EMBER_REQUIRES(mutex_);
  void run(Runner& runner) EMBER_REQUIRES(mutex_);
  /// The one task that a stream has, which is in no schedule (set_unscheduled).
  void run_unscheduled(Runner& runner) EMBER_REQUIRES(mutex_);
  /// Two tasks that overlap: each reads what was there before, and what both have written stays.
  void run_together(Runner& first, Runner& second) EMBER_REQUIRES(mutex_);
  /// The first half of the runner's next task, a copy, which stays ready.
  void run_half(Runner& runner) EMBER_REQUIRES(mutex_);
  /// What run() is made of: the runner's task is no longer ready; it does its work, without the
  /// lock, and answers whether it faulted; it is over.
  void take(Runner& runner) EMBER_REQUIRES(mutex_);
  bool perform(Runner& runner, std::int64_t begin, Traffic* traffic) EMBER_REQUIRES(mutex_);
  void finish(Runner& runner, std::int64_t end, bool faulted) EMBER_REQUIRES(mutex_);
  void begin_locked(const Schedule& schedule, ScheduleFiles files) EMBER_REQUIRES(mutex_);

  // Where a device model decides (modelled_run.cpp). Tasks begin and end at times of devices, which
  // the host is told of when its own clock has come there.
  /// The next event, if the host must not go on before it: false where it goes on.
  bool step_modelled(At at, bool host) EMBER_REQUIRES(mutex_);
  void begin_modelled(Runner& runner, std::int64_t now) EMBER_REQUIRES(mutex_);
  /// When the runner's next task, which is ready, can begin.
  std::int64_t can_begin(Runner& runner) EMBER_REQUIRES(mutex_);
  /// Tasks that were published since are enqueued now.
  void note_enqueued(Runner& runner) EMBER_REQUIRES(mutex_);
  /// A call of the host that takes so long where a model decides, and the usual time elsewhere.
  void call(std::int64_t modelled) EMBER_REQUIRES(mutex_);

  /// The clock of who asks: the host's or, of a task where a model decides, its device's.
  std::int64_t time() const noexcept {
    const std::int64_t devices = on_worker() ? devices_now_.load(std::memory_order_relaxed) : -1;
    return devices >= 0 ? devices : clock_.load(std::memory_order_relaxed);
  }
  /// Sees what the runner's next task is, and passes waits that are over.
  void settle(Runner& runner) EMBER_REQUIRES(mutex_);
  /// The same for runners that wait, until nothing changes.
  void settle_blocked() EMBER_REQUIRES(mutex_);
  /// Enters the runner in the list of its new state, and takes it from the blocked ones.
  void place(Runner& runner, State state) EMBER_REQUIRES(mutex_);
  /// A task that waits may go on, or gives up.
  bool passes(Runner& runner) EMBER_REQUIRES(mutex_);
  /// Numbers the runner in the present run.
  void enrol(Runner& runner) EMBER_REQUIRES(mutex_);
  void watch_threads() EMBER_REQUIRES(mutex_);

  // Host threads that take turns (host_turns.cpp).
  struct HostThread {
    TurnWait* wait = nullptr;  // what it waits for, if that is not only for its turn
    std::uint64_t turns = 0;
    bool over = false;
    bool starts = false;  // another one, and comes to its next point behind that
  };
  /// The calling one, if it takes turns in this run.
  HostThread* this_host() EMBER_REQUIRES(mutex_);
  void give_turn() EMBER_REQUIRES(mutex_);
  void await_own(HostThread& self) EMBER_REQUIRES(mutex_);
  void pass_turn_locked() EMBER_REQUIRES(mutex_);
  /// Whether a thread beside that one could go on.
  bool another_ready(const HostThread& self) EMBER_REQUIRES(mutex_);

  /// What is done by now the host may know to be done.
  void learn() EMBER_REQUIRES(mutex_) { ++learned_; }
  std::string replay_line_locked() const EMBER_REQUIRES(mutex_);

  Machine& machine_;
  Mutex mutex_;
  Condition changed_;  // a task that another thread ran is over
  int waiting_ EMBER_GUARDED_BY(mutex_) = 0;
  bool busy_ EMBER_GUARDED_BY(mutex_) = false;  // a task runs

  Decider decider_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t run_ EMBER_GUARDED_BY(mutex_) = 1;
  std::uint32_t numbered_ EMBER_GUARDED_BY(mutex_) = 0;  // streams of the run
  std::vector<Step> ran_ EMBER_GUARDED_BY(mutex_);
  // Kept for schedules of kind steps.
  std::vector<RunWait> waits_ EMBER_GUARDED_BY(mutex_);
  std::vector<HostCopy> copies_ EMBER_GUARDED_BY(mutex_);
  int asked_ EMBER_GUARDED_BY(mutex_) = 0;  // queries since the host last came to a point
  std::uint64_t learned_ EMBER_GUARDED_BY(mutex_) = 0;
  bool fault_shown_ EMBER_GUARDED_BY(mutex_) = false;
  std::thread::id host_ EMBER_GUARDED_BY(mutex_);
  bool several_hosts_ EMBER_GUARDED_BY(mutex_) = false;

  std::deque<HostThread> hosts_ EMBER_GUARDED_BY(mutex_);  // by number, from 1
  std::uint32_t turn_ EMBER_GUARDED_BY(mutex_) = 0;        // whose it is
  bool turns_over_ EMBER_GUARDED_BY(mutex_) = false;       // one was silent for too long
  /// One went on from a point where another one could have.
  bool turns_mixed_ EMBER_GUARDED_BY(mutex_) = false;
  std::uint64_t points_seen_ EMBER_GUARDED_BY(mutex_) = 0;
  Condition turned_;

  std::vector<Runner*> ready_ EMBER_GUARDED_BY(mutex_);    // by number
  std::vector<Ready> options_ EMBER_GUARDED_BY(mutex_);    // the same, as the decider wants it
  std::vector<Runner*> blocked_ EMBER_GUARDED_BY(mutex_);  // whose next task waits
  std::unordered_map<const Timeline*, Runner*> runners_ EMBER_GUARDED_BY(mutex_);

  std::optional<Schedule> swarm_ EMBER_GUARDED_BY(mutex_);
  Faults faults_ EMBER_GUARDED_BY(mutex_);  // that the run began with

  std::optional<ModelledDevices> devices_ EMBER_GUARDED_BY(mutex_);
  std::vector<Runner*> running_ EMBER_GUARDED_BY(mutex_);  // by number; with a model alone
  std::atomic<std::int64_t> devices_now_{-1};              // -1 without a model

  std::atomic<std::int64_t> clock_{0};  // nanoseconds of the present run
  // What unbroken_now() was when that began: at first the machine's time, so that times of before
  // the first device fit.
  std::atomic<std::int64_t> base_{clock_time(Clock::now())};
  DeviceActivity unmetered_;  // how busy a device was says nothing in a run like this
  WorkerActivity activity_;
  Watchdog watchdog_;
};

}  // namespace ember::inline v0::driver::sim
