#include "ember/runtime/stream.h"

#include <cstdio>

#include "ember/base/error.h"
#include "ember/base/thread_exit.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {

namespace detail {

thread_local constinit ThreadState* this_thread = nullptr;

ThreadState& make_thread_state() {
  const int devices = count_devices();
  ThreadState& state = PerThread<ThreadState>::get();
  state.streams.resize(static_cast<std::size_t>(devices));
  this_thread = &state;
  return state;
}

Ref<StreamState> exchange_current(int device, Ref<StreamState> stream) {
  return std::exchange(thread_state().streams[static_cast<std::size_t>(device)], std::move(stream));
}

Ref<StreamState> current_state(int device) {
  const Ref<StreamState>& current = thread_state().streams[static_cast<std::size_t>(device)];
  return current ? current : default_state(device);
}

}  // namespace detail

Stream::Stream(DeviceArg device, int priority)
    : state_(detail::take_stream(device.existing(), priority)) {}

Stream Stream::from_id(std::int64_t stream_id, int device_index) {
  Ref<detail::StreamState> state =
      detail::find_stream(DeviceArg(device_index).existing(), stream_id);
  if (!state)
    throw Error("Stream::from_id: no live stream of device " + std::to_string(device_index) +
                " has stream_id " + std::to_string(stream_id));
  return Stream(std::move(state));
}

bool Stream::query() const {
  settle_deferred();
  // Without the stream's lock, as host functions may ask, too: nobody who holds it may wait for
  // one.
  Enqueueing call(Enqueueing::MayWait{});
  const Status status = active_driver().stream_query(handle());
  const bool done = status.code() != Code::not_ready;
  if (done) check(status);
  if (call.watched()) [[unlikely]]
    call.record(*this, {.kind = Activity::Kind::stream_queried, .done = done});
  call.done();
  return done;
}

void Stream::synchronize() const {
  const HostWait wait(WaitKind::stream, "Stream.synchronize");
  detail::told_wait(*this, [&] { wait.stream(handle()); });
}

std::pair<int, int> Stream::priority_range(DeviceArg device) {
  const driver::PriorityRange range = detail::priority_range(device.existing());
  return {range.least, range.greatest};
}

std::string Stream::str() const {
  char text[96];
  std::snprintf(text, sizeof text, "<torch.cuda.Stream device=cuda:%d cuda_stream=0x%llx>",
                device_index(),
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(native())));
  return text;
}

namespace {

Ref<detail::StreamState> external_state(void* native, int device) {
  if (native == nullptr) return detail::default_state(device);
  Ref<detail::StreamState> state = make_ref<detail::StreamState>();
  state->handle = {native, device, device_epoch(device)};
  state->id = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(native));
  return state;
}

}  // namespace

ExternalStream::ExternalStream(void* native, DeviceArg device)
    : Stream(external_state(native, device.existing())) {}

Stream current_stream(DeviceArg device) { return Stream(detail::current_state(device.existing())); }

Stream default_stream(DeviceArg device) { return Stream(detail::default_state(device.existing())); }

void* current_native_stream(int device) {
  const auto& current = detail::thread_state().streams[static_cast<std::size_t>(device)];
  return current ? current->handle.native : nullptr;
}

void set_stream(const Stream& stream) {
  detail::activate(stream.device_index());
  detail::exchange_current(stream.device_index(), stream.state_);
  detail::thread_state().device = stream.device_index();
}

}  // namespace ember::inline v0::cuda
