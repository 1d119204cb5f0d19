#include "ember/driver/sim/stream.h"

#include <string>
#include <utility>

namespace ember::inline v0::driver::sim {
namespace {

/// Whether the thread runs tasks.
thread_local constinit bool is_worker = false;

thread_local constinit Ticket last_ticket;
thread_local std::vector<Ticket> last_tickets;
thread_local constinit bool is_unscheduled = false;

}  // namespace

Ticket& this_ticket() noexcept { return last_ticket; }
std::vector<Ticket>& these_tickets() noexcept { return last_tickets; }
bool unscheduled() noexcept { return is_unscheduled; }

bool on_worker() noexcept { return is_worker; }

OnWorker::OnWorker() noexcept : before_(is_worker) { is_worker = true; }
OnWorker::~OnWorker() { is_worker = before_; }

Status refuse_on_worker(const char* what) {
  if (!is_worker) [[likely]]
    return {};
  return Status(
      Code::not_permitted,
      std::string(what) + " called from a host function or a kernel would wait for itself");
}

std::vector<RecentLaunch> Stream::recent() {
  const MutexLock lock(producers_);
  std::vector<RecentLaunch> all = recent_.list();
  for (RecentLaunch& launch : all)
    if (timeline_.was_dropped(launch.number, launch.epoch))
      launch.state = LaunchState::dropped;
    else if (timeline_.has_reached(launch.number))
      launch.state = LaunchState::finished;
  return all;
}

std::string Stream::place_of(std::uint64_t number) {
  const MutexLock lock(producers_);
  const RecentLaunch* found = recent_.find(number);
  return launch_place(native_.load(std::memory_order_relaxed), number,
                      found != nullptr ? found->stack : 0);
}

namespace {

Status refuse_at_exit() {
  return Status(Code::shutting_down, "the process is exiting, no more work is done");
}

std::size_t bytes_of(Task::Kind kind, const Params& params) noexcept {
  if (kind == Task::Kind::copy) return params.as<CopyArgs>().bytes;
  if (kind != Task::Kind::fill) return 0;
  const auto& fill = params.as<FillArgs>();
  return fill.width * fill.count;
}

}  // namespace

std::uint64_t Stream::place() const noexcept {
  if (machine_.recorded.load(std::memory_order_relaxed) == 0) [[likely]]
    return 0;
  const StackNumber number = machine_.stack.load(std::memory_order_relaxed);
  return number != nullptr ? number() : 0;
}

Status Stream::prepare(std::uint32_t& epoch) {
  // Read under the lock: see settled_tail().
  const std::uint32_t now = machine_.health_of(device_).epoch();
  if (epoch != now && epoch != kAnyEpoch) [[unlikely]]
    return Status(Code::context_is_destroyed,
                  "cuda:" + std::to_string(device_) + " was reset since the work was prepared");
  epoch = now;
  if (started_) [[likely]]
    return {};
  EMBER_TRY(runner_->start());
  started_ = true;
  return {};
}

Point Stream::append(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel,
                     const Params& params, PeerMemory peer, WorkTimes* times,
                     const Trouble& trouble, std::uint64_t stack, bool hold) {
  Task& task = queue_.next_slot(params);
  task.kind = kind;
  task.epoch = epoch;
  task.kernel = kernel;
  task.peer = peer;
  if (times != nullptr) [[unlikely]]
    task.times = Ref<WorkTimes>(times);
  task.trouble = trouble;
  // Before it can run, and fail.
  if (const int recorded = machine_.recorded.load(std::memory_order_relaxed); recorded != 0)
      [[unlikely]]
    recent_.add({.name = kernel.name.c_str(),
                 .stream = native_.load(std::memory_order_relaxed),
                 .number = queue_.next_number(),
                 .bytes = bytes_of(kind, params),
                 .stack = stack,
                 .epoch = epoch},
                recorded);
  if (kThreadSanitizer && !machine_.executor->concurrent())
    timeline_.order().submitted(queue_.next_number());
  Point done{&timeline_, queue_.hold(), epoch};
  if (!hold) {
    if (holds_.load(std::memory_order_relaxed)) [[unlikely]]
      piece_.begin();
    holds_.store(false, std::memory_order_relaxed);
    (void)queue_.publish_held();
  } else if (piece_.reached(queue_.held())) {
    piece_.grow();
    (void)publish_held();
  } else {
    holds_.store(true, std::memory_order_relaxed);
  }
  if (kind != Task::Kind::wait) ++runnable_;
  last_ticket = {done.value, 0, kind != Task::Kind::wait ? runnable_ : 0, 0};
  return done;
}

namespace {

bool is_work(Task::Kind kind) noexcept {
  return kind == Task::Kind::kernel || kind == Task::Kind::copy || kind == Task::Kind::fill ||
         kind == Task::Kind::host_function;
}

}  // namespace

Status Stream::submit(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel,
                      const Params& params, Point& done, PeerMemory peer, WorkTimes* times,
                      const Trouble& trouble, bool hold) {
  if (machine_.exit.refuses()) [[unlikely]]
    return refuse_at_exit();
  const std::uint64_t stack = place();
  {
    const MutexLock lock(producers_);
    EMBER_TRY(prepare(epoch));
    done = append(epoch, kind, kernel, params, peer, times, trouble, stack, hold);
    if (holds_.load(std::memory_order_relaxed)) [[unlikely]]
      return {};
  }
  if (runner_->listening()) runner_->submitted(kind);
  if (is_work(kind)) stay_near();
  return {};
}

// Note [How far a host gets ahead]
//
// A real device takes some thousand operations, and then a launch waits until there is room. A
// simulated one takes many more, since that costs nothing, but not without end: the memory of what
// is queued, and the time until somebody who waits has his answer, would have none. Only whoever
// submits work waits, which a thread does without a lock of ember's that what is queued may need;
// events are recorded with locks held. Where a seed decides, tasks run when it says so.
void Stream::wait_until_near() noexcept {
  constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 16;
  const std::uint64_t submitted = queue_.published();
  looked_.store(submitted, std::memory_order_relaxed);
  if (submitted <= kMostAhead || !machine_.executor->concurrent() || on_worker()) return;
  const std::uint32_t epoch = machine_.health_of(device_).epoch();
  (void)machine_.executor->wait({&timeline_, submitted - kMostAhead, epoch});
}

void Stream::hand_over_held() noexcept {
  {
    const MutexLock lock(producers_);
    if (!publish_held()) return;
    piece_.begin();
  }
  if (runner_->listening()) runner_->submitted(Task::Kind::kernel);
}

// ---- Together

Status Stream::Together::include(Stream& stream, std::uint32_t epoch)
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  if (stream.machine_.exit.refuses()) [[unlikely]]
    return refuse_at_exit();
  const std::uint64_t stack = stream.place();
  stream.producers_.lock();
  streams_.push_back({&stream, stack, epoch});
  if (stream.publish_held()) {
    streams_.back().any = true;
    streams_.back().last = Task::Kind::kernel;
  }
  return stream.prepare(streams_.back().epoch);
}

