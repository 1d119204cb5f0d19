#include "ember/driver/sim/stream.h"

#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ember/base/spin.h"
#include "ember/driver/words.h"

namespace ember::inline v0::driver::sim {
namespace {

/// Whether the thread runs the tasks of a stream.
thread_local constinit bool is_worker = false;

void fill_elements(void* target, const FillArgs& fill) {
  if (fill.width == 1) {
    std::memset(target, static_cast<int>(fill.pattern & 0xff), fill.count);
    return;
  }
  auto* bytes = static_cast<std::byte*>(target);
  for (std::size_t i = 0; i < fill.count; ++i)
    std::memcpy(bytes + i * fill.width, &fill.pattern, fill.width);  // little-endian machines only
}

}  // namespace

bool on_worker() noexcept { return is_worker; }

Status refuse_on_worker(const char* what) {
  if (!is_worker) [[likely]]
    return {};
  return Status(
      Code::not_permitted,
      std::string(what) + " called from a host function or a kernel would wait for itself");
}

Status Stream::submit(std::uint32_t epoch, Task::Kind kind, const Kernel& kernel,
                      const Params& params, Point& done, PeerMemory peer) {
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
      try {
        std::thread([this] { work(); }).detach();  // streams live as long as the process
      } catch (const std::system_error& error) {
        return Status(Code::launch_out_of_resources,
                      std::string("no thread for a simulated stream: ") + error.what());
      }
      started_ = true;
    }
    Task& task = queue_.next_slot(params);
    task.kind = kind;
    task.epoch = now;
    task.kernel = kernel;
    task.peer = peer;
    done = {&timeline_, queue_.publish(), now};
  }
  // The task is published before asleep_ is read, and the worker looks for tasks after it has set
  // asleep_ (all seq_cst): one of the two sees the other.
  const Unseen waking;  // that the worker is idle tells the caller nothing of what it has done
  if (asleep_.load() && asleep_.exchange(false)) {
    const MutexLock lock(sleeping_);
    filled_.notify_one();
  }
  return {};
}

void Stream::await(std::uint64_t number) {
  if (queue_.published() >= number) return;
  activity_.idle();
  // In a steady stream the next task is there soon: spinning briefly saves two system calls, and
  // spares the submitting thread the cost of a wake-up.
  if (spin_briefly([&] { return queue_.published() >= number; })) return;
  {
    const Unseen sleeping;
    const MutexLock lock(sleeping_);
    while (true) {
      asleep_.store(true);
      if (queue_.published() >= number) break;
      filled_.wait(sleeping_);
    }
    asleep_.store(false);
  }
  (void)queue_.published();  // seen: what was done before the task was submitted
}

void Stream::work() {
  is_worker = true;
  for (std::uint64_t done = 0;; ++done) {
    await(done + 1);
    Task& task = queue_.front(done);
    if (!run(task)) return;
    task.kernel.context = {};  // before anybody can see that the task is done
    timeline_.advance();
  }
}

bool Stream::run(const Task& task) {
  if (!machine_.health_of(device_).accepts(task.epoch)) {
    drop(task);
    return true;
  }
  if (task.kind == Task::Kind::wait) return wait(task);
  if (task.kind == Task::Kind::word_wait) {
    wait_for_word(task);
    return true;
  }
  const Scheduler::Task turn{device_, priority_.load(std::memory_order_relaxed),
                             task.kind == Task::Kind::kernel};
  bool stopping = false;
  {
    // Taking turns is no order that a program may rely on.
    const Unseen scheduling;
    machine_.scheduler->begin(turn);
    machine_.running.fetch_add(1);
    stopping = machine_.exit.stopping();
    activity_.begin(task);
  }
  const Status status = stopping ? Status() : execute(task);
  {
    const Unseen scheduling;
    machine_.running.fetch_sub(1);
    machine_.scheduler->end(turn);
  }
  if (!status.ok()) {
    machine_.health_of(device_).fail(fault_of(task, status), task.epoch);
    timeline_.drop_next(task.epoch);
  }
  return !stopping;
}

void Stream::drop(const Task& task) {
  timeline_.drop_next(task.epoch);
  if (task.kind == Task::Kind::word_write) raise_word(*task.params.as<WordArgs>().word, kWordLost);
  if (task.kind != Task::Kind::host_function) return;
  const auto& call = task.params.as<HostFunctionArgs>();
  call.destroy(call.argument);
}

