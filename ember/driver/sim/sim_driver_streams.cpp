// Streams, events and work of the simulated driver.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "ember/driver/sim/host_guard.h"
#include "ember/driver/sim/sim_driver.h"

namespace ember::inline v0::driver::sim {
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

Status not_captured(const char* done) {
  return Status(Code::illegal_state, std::string("an event was to be ") + done +
                                         " by a graph on a stream that is part of no capture");
}

/// Whose work a wait is for: on a default stream, that of the moment.
std::uint32_t epoch_waited_for(const StreamHandle& handle, const Point& tail) {
  return handle.epoch != kAnyEpoch ? handle.epoch : tail.epoch;
}

}  // namespace

// A reset in this very moment has taken the handle out of its table.
template <class Handle>
Status SimDriver::not_found(const char* what, const Handle& handle) noexcept {
  return handle.epoch != device_epoch(handle.device) ? from_before_reset(what, handle.device)
                                                     : foreign(what, handle.native, handle.device);
}

Status SimDriver::find(StreamHandle handle, Stream*& out) noexcept {
  EMBER_TRY(check_device(handle.device));
  DeviceState& device = at(handle.device);
  const bool is_default = handle.native == nullptr;
  if (handle.epoch != machine_.health_of(handle.device).epoch() &&
      !(is_default && handle.epoch == kAnyEpoch))
    return from_before_reset("stream", handle.device);
  if (is_default) {
    out = &device.default_stream;
    return {};
  }
  Stream* stream = streams_.find(handle.native);
  if (stream == nullptr || stream->device() != handle.device) return not_found("stream", handle);
  out = stream;
  return {};
}

Status SimDriver::enter(StreamHandle handle, Stream*& out) noexcept {
  EMBER_TRY(find(handle, out));
  return enter(handle.device);
}

// The device is lost in the moment of a call, which is refused like those that follow.
Status SimDriver::enter(StreamHandle handle, Fault::What call, Stream*& out) noexcept {
  EMBER_TRY(enter(handle, out));
  if (machine_.faults.loses(handle.device)) [[unlikely]] {
    Health& health = machine_.health_of(handle.device);
    health.fail(Status(Code::launch_failure, device_name(handle.device) +
                                                 " fell off the bus, on request (lost in "
                                                 "EMBER_SIM_FAULTS)"),
                health.epoch());
    return health.fault();
  }
  return machine_.faults.next(call);
}

Status SimDriver::find(EventHandle handle, Event*& out) noexcept {
  EMBER_TRY(check_device(handle.device));
  if (handle.epoch != machine_.health_of(handle.device).epoch())
    return from_before_reset("event", handle.device);
  Event* event = events_.find(handle.native);
  if (event == nullptr || event->device() != handle.device) return not_found("event", handle);
  out = event;
  return {};
}

Status SimDriver::enter(EventHandle handle, Event*& out) noexcept {
  EMBER_TRY(find(handle, out));
  return enter(handle.device);
}

// A reset that came while the handle was made may not have found it.
template <class Table, class Handle>
Status SimDriver::keep_unless_reset(const char* what, Table& table, const Handle& made,
                                    Handle& out) noexcept {
  if (device_epoch(made.device) != made.epoch) {
    table.release(made.native);
    return from_before_reset(what, made.device);
  }
  out = made;
  return {};
}

Status SimDriver::stream_priorities(int device, PriorityRange& out) noexcept {
  EMBER_TRY(check_device(device));
  out = {0, -5};  // as on Hopper
  return {};
}

Status SimDriver::stream_create(int device, int priority, StreamHandle& out) noexcept {
  EMBER_TRY(enter(device));
  EMBER_TRY(machine_.faults.next(Fault::What::stream));
  DeviceState& state = at(device);
  void* native = nullptr;
  bool is_new = false;
  const std::uint32_t epoch = device_epoch(device);
  Stream* stream = streams_.acquire(
      native, [&](const Stream& idle) { return idle.device() == device; },
      [&] {
        is_new = true;
        return std::make_unique<Stream>(machine_, device);
      },
      [&](Stream& chosen) { chosen.begin_life(epoch, std::clamp(priority, -5, 0)); });
  if (stream == nullptr)
    return Status(Code::launch_out_of_resources, "too many streams in the process");
  stream->call(native);
  if (is_new) {
    const MutexLock lock(state.mutex);
    state.streams.push_back(stream);
  }
  return keep_unless_reset("stream", streams_, StreamHandle{native, device, epoch}, out);
}

