#include "ember/driver/sim/seeded_executor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/driver/kernels.h"
#include "ember/driver/sim/seeded_runner.h"
#include "ember/driver/sim/stream.h"
#include "ember/driver/sim/task_work.h"

namespace ember::inline v0::driver::sim {
namespace {

/// How long a wait sleeps in which nothing can run here: another thread runs a task, or another
/// process is to raise a word.
constexpr std::chrono::milliseconds kNap{2};
/// How often the user is asked whether he interrupts a wait.
constexpr std::chrono::milliseconds kAskEvery{20};

/// What a task costs: the latency of small ones on hardware, and for bytes their share of 1 TB/s.
std::int64_t duration(const Task& task) noexcept {
  constexpr std::int64_t kBytesPerNanosecond = 1000;
  switch (task.kind) {
    case Task::Kind::kernel:
      // That one says itself how long it takes; a cycle is a nanosecond (device_properties).
      if (task.kernel.host.run == kernels::sleep.host.run)
        return static_cast<std::int64_t>(
            std::min(task.params.as<kernels::SleepArgs>().cycles, std::uint64_t{1} << 50));
      return 3000;
    case Task::Kind::host_function: return 10000;
    case Task::Kind::copy:
      return 2000 +
             static_cast<std::int64_t>(task.params.as<CopyArgs>().bytes) / kBytesPerNanosecond;
    case Task::Kind::fill: {
      const auto& fill = task.params.as<FillArgs>();
      return 2000 + static_cast<std::int64_t>(fill.count * fill.width) / kBytesPerNanosecond;
    }
    case Task::Kind::wait:
    case Task::Kind::stamp:
    case Task::Kind::word_write:
    case Task::Kind::word_wait: break;
  }
  return 0;
}

/// What the copy has written, if that is memory of the host.
std::optional<HostCopy> written_to_host(const Machine& machine, const Task& task) {
  if (task.kind != Task::Kind::copy) return {};
  const auto& args = task.params.as<CopyArgs>();
  if (machine.arena.owner(args.target) >= 0) return {};
  HostCopy made{.bytes = args.bytes, .first = {}};
  const auto* const bytes = static_cast<const std::uint8_t*>(args.target);
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a, word by word, and what is left by bytes
  std::size_t at = 0;
  for (; at + sizeof sum <= args.bytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof word);
    sum = (sum ^ word) * 1099511628211U;
    sum ^= sum >> 29;
  }
  for (; at < args.bytes; ++at) sum = (sum ^ bytes[at]) * 1099511628211U;
  made.sum = sum;
  std::memcpy(made.first.data(), bytes, std::min(args.bytes, made.first.size()));
  return made;
}

/// A task, as it is handed to who runs it, and what comes back. Both sides look at it unseen.
struct Work {
  struct Outcome {
    bool faulted = false;
    std::optional<HostCopy> copy;
  };
  Machine& machine;
  Stream& stream;
  Task& task;
  std::uint64_t number;  // in the stream
  WorkerActivity& activity;
  Traffic* traffic;
  std::size_t copied;  // bytes of a copy that were copied beforehand
  bool keeps;          // the copy that it was
  Outcome& outcome;
};

Work taken_over(void* argument) {
  const Unseen taking;
  return *static_cast<Work*>(argument);
}

void do_work(void* argument) {
  const Work work = taken_over(argument);
  Machine& machine = work.machine;
  Task& task = work.task;
  const OnWorker here;
  work.stream.timeline().order().began(work.number);
  bool faulted = false;
  std::optional<HostCopy> copy;
  if (!machine.health_of(work.stream.device()).accepts(task.epoch)) {
    drop(work.stream, task);
  } else if (task.kind == Task::Kind::word_wait) {
    pass_word(machine, work.stream, task, task.params.as<WordArgs>().word->load());
  } else if (const Status status =
                 work.copied != 0
                     ? copy_part(machine, work.stream, task, work.copied,
                                 task.params.as<CopyArgs>().bytes)
                     : execute(machine, work.stream, task, work.activity, work.traffic);
             !status.ok()) {
    fail(machine, work.stream, task, status);
    faulted = true;
  } else if (work.keeps) {
    copy = written_to_host(machine, task);
  }
  task.kernel.context = {};
  work.stream.timeline().order().ended(work.number);
  const Unseen handing_back;
  work.outcome = {faulted, copy};
}

/// The first half of the task, a copy. Bytes that cannot be copied are a fault of the whole, which
/// will find them as well.
void do_half(void* argument) {
  const Work work = taken_over(argument);
  const OnWorker here;
  work.stream.timeline().order().began(work.number);
  const bool failed = !copy_part(work.machine, work.stream, work.task, 0, work.copied).ok();
  const Unseen handing_back;
  work.outcome.faulted = failed;
}

}  // namespace

