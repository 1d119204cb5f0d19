#include "ember/driver/sim/threaded_executor.h"

#include <atomic>
#include <string>
#include <system_error>
#include <thread>

#include "ember/base/spin.h"
#include "ember/driver/sim/stream.h"
#include "ember/driver/sim/task_work.h"
#include "ember/driver/words.h"

namespace ember::inline v0::driver::sim {

class ThreadedExecutor::Worker final : public Executor::Runner {
 public:
  Worker(ThreadedExecutor& executor, Stream& stream)
      : machine_(executor.machine_),
        scheduler_(executor.scheduler_),
        stream_(stream),
        activity_(machine_.activity_of(stream.device())) {
    listening_ = false;
  }

  Status start() override {
    try {
      std::thread([this] { work(); }).detach();  // streams live as long as the process
    } catch (const std::system_error& error) {
      return Status(Code::launch_out_of_resources,
                    std::string("no thread for a simulated stream: ") + error.what());
    }
    return {};
  }

  void submitted(TaskKind) override {
    const Unseen waking;
    // The task is published before listening_ is read, and the worker looks for tasks after it has
    // set that (all seq_cst): one of the two sees the other.
    if (listening_.exchange(false)) {
      const MutexLock lock(sleeping_);
      filled_.notify_one();
    }
  }

 private:
  void work();
  /// Blocks until task `number` is published.
  void await(std::uint64_t number);
  /// Runs the task or drops it. False when the process is exiting and it was not run.
  bool run(const Task& task);
  /// Waits for the task's points. False as run().
  bool wait(const Task& task);
  /// Waits for the task's word.
  void wait_for_word(const Task& task);

  Machine& machine_;
  Scheduler& scheduler_;
  Stream& stream_;
  // Written for every task; who submits reads listening_, which is not to lie in the same cache
  // line.
  alignas(64) WorkerActivity activity_;

  // An idle worker sleeps here, and listens: somebody has to wake it.
  Mutex sleeping_;
  Condition filled_;
};

std::unique_ptr<Executor::Runner> ThreadedExecutor::attach(Stream& stream) {
  return std::make_unique<Worker>(*this, stream);
}

void ThreadedExecutor::epoch_began(Stream& stream) { stream.timeline().wake(); }

void ThreadedExecutor::Worker::await(std::uint64_t number) {
  if (stream_.published() >= number) return;
  activity_.idle();
  // In a steady stream the next task is there soon: spinning briefly saves two system calls, and
  // spares the submitting thread the cost of a wake-up.
  if (spin_briefly([&] { return stream_.published() >= number; })) return;
  {
    const Unseen sleeping;
    const MutexLock lock(sleeping_);
    while (true) {
      listening_.store(true);
      if (stream_.published() >= number) break;
      filled_.wait(sleeping_);
    }
    listening_.store(false);
  }
  (void)stream_.published();  // seen: what was done before the task was submitted
}

void ThreadedExecutor::Worker::work() {
  const OnWorker for_ever;
  for (std::uint64_t done = 0;; ++done) {
    await(done + 1);
    Task& task = stream_.front(done);
    if (!run(task)) return;
    task.kernel.context = {};  // before anybody can see that the task is done
    if (task.times) [[unlikely]]
      task.times = {};
    stream_.timeline().advance();
  }
}

bool ThreadedExecutor::Worker::run(const Task& task) {
  if (!machine_.health_of(stream_.device()).accepts(task.epoch)) {
    drop(stream_, task);
    return true;
  }
  if (task.kind == Task::Kind::wait) return wait(task);
  if (task.kind == Task::Kind::word_wait) {
    wait_for_word(task);
    return true;
  }
  const Scheduler::Task turn{stream_.device(), stream_.priority(), task.kind == Task::Kind::kernel};
  bool stopping = false;
  {
    // Taking turns is no order that a program may rely on.
    const Unseen scheduling;
    scheduler_.begin(turn);
    machine_.running.fetch_add(1);
    stopping = machine_.exit.stopping();
    activity_.begin(task);
  }
  const bool timed = task.times && !stopping;
  if (timed) [[unlikely]]
    task.times->began(clock_time(Clock::now()));
  const Status status = stopping ? Status() : execute(machine_, stream_, task, activity_);
  if (timed) [[unlikely]]
    task.times->ended(clock_time(Clock::now()), !status.ok());
  {
    const Unseen scheduling;
    machine_.running.fetch_sub(1);
    scheduler_.end(turn);
  }
  if (!status.ok()) fail(machine_, stream_, task, status);
  return !stopping;
}

bool ThreadedExecutor::Worker::wait(const Task& task) {
  const Health& health = machine_.health_of(stream_.device());
  for (const Point& point : task.points()) {
    // Nothing to run: the stream just is not ready before the point is reached.
    if (!point.timeline->has_reached(point.value)) activity_.idle();
    const Timeline::Waited waited =
        point.timeline->wait(point.value, [&] { return !health.accepts(task.epoch); });
    if (waited == Timeline::Waited::exiting) return false;
    if (waited == Timeline::Waited::given_up) {
      drop(stream_, task);
      return true;
    }
  }
  pass_points(machine_, stream_, task);
  return true;
}

void ThreadedExecutor::Worker::wait_for_word(const Task& task) {
  const auto& args = task.params.as<WordArgs>();
  const Health& health = machine_.health_of(stream_.device());
  std::uint64_t seen = 0;
  while ((seen = args.word->load(std::memory_order_acquire)) < args.value) {
    if (!health.accepts(task.epoch)) return drop(stream_, task);
    await_change(*args.word, seen);
  }
  pass_word(machine_, stream_, task, seen);
}

}  // namespace ember::inline v0::driver::sim