Status SimDriver::stream_destroy(StreamHandle handle) noexcept {
  if (handle.native == nullptr)
    return Status(Code::invalid_handle,
                  "the default stream of " + device_name(handle.device) + " cannot be destroyed");
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, stream));
  stream->hand_over();
  captures_.forget(*stream);
  streams_.release(handle.native);
  return {};
}

Status SimDriver::stream_query(StreamHandle handle) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(refuse_in_capture(*stream, "querying a stream"));
  const Point tail = stream->tail();
  if (!query(tail)) return Code::not_ready;
  return outcome(handle.device, epoch_waited_for(handle, tail));
}

Status SimDriver::stream_synchronize(StreamHandle handle) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(refuse_on_worker("synchronizing a stream"));
  EMBER_TRY(refuse_in_capture(*stream, "synchronizing a stream"));
  const Point tail = stream->tail();
  return await(tail, handle.device, epoch_waited_for(handle, tail));
}

Status SimDriver::event_create(int device, EventOptions options, EventHandle& out) noexcept {
  EMBER_TRY(enter(device));
  if (options.interprocess && options.timing)
    return Status(Code::invalid_value, "an interprocess event cannot have timing");
  EMBER_TRY(machine_.faults.next(Fault::What::event));
  void* native = nullptr;
  const std::uint32_t epoch = device_epoch(device);
  Event* event = events_.acquire(
      native, [](const Event&) { return true; }, [] { return std::make_unique<Event>(); },
      [&](Event& chosen) { chosen.open(device, epoch, options); });
  if (event == nullptr)
    return Status(Code::launch_out_of_resources, "too many events in the process");
  return keep_unless_reset("event", events_, EventHandle{native, device, epoch}, out);
}

Status SimDriver::event_destroy(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(find(handle, event));
  events_.release(handle.native);
  return {};
}

Status SimDriver::event_record(EventHandle handle, StreamHandle on, EventScope scope) noexcept {
  Event* event = nullptr;
  Stream* stream = nullptr;
  EMBER_TRY(find(handle, event));
  EMBER_TRY(enter(on, stream));
  if (handle.device != on.device)
    return Status(Code::invalid_handle, "an event of " + device_name(handle.device) +
                                            " cannot be recorded on a stream of " +
                                            device_name(on.device));
  const auto set = [&](const auto& what) {
    return event->set(handle, what) ? Status() : from_before_reset("event", handle.device);
  };
  if (scope == EventScope::external) {
    if (!stream->capturing()) return not_captured("recorded");
    return captures_.add(*stream, Task::Kind::stamp, {"event record"}, Params(), {}, handle);
  }
  if (stream->capturing()) [[unlikely]] {
    std::shared_ptr<const CaptureMark> mark;
    EMBER_TRY(captures_.mark(*stream, mark));
    return set(mark);
  }
  if (!event->options().timing) return set(stream->tail());
  Point done;
  const StampArgs stamp{event, event->next_serial(handle)};
  if (stamp.serial == 0) return from_before_reset("event", handle.device);
  if (Status status =
          stream->submit(on.epoch, Task::Kind::stamp, {"event record"}, Params(stamp), done);
      !status.ok()) {
    event->withdraw(stamp.serial);
    return status;
  }
  return set(done);
}

Status SimDriver::event_wait(StreamHandle handle, EventHandle on, EventScope scope) noexcept {
  Stream* stream = nullptr;
  Event* event = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(enter(on, event));
  if (scope == EventScope::external) {
    if (!stream->capturing()) return not_captured("waited for");
    return captures_.add(*stream, Task::Kind::wait, {"event wait"}, Params(), {}, on);
  }
  Event::Record record;
  if (!event->read(on, record)) return from_before_reset("event", on.device);
  if (record.captured && handle.native == nullptr)
    return captures_.refuse(*record.captured, "letting a default stream wait for an event");
  if (record.captured || (stream->capturing() && record.made)) [[unlikely]]
    return captures_.wait(*stream, handle.epoch, record.captured.get());
  const Point point = record.point;
  if (point.timeline == nullptr || point.timeline == &stream->timeline()) return {};
  // What is done need not be waited for, unless the thread sanitizer is to see the order, a seed
  // decides, under which a program enqueues the same whatever is done by then, or the wait is to
  // pass on that it was not done but dropped.
  if (!kThreadSanitizer && machine_.executor->concurrent() && point.reached() &&
      !point.timeline->was_dropped(point.value, point.epoch)) {
    stream->follow(point);
    return {};
  }
  Point done;
  return stream->submit(handle.epoch, Task::Kind::wait, {"event wait"}, Params(point), done);
}