void SeededExecutor::Runner::submitted(TaskKind kind) {
  const Unseen deciding;
  const MutexLock lock(executor_.mutex_);
  if (unscheduled() && !executor_.devices_) return executor_.run_unscheduled(*this);
  executor_.call(executor_.devices_ ? executor_.devices_->call_time(kind) : 0);
  executor_.note_enqueued(*this);
  if (state == State::idle) {
    executor_.enrol(*this);
    executor_.settle(*this);
    executor_.settle_blocked();
  }
  Ticket mine = this_ticket();
  mine.stream = number;
  if (mine.task != 0) mine.task -= ran_before;
  mine.point = executor_.decider_.points() + 1;
  executor_.reach(At::submit);
  this_ticket() = mine;  // tasks may have submitted others
}

SeededExecutor::SeededExecutor(Machine& machine, const Schedule& schedule, ScheduleFiles files,
                               int patience)
    : machine_(machine), decider_(schedule), activity_(unmetered_), watchdog_(patience) {
  const MutexLock lock(mutex_);
  begin_locked(schedule, std::move(files));
}

void SeededExecutor::begin_locked(const Schedule& schedule, ScheduleFiles files) {
  decider_.begin(schedule, std::move(files.recording));
  swarm_ = files.swarm;
  faults_ = std::move(files.faults);
  devices_.reset();
  if (files.model) devices_.emplace(*files.model, machine_);
  devices_now_ = devices_ ? 0 : -1;
  watchdog_.set_replay_line(replay_line_locked());
}

std::unique_ptr<Executor::Runner> SeededExecutor::attach(Stream& stream) {
  auto runner = std::make_unique<Runner>(*this, stream);
  const Unseen entering;
  const MutexLock lock(mutex_);
  runners_.emplace(&stream.timeline(), runner.get());
  return runner;
}

void SeededExecutor::enrol(Runner& runner) {
  if (runner.run == run_) return;
  runner.run = run_;
  runner.number = ++numbered_;
  runner.ran_before += std::exchange(runner.ran, 0);
}

void SeededExecutor::watch_threads() {
  if (this_host() != nullptr) return;
  const std::thread::id self = std::this_thread::get_id();
  if (host_ == self || several_hosts_) return;
  if (host_ == std::thread::id() && hosts_.empty()) {
    host_ = self;
    return;
  }
  several_hosts_ = true;
  decider_.note_threads();
}

// ---- What is ready

bool SeededExecutor::passes(Runner& runner) {
  const Task& task = runner.stream.front(runner.done);
  if (!machine_.health_of(runner.stream.device()).accepts(task.epoch)) return true;
  if (task.kind == Task::Kind::word_wait) {
    const auto& args = task.params.as<WordArgs>();
    return args.word->load(std::memory_order_acquire) >= args.value;
  }
  const auto points = task.points();
  return std::all_of(points.begin(), points.end(),
                     [](const Point& each) { return each.reached(); });
}

void SeededExecutor::settle(Runner& runner) {
  note_enqueued(runner);
  while (runner.done != runner.stream.published()) {
    if (!passes(runner)) return place(runner, State::blocked);
    const Task& task = runner.stream.front(runner.done);
    if (task.kind != Task::Kind::wait) return place(runner, State::ready);
    if (machine_.health_of(runner.stream.device()).accepts(task.epoch)) {
      pass_points(machine_, runner.stream, task);
    } else {
      drop(runner.stream, task);
    }
    runner.stream.timeline().order().passed(runner.done + 1, task.points());
    runner.advance(learned_);
  }
  place(runner, State::idle);
}

