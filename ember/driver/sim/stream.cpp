#include "ember/driver/sim/stream.h"

#include <string>
#include <utility>

namespace ember::inline v0::driver::sim {
namespace {

/// Whether the thread runs tasks.
thread_local constinit bool is_worker = false;

thread_local constinit Ticket last_ticket;

}  // namespace

Ticket& this_ticket() noexcept { return last_ticket; }

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

Status Stream::submit(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel,
                      const Params& params, Point& done, PeerMemory peer, WorkTimes* times) {
  if (machine_.exit.refuses()) [[unlikely]]
    return Status(Code::shutting_down, "the process is exiting, no more work is done");
  {
    const MutexLock lock(producers_);
    // Read under the lock: see settled_tail().
    const std::uint32_t now = machine_.health_of(device_).epoch();
    if (epoch != now && epoch != kAnyEpoch) [[unlikely]]
      return Status(Code::context_is_destroyed,
                    "cuda:" + std::to_string(device_) + " was reset since the work was prepared");
    if (!started_) {
      EMBER_TRY(runner_->start());
      started_ = true;
    }
    Task& task = queue_.next_slot(params);
    task.kind = kind;
    task.epoch = now;
    task.kernel = kernel;
    task.peer = peer;
    if (times != nullptr) [[unlikely]]
      task.times = Ref<WorkTimes>(times);
    done = {&timeline_, queue_.publish(), now};
    if (kind != Task::Kind::wait) ++runnable_;
    last_ticket = {done.value, 0, kind != Task::Kind::wait ? runnable_ : 0, 0};
  }
  if (runner_->listening()) runner_->submitted();
  return {};
}

}  // namespace ember::inline v0::driver::sim

namespace ember::inline v0::driver {

Ticket take_simulated_ticket() noexcept { return std::exchange(sim::this_ticket(), {}); }

}  // namespace ember::inline v0::driver