Status SimDriver::refuse_in_capture(const Stream& stream, const char* what) {
  if (!captures_.any()) [[likely]]
    return {};
  if (stream.capturing()) EMBER_TRY(captures_.refuse(stream, what));
  return captures_.refuse_unsafe(what);
}

Status SimDriver::refuse_in_capture(const Event::Record& record, const char* what) {
  if (record.captured) [[unlikely]]
    return captures_.refuse(*record.captured, what);
  return captures_.refuse_unsafe(what);
}

Status SimDriver::event_query(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(enter(handle, event));
  Event::Record record;
  if (!event->read(handle, record)) return from_before_reset("event", handle.device);
  EMBER_TRY(refuse_in_capture(record, "querying an event"));
  if (!query(record.point)) return Code::not_ready;
  return outcome(handle.device, handle.epoch);
}

Status SimDriver::event_synchronize(EventHandle handle) noexcept {
  Event* event = nullptr;
  EMBER_TRY(enter(handle, event));
  EMBER_TRY(refuse_on_worker("synchronizing an event"));
  Event::Record record;
  if (!event->read(handle, record)) return from_before_reset("event", handle.device);
  EMBER_TRY(refuse_in_capture(record, "synchronizing an event"));
  return await(record.point, handle.device, handle.epoch);
}

Status SimDriver::event_elapsed(EventHandle start, EventHandle end, float& milliseconds) noexcept {
  Event* from = nullptr;
  Event* to = nullptr;
  EMBER_TRY(enter(start, from));
  EMBER_TRY(enter(end, to));
  if (start.device != end.device)
    return Status(Code::invalid_handle, "events of " + device_name(start.device) + " and " +
                                            device_name(end.device) + " have no common clock");
  Event::Record first;
  Event::Record last;
  if (!from->read(start, first) || !to->read(end, last))
    return from_before_reset("event", start.device);
  for (const Event::Record* record : {&first, &last})
    if (record->captured) return captures_.refuse(*record->captured, "timing an event");
  if (!from->options().timing || !to->options().timing || !first.made || !last.made)
    return Status(Code::invalid_handle, "both events must have timing and must have been recorded");
  // Where a seed decides, that answer lets a task run, as that of a query does.
  for (const Event::Record* record : {&first, &last})
    if (!record->point.reached()) {
      (void)query(record->point);
      return Code::not_ready;
    }
  first.point.see();
  last.point.see();
  milliseconds = std::chrono::duration<float, std::milli>(last.stamp - first.stamp).count();
  return {};
}

Status SimDriver::record_launches(int count, StackNumber stack) noexcept {
  machine_.stack.store(stack);
  machine_.recorded.store(count);
  return {};
}

Status SimDriver::recent_launches(int device, std::vector<RecentLaunch>& out) noexcept {
  EMBER_TRY(check_device(device));
  out.clear();
  if (machine_.recorded.load() == 0) return {};
  for (Stream* stream : streams_of(device)) {
    const std::vector<RecentLaunch> recent = stream->recent();
    out.insert(out.end(), recent.begin(), recent.end());
  }
  return {};
}

Status SimDriver::check_peer(PeerMemory peer) const noexcept {
  if (peer.device == -1) return {};
  EMBER_TRY(check_device(peer.device));
  if (peer.epoch == kAnyEpoch || peer.epoch == machine_.health_of(peer.device).epoch()) return {};
  return from_before_reset("memory", peer.device);
}

