// Streams, events and work of the simulated driver.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "ember/driver/sim/sim_driver.h"

namespace ember::driver::sim {
namespace {

std::string device_name(int device) { return "cuda:" + std::to_string(device); }

Status foreign(const char* what, const void* native, int device) {
  char text[128];
  std::snprintf(text, sizeof text, "%p is not the handle of a live %s of cuda:%d", native, what,
                device);
  return Status(Code::invalid_handle, text);
}

Status from_before_reset(const char* what, int device) {
  return Status(Code::context_is_destroyed, std::string("the ") + what + " of " +
                                                device_name(device) +
                                                " was made before the device was reset");
}

}  // namespace

Status SimDriver::find(StreamHandle handle, Stream*& out) noexcept {
  EMBER_TRY(check_device(handle.device));
  DeviceState& device = at(handle.device);
  if (handle.native == nullptr) {
    out = &device.default_stream;
    return {};
  }
  if (handle.epoch != device.epoch.load(std::memory_order_relaxed))
    return from_before_reset("stream", handle.device);
  Stream* stream = streams_.find(handle.native);
  if (stream == nullptr || stream->device() != handle.device)
    return foreign("stream", handle.native, handle.device);
  out = stream;
  return {};
}

Status SimDriver::enter(StreamHandle handle, Stream*& out) noexcept {
  EMBER_TRY(find(handle, out));
  return enter(handle.device);
}

Status SimDriver::find(EventHandle handle, Event*& out) noexcept {
  EMBER_TRY(check_device(handle.device));
  if (handle.epoch != at(handle.device).epoch.load(std::memory_order_relaxed))
    return from_before_reset("event", handle.device);
  Event* event = events_.find(handle.native);
  if (event == nullptr || event->device() != handle.device)
    return foreign("event", handle.native, handle.device);
  out = event;
  return {};
}

Status SimDriver::enter(EventHandle handle, Event*& out) noexcept {
  EMBER_TRY(find(handle, out));
  return enter(handle.device);
}

Status SimDriver::stream_priorities(int device, PriorityRange& out) noexcept {
  EMBER_TRY(check_device(device));
  out = {0, -5};  // as on Hopper
  return {};
}

Status SimDriver::stream_create(int device, int priority, StreamHandle& out) noexcept {
  EMBER_TRY(enter(device));
  DeviceState& state = at(device);
  void* native = nullptr;
  bool is_new = false;
  Stream* stream = streams_.acquire(
      native, [&](const Stream& idle) { return idle.device() == device; },
      [&] {
        is_new = true;
        return std::make_unique<Stream>(machine_, device);
      },
      [&](Stream& chosen) { chosen.set_priority(std::clamp(priority, -5, 0)); });
  if (stream == nullptr)
    return Status(Code::launch_out_of_resources, "too many streams in the process");
  if (is_new) {
    const MutexLock lock(state.mutex);
    state.streams.push_back(stream);
  }
  out = {native, device, state.epoch};
  return {};
}

Status SimDriver::stream_destroy(StreamHandle handle) noexcept {
  if (handle.native == nullptr)
    return Status(Code::invalid_handle,
                  "the default stream of " + device_name(handle.device) + " cannot be destroyed");
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  streams_.release(handle.native);
  return {};
}

Status SimDriver::stream_query(StreamHandle handle) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (!stream->tail().reached()) return Code::not_ready;
  return machine_.health_of(handle.device).fault();
}

Status SimDriver::stream_synchronize(StreamHandle handle) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  return await(stream->tail(), handle.device);
}

Status SimDriver::event_create(int device, EventOptions options, EventHandle& out) noexcept {
  EMBER_TRY(enter(device));
  if (options.interprocess && options.timing)
    return Status(Code::invalid_value, "an interprocess event cannot have timing");
  void* native = nullptr;
  Event* event = events_.acquire(
      native, [](const Event&) { return true; }, [] { return std::make_unique<Event>(); },
      [&](Event& chosen) { chosen.open(device, options); });
  if (event == nullptr)
    return Status(Code::launch_out_of_resources, "too many events in the process");
  out = {native, device, at(device).epoch};
  return {};
}

Status SimDriver::event_destroy(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(find(handle, event));
  events_.release(handle.native);
  return {};
}

Status SimDriver::event_record(EventHandle handle, StreamHandle on, EventScope) noexcept {
  Event* event = nullptr;
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, event));
  EMBER_TRY(enter(on, stream));
  if (handle.device != on.device)
    return Status(Code::invalid_handle, "an event of " + device_name(handle.device) +
                                            " cannot be recorded on a stream of " +
                                            device_name(on.device));
  if (!event->options().timing) {
    event->set(stream->tail());
    return {};
  }
  std::uint64_t number = 0;
  const StampArgs stamp{event, event->next_serial()};
  if (Status status = stream->submit(Task::Kind::stamp, {"event record"}, Params(stamp), number);
      !status.ok()) {
    event->withdraw(stamp.serial);
    return status;
  }
  event->set({&stream->timeline(), number});
  return {};
}

Status SimDriver::event_wait(StreamHandle handle, EventHandle on, EventScope) noexcept {
  Stream* stream = nullptr;
  Event* event = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(enter(on, event));
  const Point point = event->record().point;
  if (point.reached() || point.timeline == &stream->timeline()) return {};
  std::uint64_t number = 0;
  return stream->submit(Task::Kind::wait, {"event wait"}, Params(point), number);
}

