#include "ember/runtime/event.h"

#include <cstdio>
#include <utility>

#include "ember/base/error.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {
namespace {

/// What a query answered.
bool answer(const Status& status) {
  if (status.code() == Code::not_ready) return false;
  check(status);
  return true;
}

void give_back(const driver::EventHandle& handle) noexcept {
  driver::Driver* machine = driver_if_made();
  if (machine == nullptr) return;
  // An event of a device that was reset is gone already; there is nobody to tell.
  (void)machine->event_destroy(handle);
  notify([&]() -> Activity {
    return {
        .kind = Activity::Kind::event_destroyed, .device = handle.device, .event = handle.native};
  });
}

/// A handle that graphs need, too.
struct SharedHandle {
  explicit SharedHandle(const driver::EventHandle& of) noexcept : handle(of) {}
  SharedHandle(const SharedHandle&) = delete;
  SharedHandle& operator=(const SharedHandle&) = delete;
  ~SharedHandle() { give_back(handle); }
  const driver::EventHandle handle;
};

}  // namespace

Event::Event(bool enable_timing, bool blocking, bool interprocess, bool external)
    : options_{enable_timing, blocking, interprocess}, external_(external) {
  if (enable_timing && interprocess)
    throw ValueError("Event: interprocess=True excludes enable_timing=True, got both");
}

Event::Event(Event&& other) noexcept
    : shared_(std::move(other.shared_)),
      opened_by_(std::move(other.opened_by_)),
      options_(other.options_),
      external_(other.external_),
      owner_(std::move(other.owner_)),
      handle_(std::exchange(other.handle_, {})),
      created_(std::exchange(other.created_, false)),
      recorded_(std::exchange(other.recorded_, false)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this == &other) return *this;
  destroy();
  shared_ = std::move(other.shared_);
  opened_by_ = std::move(other.opened_by_);
  options_ = other.options_;
  external_ = other.external_;
  owner_ = std::move(other.owner_);
  handle_ = std::exchange(other.handle_, {});
  created_ = std::exchange(other.created_, false);
  recorded_ = std::exchange(other.recorded_, false);
  return *this;
}

Event::~Event() { destroy(); }

void Event::destroy() noexcept {
  shared_.reset();
  opened_by_.reset();
  if (!created_) return;
  created_ = recorded_ = false;
  if (external_)
    owner_.reset();
  else
    give_back(handle_);
}

void Event::create(int device) {
  driver::Driver& machine = active_driver();
  driver::EventHandle made;
  check(machine.event_create(device, options_, made));
  if (options_.interprocess) {
    driver::IpcHandle probe;
    Status status = machine.ipc_export_event(made, probe);
    try {
      if (status.code() == Code::not_supported)
        shared_ = detail::make_shared_event();
      else
        check(status);
    } catch (...) {
      (void)machine.event_destroy(made);
      throw;
    }
  }
  handle_ = made;
  created_ = true;
  if (external_) owner_ = std::make_shared<const SharedHandle>(made);
  notify([&]() -> Activity {
    return {
        .kind = Activity::Kind::event_created, .device = handle_.device, .event = handle_.native};
  });
}

/// Whether it is captured as a node; elsewhere CUDA has the flag for that refused.
bool Event::becomes_work_on(const Stream& stream) const noexcept {
  return external_ && detail::is_capturing(stream.handle());
}

void Event::record(const Stream& stream) {
  settle_deferred();
  driver::Driver& machine = active_driver();
  if (!created_) create(stream.device_index());
  if (handle_.device != stream.device_index())
    throw Error("Event device " + std::to_string(handle_.device) +
                " does not match recording stream's device " +
                std::to_string(stream.device_index()) + ".");
  // Before the record has a number, which others would wait for in vain.
  if (shared_) refuse_captured(stream.handle(), "recording an event for other processes");
  Enqueueing call(stream.handle());
  const bool work = becomes_work_on(stream);
  check(machine.event_record(handle_, stream.handle(),
                             work ? driver::EventScope::external : driver::EventScope::internal));
  if (shared_) shared_->record(stream);
  recorded_ = true;
  const auto told = [&]() -> Activity {
    return {.kind = Activity::Kind::event_recorded, .event = handle_.native};
  };
  if (work) [[unlikely]]
    CaptureLog::note_external(stream, told(), owner_);
  else if (call.watched()) [[unlikely]]
    call.record(stream, told());
  call.done();
}

void Event::record_once(const Stream& stream) {
  if (!recorded_) record(stream);
}

void Event::wait(const Stream& stream) const {
  if (!created_) return;
  settle_deferred();
  Enqueueing call(stream.handle());
  const bool work = becomes_work_on(stream);
  if (shared_)
    shared_->wait(stream);
  else
    check(active_driver().event_wait(
        stream.handle(), handle_,
        work ? driver::EventScope::external : driver::EventScope::internal));
  const auto told = [&]() -> Activity {
    return {.kind = Activity::Kind::event_waited, .event = handle_.native};
  };
  if (work) [[unlikely]]
    CaptureLog::note_external(stream, told(), owner_);
  else if (call.watched()) [[unlikely]]
    call.record(stream, told());
  call.done();
}

bool Event::query() const {
  if (!created_) return true;
  const bool done = shared_ ? shared_->query() : answer(active_driver().event_query(handle_));
  notify([&]() -> Activity {
    return {.kind = Activity::Kind::event_queried,
            .device = handle_.device,
            .event = handle_.native,
            .done = done};
  });
  return done;
}

void Event::synchronize() const {
  if (!created_) return;
  const HostWait wait(WaitKind::event, "Event.synchronize");
  detail::told_wait(
      [&]() -> Activity { return {.device = handle_.device, .event = handle_.native}; },
      Activity::Kind::event_synchronized,
      [&] {
        if (shared_)
          shared_->synchronize();
        else
          wait.event(handle_);
      });
}

double Event::elapsed_time(const Event& end) const {
  if (!options_.timing || !end.options_.timing)
    throw ValueError("Both events must be created with argument 'enable_timing=True'.");
  if (!recorded_ || !end.recorded_)
    throw ValueError("Both events must be recorded before calculating elapsed time.");
  tell_figure_asked("elapsed_time");
  float milliseconds = 0;
  const Status status = active_driver().event_elapsed(handle_, end.handle_, milliseconds);
  if (status.code() == Code::not_ready)
    throw Error("Both events must be completed before calculating elapsed time.");
  check(status);
  return static_cast<double>(milliseconds);
}

std::optional<Device> Event::device() const noexcept {
  if (!created_) return std::nullopt;
  return Device(Device::Type::cuda, handle_.device);
}

std::string Event::str() const {
  if (!created_) return "<torch.cuda.Event uninitialized>";
  char text[64];
  std::snprintf(text, sizeof text, "<torch.cuda.Event 0x%llx>",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(native())));
  return text;
}

void Stream::wait_event(const Event& event) const { event.wait(*this); }

void Stream::record_event(Event& event) const { event.record(*this); }

Event Stream::record_event() const {
  Event event;
  event.record(*this);
  return event;
}

void Stream::wait_stream(const Stream& other) const {
  Event event;
  event.record(other);
  event.wait(*this);
}

}  // namespace ember::inline v0::cuda

namespace ember::inline v0 {

GenericEvent::GenericEvent(Device::Type type) {
  if (type != Device::Type::cuda)
    throw Error("GenericEvent: devices of type " + Device(type).str() +
                " have no streams; expected cuda");
}

}  // namespace ember::inline v0
