#include "ember/driver/sim/task_work.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "ember/driver/sim/host_guard.h"
#include "ember/driver/simulation.h"
#include "ember/driver/words.h"

namespace ember::inline v0::driver::sim {
namespace {

/// Where a seed decides, time is a clock of the run's own, and nothing runs meanwhile.
void pause(const Machine& machine, std::uint32_t milliseconds) {
  if (milliseconds != 0 && machine.executor->concurrent())
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void fill_elements(void* target, const FillArgs& fill) {
  if (fill.width == 1) {
    std::memset(target, static_cast<int>(fill.pattern & 0xff), fill.count);
    return;
  }
  auto* bytes = static_cast<std::byte*>(target);
  for (std::size_t i = 0; i < fill.count; ++i)
    std::memcpy(bytes + i * fill.width, &fill.pattern, fill.width);  // little-endian machines only
}

/// Copies between two devices with peer access may be asked to arrive with wrong bytes; those that
/// go through the host do not.
void lie_if_asked(Machine& machine, const CopyArgs& copy, void* target) {
  const int to = machine.arena.owner(copy.target);
  const int from = machine.arena.owner(copy.source);
  if (to < 0 || from < 0 || to == from) return;
  if (!machine.may_access(to, from) && !machine.may_access(from, to)) return;
  if (!machine.faults.lies(to, from)) return;
  auto* bytes = static_cast<unsigned char*>(target);
  for (std::size_t i = 0; i < copy.bytes; ++i) bytes[i] ^= 0x5a;
}

Status copy_bytes(Machine& machine, int device, const CopyArgs& copy) {
  TaskMemory memory(machine, device);
  void* target = nullptr;
  void* source = nullptr;
  EMBER_TRY(
      memory.locate(copy.target, copy.bytes, copy.target_epoch, TaskMemory::Use::writes, target));
  EMBER_TRY(
      memory.locate(copy.source, copy.bytes, copy.source_epoch, TaskMemory::Use::reads, source));
  std::memmove(target, source, copy.bytes);
  lie_if_asked(machine, copy, target);
  // Another device may have been reset meanwhile.
  if (machine.epoch_of(copy.target) != copy.target_epoch ||
      machine.epoch_of(copy.source) != copy.source_epoch)
    return Status(Code::illegal_address, "the memory's device was reset during the copy");
  return {};
}

/// execute(), but for exceptions.
Status do_task(Machine& machine, Stream& stream, const Task& task, WorkerActivity& activity,
               Traffic* traffic) {
  const int device = stream.device();
  switch (task.kind) {
    case Task::Kind::kernel: {
      const DeviceLaunch launch(machine, device, task.peer, task.kernel.context.get(), activity,
                                traffic);
      const Trouble trouble = task.trouble;
      pause(machine, trouble.slow);
      Status status = trouble.fails
                          ? Status(Code::launch_failure, "on request (kernel in EMBER_SIM_FAULTS)")
                          : task.kernel.host.run(task.params, launch);
      pause(machine, trouble.late);
      return status;
    }
    case Task::Kind::copy:
      host_guard::end(task.params.as<CopyArgs>(), stream);
      return copy_bytes(machine, device, task.params.as<CopyArgs>());
    case Task::Kind::fill: {
      const auto& fill = task.params.as<FillArgs>();
      TaskMemory memory(machine, device);
      void* target = nullptr;
      EMBER_TRY(memory.locate(fill.target, fill.count * fill.width, fill.epoch,
                              TaskMemory::Use::writes, target));
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
      stamp.event->stamp(stamp.serial, machine.executor->now());
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

}  // namespace

Status execute(Machine& machine, Stream& stream, const Task& task, WorkerActivity& activity,
               Traffic* traffic) {
  try {
    return do_task(machine, stream, task, activity, traffic);
  } catch (...) {
    const std::string line = simulated_replay_line();
    std::fprintf(stderr, "ember: an exception left operation '%s' on cuda:%d%s%s\n",
                 task.kernel.name.c_str(), stream.device(), line.empty() ? "" : "; the run is ",
                 line.c_str());
    std::terminate();  // within the handler: it says which exception
  }
}

Status copy_part(Machine& machine, Stream& stream, const Task& task, std::size_t from,
                 std::size_t to) {
  CopyArgs copy = task.params.as<CopyArgs>();
  host_guard::end(copy, stream);
  copy.target = static_cast<std::byte*>(copy.target) + from;
  copy.source = static_cast<const std::byte*>(copy.source) + from;
  copy.bytes = to - from;
  return copy_bytes(machine, stream.device(), copy);
}

void fail(Machine& machine, Stream& stream, const Task& task, const Status& status) {
  const std::string reason = status.detail().empty() ? code_text(status.code()) : status.detail();
  // A fault is sticky. Other codes have meanings of their own for those who poll and allocate, and
  // a kernel may return any.
  const Code code = is_sticky(status.code()) ? status.code() : Code::launch_failure;
  machine.health_of(stream.device())
      .fail(Status(code, "operation '" + std::string(task.kernel.name.c_str()) + "' on cuda:" +
                             std::to_string(stream.device()) + " faulted: " + reason + "; it is " +
                             stream.place_of(stream.timeline().reached() + 1)),
            task.epoch);
  stream.timeline().drop_next(task.epoch);
}

void drop(Stream& stream, const Task& task) {
  stream.timeline().drop_next(task.epoch);
  if (task.times) [[unlikely]]
    task.times->dropped();
  if (task.kind == Task::Kind::copy) host_guard::end(task.params.as<CopyArgs>(), stream);
  if (task.kind == Task::Kind::word_write) raise_word(*task.params.as<WordArgs>().word, kWordLost);
  if (task.kind != Task::Kind::host_function) return;
  const auto& call = task.params.as<HostFunctionArgs>();
  call.destroy(call.argument);
}

void pass_points(Machine& machine, Stream& stream, const Task& task) {
  for (const Point& point : task.points()) {
    if (!point.timeline->was_dropped(point.value, point.epoch)) continue;
    const int source = point.timeline->device();
    const Status cause = machine.health_of(source).fault();
    return fail(
        machine, stream, task,
        Status(cause.ok() ? Code::launch_failure : cause.code(),
               "it waits for work that cuda:" + std::to_string(source) + " dropped" +
                   (cause.ok() ? std::string(" at a reset") : "; there " + cause.detail())));
  }
}

void pass_word(Machine& machine, Stream& stream, const Task& task, std::uint64_t seen) {
  if (seen != kWordLost) return;
  fail(
      machine, stream, task,
      Status(Code::launch_failure,
             "the other process ended, or its device faulted or was reset, before the work that is "
             "waited for was done"));
}

}  // namespace ember::inline v0::driver::sim
