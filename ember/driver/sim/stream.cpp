#include "ember/driver/sim/stream.h"

#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "ember/base/spin.h"

namespace ember::driver::sim {
namespace {

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

Status Stream::submit(Task::Kind kind, const Kernel& kernel, const Params& params,
                      std::uint64_t& number) {
  if (machine_.exit.refuses()) [[unlikely]]
    return Status(Code::shutting_down, "the process is exiting, no more work is done");
  {
    const MutexLock lock(producers_);
    if (!started_) {
      try {
        std::thread([this] { work(); }).detach();  // streams live as long as the process
      } catch (const std::system_error& error) {
        return Status(Code::launch_out_of_resources,
                      std::string("no thread for a simulated stream: ") + error.what());
      }
      started_ = true;
    }
    Task& task = queue_.next_slot();
    task.kind = kind;
    task.kernel = kernel;
    task.params = params;
    number = queue_.publish();
  }
  // The task is published before asleep_ is read, and the worker looks for tasks after it has set
  // asleep_ (all seq_cst): one of the two sees the other.
  if (asleep_.load() && asleep_.exchange(false)) {
    const MutexLock lock(sleeping_);
    filled_.notify_one();
  }
  return {};
}

void Stream::await(std::uint64_t number) {
  // In a steady stream the next task is there soon: a short look saves two system calls and keeps
  // the submitting thread from paying for the wake-up.
  if (spin_briefly([&] { return queue_.published() >= number; })) return;
  const MutexLock lock(sleeping_);
  while (true) {
    asleep_.store(true);
    if (queue_.published() >= number) break;
    filled_.wait(sleeping_);
  }
  asleep_.store(false);
}

void Stream::work() {
  for (std::uint64_t done = 0;; ++done) {
    await(done + 1);
    if (!run(queue_.front(done))) return;
    timeline_.advance();
  }
}

bool Stream::run(const Task& task) {
  if (task.kind == Task::Kind::wait) {
    // Nothing to run: the stream just is not ready before the point is reached.
    const Point point = task.params.as<Point>();
    return point.timeline->wait(point.value);
  }
  Health& health = machine_.health_of(device_);
  if (health.dropping()) return true;
  const Scheduler::Task turn{device_, priority_.load(std::memory_order_relaxed),
                             task.kind == Task::Kind::kernel};
  machine_.scheduler->begin(turn);
  machine_.running.fetch_add(1);
  const bool stopping = machine_.exit.stopping();
  const Status status = stopping ? Status() : execute(task);
  machine_.running.fetch_sub(1);
  machine_.scheduler->end(turn);
  if (!status.ok()) health.fail(fault_of(task, status));
  return !stopping;
}

Status Stream::fault_of(const Task& task, const Status& status) const {
  const std::string reason = status.detail().empty() ? code_text(status.code()) : status.detail();
  // A fault is sticky. Other codes have meanings of their own for those who poll and allocate, and
  // a kernel may return any.
  const Code code = is_sticky(status.code()) ? status.code() : Code::launch_failure;
  return Status(code, "operation '" + std::string(task.kernel.name) +
                          "' on cuda:" + std::to_string(device_) + " faulted: " + reason);
}

Status Stream::execute(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kernel: {
      const DeviceLaunch launch(machine_, device_);
      return task.kernel.host(task.params, launch);
    }
    case Task::Kind::copy: {
      const auto& copy = task.params.as<CopyArgs>();
      const Arena& arena = machine_.arena;
      void* target = arena.owner(copy.target) < 0 ? copy.target : arena.backing(copy.target);
      const void* source = arena.owner(copy.source) < 0 ? copy.source : arena.backing(copy.source);
      std::memmove(target, source, copy.bytes);
      return {};
    }
    case Task::Kind::fill: {
      const auto& fill = task.params.as<FillArgs>();
      const bool on_device = machine_.arena.owner(fill.target) >= 0;
      fill_elements(on_device ? machine_.arena.backing(fill.target) : fill.target, fill);
      return {};
    }
    case Task::Kind::host_function: {
      const auto& call = task.params.as<HostFunctionArgs>();
      call.function(call.argument);
      return {};
    }
    case Task::Kind::stamp: {
      const auto& stamp = task.params.as<StampArgs>();
      stamp.event->stamp(stamp.serial);
      return {};
    }
    case Task::Kind::wait: break;
  }
  return {};
}

}  // namespace ember::driver::sim