Status SimDriver::event_query(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(enter(handle, event));
  if (!event->record().point.reached()) return Code::not_ready;
  return machine_.health_of(handle.device).fault();
}

Status SimDriver::event_synchronize(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(enter(handle, event));
  return await(event->record().point, handle.device);
}

Status SimDriver::event_elapsed(EventHandle start, EventHandle end, float& milliseconds) noexcept {
  Event* from = nullptr;
  Event* to = nullptr;
  EMBER_TRY(enter(start, from));
  EMBER_TRY(enter(end, to));
  if (start.device != end.device)
    return Status(Code::invalid_handle, "events of " + device_name(start.device) + " and " +
                                            device_name(end.device) + " have no common clock");
  const Event::Record first = from->record();
  const Event::Record last = to->record();
  if (!from->options().timing || !to->options().timing || !first.made || !last.made)
    return Status(Code::invalid_handle, "both events must have timing and must have been recorded");
  if (!first.point.reached() || !last.point.reached()) return Code::not_ready;
  milliseconds = std::chrono::duration<float, std::milli>(last.stamp - first.stamp).count();
  return {};
}

Status SimDriver::launch(StreamHandle handle, const Kernel& kernel, const Params& params) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (kernel.host == nullptr)
    return Status(Code::not_supported, "kernel '" + std::string(kernel.name) +
                                           "' has no host column, which simulated devices run");
  std::uint64_t number = 0;
  return stream->submit(Task::Kind::kernel, kernel, params, number);
}

Status SimDriver::classify(const char* argument, const void* pointer, std::size_t bytes,
                           PointerInfo::Kind& out) const {
  const bool on_device = machine_.arena.owner(pointer) >= 0;
  if (pointer == nullptr || (on_device && !machine_.arena.contains(pointer, bytes))) {
    char text[160];
    std::snprintf(text, sizeof text, "%s %p: expected %zu bytes within one allocation", argument,
                  pointer, bytes);
    return Status(Code::invalid_value, text);
  }
  out = on_device                                  ? PointerInfo::Kind::device
        : machine_.pinned.contains(pointer, bytes) ? PointerInfo::Kind::pinned
                                                   : PointerInfo::Kind::unregistered;
  return {};
}

Status SimDriver::copy(StreamHandle handle, void* target, const void* source,
                       std::size_t bytes) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (bytes == 0) return {};
  PointerInfo::Kind to{};
  PointerInfo::Kind from{};
  EMBER_TRY(classify("copy target", target, bytes, to));
  EMBER_TRY(classify("copy source", source, bytes, from));
  std::uint64_t number = 0;
  EMBER_TRY(
      stream->submit(Task::Kind::copy, {"copy"}, Params(CopyArgs{target, source, bytes}), number));
  // Ordinary memory may be gone or changed once the caller goes on.
  if (to == PointerInfo::Kind::unregistered || from == PointerInfo::Kind::unregistered) {
    return await({&stream->timeline(), number}, handle.device);
  }
  return {};
}

Status SimDriver::copy_peer(StreamHandle handle, void* target, int target_device,
                            const void* source, int source_device, std::size_t bytes) noexcept {
  EMBER_TRY(enter(target_device));
  EMBER_TRY(enter(source_device));
  if (bytes != 0 && (machine_.arena.owner(target) != target_device ||
                     machine_.arena.owner(source) != source_device)) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "copy_peer: target %p and source %p are not memory of cuda:%d and cuda:%d",
                  target, source, target_device, source_device);
    return Status(Code::invalid_value, text);
  }
  return copy(handle, target, source, bytes);
}

Status SimDriver::fill(StreamHandle handle, void* target, std::uint32_t pattern, unsigned width,
                       std::size_t count) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (width != 1 && width != 2 && width != 4)
    return Status(Code::invalid_value,
                  "fill width is " + std::to_string(width) + ", expected 1, 2 or 4");
  if (count == 0) return {};
  PointerInfo::Kind kind{};
  if (reinterpret_cast<std::uintptr_t>(target) % width != 0) {
    char text[96];
    std::snprintf(text, sizeof text, "fill target is %p, expected a multiple of the width, %u",
                  target, width);
    return Status(Code::invalid_value, text);
  }
  if (count > (std::size_t{1} << 60))
    return Status(Code::invalid_value,
                  "fill count is " + std::to_string(count) + ", expected at most 2^60");
  EMBER_TRY(classify("fill target", target, count * width, kind));
  if (kind == PointerInfo::Kind::unregistered) {
    char text[96];
    std::snprintf(text, sizeof text, "fill target %p is not memory that a device can reach",
                  target);
    return Status(Code::invalid_value, text);
  }
  std::uint64_t number = 0;
  return stream->submit(Task::Kind::fill, {"fill"}, Params(FillArgs{target, pattern, width, count}),
                        number);
}

Status SimDriver::host_function(StreamHandle handle, void (*function)(void*),
                                void* argument) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  if (function == nullptr)
    return Status(Code::invalid_value, "host_function: null, expected a function");
  std::uint64_t number = 0;
  return stream->submit(Task::Kind::host_function, {"host function"},
                        Params(HostFunctionArgs{function, argument}), number);
}

}  // namespace ember::driver::sim