Status SimDriver::launch(StreamHandle handle, const Kernel& kernel, const Params& params,
                         PeerMemory peer) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, Fault::What::launch, stream));
  EMBER_TRY(check_peer(peer));
  if (params.size() > Params::kCapacity) return too_large(params);
  if (kernel.host == nullptr)
    return Status(Code::not_supported,
                  "kernel '" + std::string(kernel.name.c_str()) +
                      "' has no host implementation, which simulated devices run");
  if (stream->capturing()) [[unlikely]]
    return capture_work(*stream, Task::Kind::kernel, kernel, params, peer);
  Point done;
  return stream->submit(handle.epoch, Task::Kind::kernel, kernel, params, done, peer, take_times(),
                        machine_.faults.next_kernel(), holds());
}

// ---- Batches

namespace {

thread_local constinit bool in_batch = false;

}  // namespace

// Note [Batches of simulated devices]
//
// A stream's tasks are appended as ever, with the same numbers, but the executor does not see them
// before they are handed over. Whoever submits something else appends behind them, which publishes
// them, too; and whoever waits, asks or orders by events asks for the stream's tail, which hands
// over first. Those two places are all there is: what asks for neither depends on nothing that the
// stream holds.
//
// Where a seed decides nothing is held: it may start each task as late as it likes anyway.
bool SimDriver::holds() const noexcept {
  return in_batch && seeded_ == nullptr && machine_.recorded.load(std::memory_order_relaxed) == 0;
}

Status SimDriver::batch_begin() noexcept {
  in_batch = true;
  return {};
}

Status SimDriver::batch_end() noexcept {
  in_batch = false;
  for (int device = 0; device < device_count(); ++device)
    for (Stream* const stream : streams_of(device)) stream->hand_over();
  return {};
}

Status SimDriver::launch_needs(const Kernel& kernel, const Params& params,
                               KernelNeeds& out) noexcept {
  return kernel.host.ask(params, out);
}

Status SimDriver::classify(const StreamHandle& handle, PeerMemory peer, const char* argument,
                           const void* pointer, std::size_t bytes, Place& out) const {
  Place place;
  place.owner = machine_.arena.owner(pointer);
  if (place.owner >= 0) {
    place.kind = PointerInfo::Kind::device;
    place.epoch = place.owner == handle.device ? handle.epoch
                  : place.owner == peer.device ? peer.epoch
                                               : kAnyEpoch;
    // Before the memory is looked for: what is found then is of that epoch, or the device has left
    // it.
    if (place.epoch == kAnyEpoch) place.epoch = machine_.health_of(place.owner).epoch();
  } else {
    place.kind = machine_.pinned.contains(pointer, bytes) ? PointerInfo::Kind::pinned
                                                          : PointerInfo::Kind::unregistered;
  }
  if (pointer == nullptr || (place.owner >= 0 && !machine_.arena.contains(pointer, bytes))) {
    if (place.owner >= 0) EMBER_TRY(check_peer({place.owner, place.epoch}));
    char text[160];
    std::snprintf(text, sizeof text, "%s %p: expected %zu bytes within one allocation", argument,
                  pointer, bytes);
    return Status(Code::invalid_value, text);
  }
  out = place;
  return {};
}

std::uint32_t SimDriver::epoch_for(const StreamHandle& handle, const Place& a, const Place& b) {
  if (handle.epoch != kAnyEpoch) return handle.epoch;
  if (a.owner == handle.device) return a.epoch;
  return b.owner == handle.device ? b.epoch : kAnyEpoch;
}