Point Stream::Together::add(Stream& stream, Task::Kind kind, const Kernel& kernel,
                            const Params& params, PeerMemory peer, const Trouble& trouble)
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (Included& included : streams_) {
    if (included.stream != &stream) continue;
    included.any = true;
    included.last = kind;
    const Point done =
        stream.append(included.epoch, kind, kernel, params, peer, nullptr, trouble, included.stack);
    included.ticket = {done.value, 0, stream.runnable_, 0};
    return done;
  }
  return {};
}

// The executor may run tasks within the call, which submit others: so all locks go first.
std::vector<Ticket> Stream::Together::end() EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  std::vector<Ticket> last;
  last.reserve(streams_.size());
  for (const Included& included : streams_) included.stream->producers_.unlock();
  for (const Included& included : std::exchange(streams_, {})) {
    this_ticket() = included.ticket;
    if (included.any && included.stream->runner_->listening())
      included.stream->runner_->submitted(included.last);
    last.push_back(this_ticket());
  }
  return last;
}

Stream::Together::~Together() { (void)end(); }

}  // namespace ember::inline v0::driver::sim

namespace ember::inline v0::driver {

bool set_unscheduled(bool unscheduled) noexcept {
  return std::exchange(sim::is_unscheduled, unscheduled);
}

Ticket take_simulated_ticket() noexcept { return std::exchange(sim::this_ticket(), {}); }
std::span<const Ticket> simulated_replay_tickets() noexcept { return sim::these_tickets(); }

}  // namespace ember::inline v0::driver