void SeededExecutor::place(Runner& runner, State state) {
  const State before = std::exchange(runner.state, state);
  if (before == State::blocked && state != State::blocked) std::erase(blocked_, &runner);
  if (before != State::blocked && state == State::blocked) blocked_.push_back(&runner);
  if (state != State::ready) return;
  if (devices_)
    runner.time =
        std::max(devices_now_.load(), runner.enqueued.front() + devices_->model().launch_latency);
  const auto at = std::lower_bound(
      ready_.begin(), ready_.end(), runner.number,
      [](const Runner* each, std::uint32_t number) { return each->number < number; });
  const Task& next = runner.stream.front(runner.done);
  options_.insert(
      options_.begin() + (at - ready_.begin()),
      Ready{runner.number, runner.ran + 1, next.kernel.name.c_str(), next.kind == TaskKind::copy});
  ready_.insert(at, &runner);
}

void SeededExecutor::settle_blocked() {
  for (std::size_t i = 0; i < blocked_.size();) {
    Runner& runner = *blocked_[i];
    if (!passes(runner)) {
      ++i;
      continue;
    }
    settle(runner);
    i = 0;  // others may wait for what was passed
  }
}

// ---- What runs

void SeededExecutor::reach(At at) {
  if (on_worker() || busy_) return;
  pass_turn_locked();
  watch_threads();
  decider_.come_to_point();
  overtake(at);
}

void SeededExecutor::overtake(At at) {
  asked_ = 0;
  while (step(at, true)) {
  }
}

bool SeededExecutor::step(At at, bool host) {
  if (machine_.exit.stopping()) return false;
  if (!blocked_.empty()) settle_blocked();  // a word may have come
  if (devices_) return step_modelled(at, host);
  if (options_.empty() && !host) return false;
  Choice chosen;
  if (const Status status = decider_.choose(at, options_, host, chosen); !status.ok())
    end_process(status.detail(), replay_line_locked());
  if (chosen.task == Decider::kHost) return false;
  Runner& runner = *ready_[chosen.task];
  if (chosen.with != Decider::kHost)
    run_together(runner, *ready_[chosen.with]);
  else if (chosen.half)
    run_half(runner);
  else
    run(runner);
  return true;
}

void SeededExecutor::run(Runner& runner) {
  take(runner);
  const std::int64_t begin = base_ + clock_;
  const std::int64_t end = begin + duration(runner.stream.front(runner.done));
  clock_ += end - begin;
  const bool faulted = perform(runner, begin, nullptr);
  finish(runner, end, faulted);
}

void SeededExecutor::run_unscheduled(Runner& runner) {
  while (busy_) {  // another thread's call runs a task
    ++waiting_;
    changed_.wait_until(mutex_, Clock::now() + kNap);
    --waiting_;
  }
  const bool faulted = perform(runner, base_ + clock_, nullptr);
  ++runner.ran_before;
  finish(runner, base_ + clock_, faulted);
  this_ticket() = {this_ticket().number, 0, 0, 0};
}

void SeededExecutor::run_together(Runner& first, Runner& second) {
  take(first);
  take(second);
  const std::int64_t begin = base_ + clock_;
  const std::int64_t end = begin + std::max(duration(first.stream.front(first.done)),
                                            duration(second.stream.front(second.done)));
  clock_ += end - begin;
  WriteJournal journal;
  machine_.journal = &journal;
  const bool first_faulted = perform(first, begin, nullptr);
  machine_.journal = nullptr;
  journal.take_back();
  const bool second_faulted = perform(second, begin, nullptr);
  journal.put_over();
  finish(first, end, first_faulted);
  finish(second, end, second_faulted);
}

void SeededExecutor::run_half(Runner& runner) {
  options_[static_cast<std::size_t>(std::find(ready_.begin(), ready_.end(), &runner) -
                                    ready_.begin())]
      .cuts = false;
  Task& task = runner.stream.front(runner.done);
  const std::size_t half = task.params.as<CopyArgs>().bytes / 2;
  if (!machine_.health_of(runner.stream.device()).accepts(task.epoch)) return;
  Work::Outcome outcome;
  Work work{machine_, runner.stream, task,  runner.done + 1, activity_,
            nullptr,  half,          false, outcome};
  runner.thread.run(&do_half, &work);
  if (!outcome.faulted) runner.copied = half;
}