Status SimDriver::copy(StreamHandle handle, void* target, const void* source, std::size_t bytes,
                       PeerMemory peer) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, Fault::What::copy, stream));
  EMBER_TRY(check_peer(peer));
  if (bytes == 0) return {};
  Place to;
  Place from;
  EMBER_TRY(classify(handle, peer, "copy target", target, bytes, to));
  EMBER_TRY(classify(handle, peer, "copy source", source, bytes, from));
  if (to.owner >= 0 && from.owner >= 0 && to.owner != from.owner)
    EMBER_TRY(machine_.faults.next(Fault::What::peer));
  const std::uint32_t epoch = epoch_for(handle, to, from);
  WorkTimes* const times =
      take_times();  // before a wait, in which this thread may run others' work
  // Ordinary memory may be gone or changed once the caller goes on.
  const bool waits =
      to.kind == PointerInfo::Kind::unregistered || from.kind == PointerInfo::Kind::unregistered;
  const CopyArgs args{target, source, bytes, to.epoch, from.epoch};
  if (stream->capturing()) [[unlikely]] {
    if (waits) return captures_.refuse(*stream, "a copy from or to host memory that is not pinned");
    return capture_work(*stream, Task::Kind::copy, {"copy"}, Params(args));
  }
  if (waits) {
    EMBER_TRY(refuse_on_worker("a copy from or to memory that is not pinned"));
    // The long part of the wait comes first, since the user may interrupt it; the copy itself is
    // not to be left behind with memory that the caller gives back.
    const Point tail = stream->tail();
    EMBER_TRY(await(tail, handle.device, epoch == kAnyEpoch ? tail.epoch : epoch));
  }
  if (!waits)
    host_guard::begin(args, to.kind == PointerInfo::Kind::pinned,
                      from.kind == PointerInfo::Kind::pinned, *stream, handle.native);
  Point done;
  const Status submitted =
      stream->submit(epoch, Task::Kind::copy, {"copy"}, Params(args), done, {}, times);
  if (!submitted.ok()) host_guard::end(args, *stream);
  EMBER_TRY(submitted);
  if (!waits) return {};
  if (machine_.executor->wait(done) != Timeline::Waited::reached) return Code::shutting_down;
  if (done.timeline->was_dropped(done.value, done.epoch)) return outcome(handle.device, done.epoch);
  return machine_.health_of(handle.device).fault();
}

Status SimDriver::fill(StreamHandle handle, void* target, std::uint32_t pattern, unsigned width,
                       std::size_t count) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, Fault::What::fill, stream));
  if (width != 1 && width != 2 && width != 4)
    return Status(Code::invalid_value,
                  "fill width is " + std::to_string(width) + ", expected 1, 2 or 4");
  if (count == 0) return {};
  Place place;
  if (reinterpret_cast<std::uintptr_t>(target) % width != 0) {
    char text[96];
    std::snprintf(text, sizeof text, "fill target is %p, expected a multiple of the width, %u",
                  target, width);
    return Status(Code::invalid_value, text);
  }
  if (count > (std::size_t{1} << 60))
    return Status(Code::invalid_value,
                  "fill count is " + std::to_string(count) + ", expected at most 2^60");
  EMBER_TRY(classify(handle, {}, "fill target", target, count * width, place));
  if (place.kind == PointerInfo::Kind::unregistered) {
    char text[96];
    std::snprintf(text, sizeof text, "fill target %p is not memory that a device can reach",
                  target);
    return Status(Code::invalid_value, text);
  }
  const FillArgs args{target, count, place.epoch, pattern, width};
  if (stream->capturing()) [[unlikely]]
    return capture_work(*stream, Task::Kind::fill, {"fill"}, Params(args));
  Point done;
  return stream->submit(epoch_for(handle, place, {}), Task::Kind::fill, {"fill"}, Params(args),
                        done, {}, take_times());
}

Status SimDriver::host_function(StreamHandle handle, void (*function)(void*),
                                void (*destroy)(void*), void* argument) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, Fault::What::host, stream));
  if (function == nullptr || destroy == nullptr)
    return Status(Code::invalid_value, "host_function: null, expected a function");
  const HostFunctionArgs args{function, destroy, argument};
  if (stream->capturing()) [[unlikely]]
    return capture_work(*stream, Task::Kind::host_function, {"host function"}, Params(args));
  Point done;
  return stream->submit(handle.epoch, Task::Kind::host_function, {"host function"}, Params(args),
                        done, {}, take_times());
}

// ---- Times of work

namespace {
thread_local constinit WorkTimes* next_times = nullptr;
}  // namespace

std::int64_t SimDriver::now() noexcept { return clock_time(machine_.executor->unbroken_now()); }

Status SimDriver::time_next(StreamHandle, WorkTimes* times) noexcept {
  next_times = times;
  if (times != nullptr) timed_.store(true, std::memory_order_relaxed);
  return {};
}

WorkTimes* SimDriver::take_times() noexcept {
  if (!timed_.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  return std::exchange(next_times, nullptr);
}

}  // namespace ember::inline v0::driver::sim