bool Stream::wait(const Task& task) {
  // Nothing to run: the stream just is not ready before the point is reached.
  const Point point = task.params.as<Point>();
  if (!point.timeline->has_reached(point.value)) activity_.idle();
  Health& health = machine_.health_of(device_);
  const Timeline::Waited waited =
      point.timeline->wait(point.value, [&] { return !health.accepts(task.epoch); });
  if (waited == Timeline::Waited::exiting) return false;
  if (waited == Timeline::Waited::given_up) {
    drop(task);
  } else if (point.timeline->was_dropped(point.value, point.epoch)) {
    const int source = point.timeline->device();
    const Status cause = machine_.health_of(source).fault();
    health.fail(
        fault_of(task, Status(cause.ok() ? Code::launch_failure : cause.code(),
                              "it waits for work that cuda:" + std::to_string(source) + " dropped" +
                                  (cause.ok() ? std::string(" at a reset")
                                              : "; there " + cause.detail()))),
        task.epoch);
    timeline_.drop_next(task.epoch);
  }
  return true;
}

void Stream::wait_for_word(const Task& task) {
  const auto& args = task.params.as<WordArgs>();
  Health& health = machine_.health_of(device_);
  std::uint64_t seen = 0;
  while ((seen = args.word->load(std::memory_order_acquire)) < args.value) {
    if (!health.accepts(task.epoch)) return drop(task);
    await_change(*args.word, seen);
  }
  if (seen != kWordLost) return;
  health.fail(fault_of(task, Status(Code::launch_failure,
                                    "the other process ended, or its device faulted or was reset, "
                                    "before the work that is waited for was done")),
              task.epoch);
  timeline_.drop_next(task.epoch);
}

Status Stream::fault_of(const Task& task, const Status& status) const {
  const std::string reason = status.detail().empty() ? code_text(status.code()) : status.detail();
  // A fault is sticky. Other codes have meanings of their own for those who poll and allocate, and
  // a kernel may return any.
  const Code code = is_sticky(status.code()) ? status.code() : Code::launch_failure;
  return Status(code, "operation '" + std::string(task.kernel.name.c_str()) +
                          "' on cuda:" + std::to_string(device_) + " faulted: " + reason);
}

Status Stream::copy(const CopyArgs& copy) {
  TaskMemory memory(machine_, device_);
  void* target = nullptr;
  void* source = nullptr;
  EMBER_TRY(memory.locate(copy.target, copy.bytes, copy.target_epoch, target));
  EMBER_TRY(memory.locate(copy.source, copy.bytes, copy.source_epoch, source));
  std::memmove(target, source, copy.bytes);
  // Another device may have been reset meanwhile.
  if (machine_.epoch_of(copy.target) != copy.target_epoch ||
      machine_.epoch_of(copy.source) != copy.source_epoch)
    return Status(Code::illegal_address, "the memory's device was reset during the copy");
  return {};
}

Status Stream::execute(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kernel: {
      const DeviceLaunch launch(machine_, device_, task.peer, task.kernel.context.get(), activity_);
      return task.kernel.host.run(task.params, launch);
    }
    case Task::Kind::copy: return copy(task.params.as<CopyArgs>());
    case Task::Kind::fill: {
      const auto& fill = task.params.as<FillArgs>();
      TaskMemory memory(machine_, device_);
      void* target = nullptr;
      EMBER_TRY(memory.locate(fill.target, fill.count * fill.width, fill.epoch, target));
      fill_elements(target, fill);
      return {};
    }
    case Task::Kind::host_function: {
      const auto& call = task.params.as<HostFunctionArgs>();
      call.function(call.argument);
      call.destroy(call.argument);
      return {};
    }
    case Task::Kind::stamp: {
      const auto& stamp = task.params.as<StampArgs>();
      stamp.event->stamp(stamp.serial);
      return {};
    }
    case Task::Kind::word_write: {
      const auto& args = task.params.as<WordArgs>();
      raise_word(*args.word, args.value);
      return {};
    }
    case Task::Kind::wait:
    case Task::Kind::word_wait: break;
  }
  return {};
}

}  // namespace ember::inline v0::driver::sim