void SeededExecutor::take(Runner& runner) {
  const auto at = std::find(ready_.begin(), ready_.end(), &runner);
  options_.erase(options_.begin() + (at - ready_.begin()));
  ready_.erase(at);
  runner.state = State::running;
  ++runner.ran;
  ran_.push_back({decider_.points(), runner.number, runner.ran});
}

bool SeededExecutor::perform(Runner& runner, std::int64_t begin, Traffic* traffic) {
  busy_ = true;
  Task& task = runner.stream.front(runner.done);
  if (task.times) [[unlikely]]
    task.times->began(begin);
  const int device = runner.stream.device();
  watchdog_.begin(task.kernel.name.c_str(), device, runner.number, runner.ran);
  Work::Outcome outcome;
  Work work{
      machine_,  runner.stream, task,          runner.done + 1,
      activity_, traffic,       runner.copied, decider_.schedule().kind == Schedule::Kind::steps,
      outcome};
  mutex_.unlock();  // the task may submit others
  const Ticket of_the_host = this_ticket();
  machine_.running.fetch_add(1);
  runner.thread.run(&do_work, &work);
  machine_.running.fetch_sub(1);
  this_ticket() = of_the_host;
  mutex_.lock();
  watchdog_.end();
  if (outcome.copy && !unscheduled()) {
    outcome.copy->stream = runner.number;
    outcome.copy->task = runner.ran;
    copies_.push_back(*outcome.copy);
  }
  busy_ = false;
  if (outcome.faulted && !std::exchange(fault_shown_, true))
    std::fprintf(stderr, "ember: a fault of cuda:%d; the run is %s\n", device,
                 replay_line_locked().c_str());
  return outcome.faulted;
}

void SeededExecutor::finish(Runner& runner, std::int64_t end, bool faulted) {
  Task& task = runner.stream.front(runner.done);
  if (task.times) [[unlikely]] {
    if (task.times->read().state == WorkTimes::State::running) task.times->ended(end, faulted);
    task.times = {};
  }
  const TaskKind kind = task.kind;
  runner.advance(learned_);
  if (kind == Task::Kind::host_function) learn();  // it may have told the host
  settle(runner);
  settle_blocked();
  if (waiting_ != 0) changed_.notify_all();
}

// ---- What the host asks

Timeline::Waited SeededExecutor::wait_until(const Point& point, bool interruptible) {
  const Timeline::Waited waited = run_until(point, interruptible);
  if (waited == Timeline::Waited::reached) point.see();
  return waited;
}

bool SeededExecutor::query(const Point& point) {
  const bool reached = answer(point);
  if (reached) point.see();
  return reached;
}

Timeline::Waited SeededExecutor::run_until(const Point& point, bool interruptible) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  if (unscheduled() && !devices_ && point.reached()) return Timeline::Waited::reached;
  if (!busy_) pass_turn_locked();
  // Not if the work is of an earlier run.
  const auto found = runners_.find(point.timeline);
  const bool is_point = !busy_ && found != runners_.end() && found->second->run == run_;
  const bool keeps = decider_.schedule().kind == Schedule::Kind::steps;
  if (is_point) decider_.come_to_point();
  if (is_point && keeps) {
    waits_.push_back({decider_.points(), found->second->number, point.value});
  }
  if (devices_ && is_point) overtake(At::wait);  // what has happened before the call
  const bool waits = !point.reached();
  if (waits) watch_threads();
  if (waits || devices_) call(devices_ ? devices_->model().query_call : 0);
  Clock::time_point ask = Clock::now() + kAskEvery;
  while (!point.reached()) {
    if (machine_.exit.refuses()) return Timeline::Waited::exiting;
    if (busy_ || !step(At::wait, false)) {
      ++waiting_;
      changed_.wait_until(mutex_, Clock::now() + kNap);
      --waiting_;
      pass_turn_locked();
    }
    if (!interruptible || Clock::now() < ask) continue;
    mutex_.unlock();  // the interpreter's lock may be held by a thread that submits work here
    const bool interrupted = ember::interrupted();
    mutex_.lock();
    if (interrupted) return Timeline::Waited::interrupted;
    ask = Clock::now() + kAskEvery;
  }
  learn();
  if (devices_ && is_point && waits) {
    // It sees what it has waited for.
    clock_ = std::max(clock_.load(), devices_now_.load()) + devices_->model().synchronize_call;
    overtake(At::wait);
  }
  // What has become ready by then may run before the host does anything. A model has done so.
  if (is_point && !devices_ && !busy_) overtake(At::wait);
  return Timeline::Waited::reached;
}

// A program must not take it for granted that what it has enqueued is done. So "not done" is the
// first answer wherever the host cannot know better: no wait has returned since, no query was
// answered "done", and no host function has run. A host that goes on asking waits in its own way,
// so each such answer lets one task run.
bool SeededExecutor::answer(const Point& point) {
  if (point.timeline == nullptr) return true;
  const Unseen deciding;
  const MutexLock lock(mutex_);
  if (on_worker()) return point.reached();
  if (!busy_) pass_turn_locked();
  watch_threads();
  call(devices_ ? devices_->model().query_call : 0);
  if (devices_) {  // knows when it is done
    if (!busy_) overtake(At::query);
    return point.reached();
  }
  Runner& runner = *runners_.find(point.timeline)->second;
  runner.recall(learned_);
  if (point.value <= runner.known) return true;
  if (point.reached() && runner.denied >= point.value) {
    learn();
    return true;
  }
  runner.denied = std::max(runner.denied, point.value);
  // Allocators ask as well, and must not disturb a schedule of steps; so there a host waits in its
  // own way only if it asks many times and does nothing else.
  constexpr int kPatient = 16;
  if (decider_.schedule().kind == Schedule::Kind::steps && ++asked_ < kPatient) return false;
  if (!busy_) (void)step(At::query, false);
  return false;
}

void SeededExecutor::epoch_began(Stream&) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  settle_blocked();
}

// ---- Runs

void SeededExecutor::begin_run(const Schedule& schedule, ScheduleFiles files) {
  const MutexLock lock(mutex_);
  ++run_;
  hosts_.clear();
  turn_ = 0;
  turns_over_ = false;
  turns_mixed_ = false;
  turned_.notify_all();
  numbered_ = 0;
  waits_.clear();
  ran_.clear();
  copies_.clear();
  asked_ = 0;
  base_ += clock_.exchange(0);
  learn();
  fault_shown_ = false;
  several_hosts_ = false;
  host_ = {};
  begin_locked(schedule, std::move(files));
}

Schedule SeededExecutor::schedule() {
  const MutexLock lock(mutex_);
  return swarm_ ? *swarm_ : decider_.schedule();
}

void SeededExecutor::sort(std::vector<Stream*>& streams) {
  const MutexLock lock(mutex_);
  std::vector<std::pair<std::uint32_t, Stream*>> numbered;
  numbered.reserve(streams.size());
  for (Stream* stream : streams) {
    const auto found = runners_.find(&stream->timeline());
    const bool has_one = found != runners_.end() && found->second->run == run_;
    numbered.emplace_back(has_one ? found->second->number : UINT32_MAX, stream);
  }
  std::stable_sort(numbered.begin(), numbered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i] = numbered[i].second;
}

Progress SeededExecutor::progress() {
  const MutexLock lock(mutex_);
  Progress progress{decider_.points(), ran_, decider_.unfollowed(), waits_, copies_};
  std::stable_sort(progress.copies.begin(), progress.copies.end(),
                   [](const HostCopy& a, const HostCopy& b) {
                     return a.stream != b.stream ? a.stream < b.stream : a.task < b.task;
                   });
  return progress;
}

std::string SeededExecutor::log() {
  const MutexLock lock(mutex_);
  return decider_.log();
}

std::string SeededExecutor::replay_line() {
  const MutexLock lock(mutex_);
  return replay_line_locked();
}

std::string SeededExecutor::replay_line_locked() const {
  return "EMBER_SIM_SCHEDULE=" + schedule_text(decider_.schedule()) +
         (faults_.empty() ? "" : " EMBER_SIM_FAULTS=" + faults_text(faults_)) +
         (run_ > 1 ? " (run " + std::to_string(run_) + " of the process)" : "");
}

}  // namespace ember::inline v0::driver::sim
