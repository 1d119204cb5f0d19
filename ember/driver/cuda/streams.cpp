// Streams and events.
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

CUstream to_cuda(StreamHandle stream) { return static_cast<CUstream>(stream.native); }
CUevent to_cuda(EventHandle event) { return static_cast<CUevent>(event.native); }

std::string text(StreamHandle stream) {
  return stream_text(stream.native) + " of " + device_text(stream.device);
}
std::string text(EventHandle event) {
  return "event " + address_text(event.native) + " of " + device_text(event.device);
}

}  // namespace

// ---- Streams

Status CudaDriver::stream_priorities(int device, PriorityRange& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  PriorityRange range;
  EMBER_TRY(on->outcome(api.cuCtxGetStreamPriorityRange(&range.least, &range.greatest),
                        [&] { return "asking for the priorities of " + device_text(device); }));
  out = range;
  return {};
}

Status CudaDriver::stream_create(int device, int priority, StreamHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  const RelaxedMode relaxed;
  CUstream made = nullptr;
  // CUDA clamps the priority to the device's range itself.
  EMBER_TRY(
      on->outcome(api.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, priority), [&] {
        return "making a stream of priority " + std::to_string(priority) + " on " +
               device_text(device);
      }));
  on->batches().add(made);
  out = {made, device, on->epoch()};
  return {};
}

Status CudaDriver::stream_destroy(StreamHandle stream) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(stream, on));
  if (stream.native == nullptr)
    return Status(Code::invalid_handle, text(stream) + " cannot be destroyed");
  on->batches().remove(to_cuda(stream));
  return on->release(
      on, [&] { return api.cuStreamDestroy_v2(to_cuda(stream)); },
      [&] { return "destroying " + text(stream); });
}

Status CudaDriver::stream_query(StreamHandle stream) noexcept {
  Device* device = nullptr;
  EMBER_TRY(find(stream.device, device));
  const std::uint32_t since = device->epoch();
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  const RecentWork::Number newest = on->recent().newest();
  const CUresult result = api.cuStreamQuery(to_cuda(stream));
  if (result == CUDA_ERROR_NOT_READY) return Code::not_ready;
  EMBER_TRY(on->outcome(result, [&] { return "querying " + text(stream); }));
  on->recent().finished(newest, stream.native);
  return on->all_done(since);
}

Status CudaDriver::stream_synchronize(StreamHandle stream) noexcept {
  return wait_for(stream, [&](ContextGuard& on) -> Status {
    EMBER_TRY(on->enter(on));
    const RecentWork::Number newest = on->recent().newest();
    EMBER_TRY(on->outcome(api.cuStreamSynchronize(to_cuda(stream)),
                          [&] { return "synchronizing " + text(stream); }));
    on->recent().finished(newest, stream.native);
    return {};
  });
}

// ---- Events

Status CudaDriver::event_create(int device, EventOptions options, EventHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (options.interprocess && options.timing)
    return Status(Code::invalid_value,
                  "options ask for interprocess and timing, expected at most one of them");
  EMBER_TRY(on->enter(on));
  destroy_left_events(*on);
  unsigned flags = CU_EVENT_DEFAULT;
  if (!options.timing) flags |= CU_EVENT_DISABLE_TIMING;
  if (options.blocking) flags |= CU_EVENT_BLOCKING_SYNC;
  if (options.interprocess) flags |= CU_EVENT_INTERPROCESS;
  const RelaxedMode relaxed;
  CUevent made = nullptr;
  EMBER_TRY(on->outcome(api.cuEventCreate(&made, flags),
                        [&] { return "making an event on " + device_text(device); }));
  out = {made, device, on->epoch()};
  return {};
}

// Events whose last owner was a host function.
void CudaDriver::destroy_left_events(Device& on) noexcept {
  const MutexLock lock(left_mutex_);
  for (auto left = left_events_.begin(); left != left_events_.end();) {
    if (left->device != on.index()) {
      ++left;
      continue;
    }
    if (left->epoch == on.epoch()) (void)api.cuEventDestroy_v2(to_cuda(*left));
    left = left_events_.erase(left);
  }
}

Status CudaDriver::event_destroy(EventHandle event) noexcept {
  if (in_host_call()) {
    const MutexLock lock(left_mutex_);
    left_events_.push_back(event);
    return {};
  }
  ContextGuard on;
  EMBER_TRY(admit(event, on));
  return on->release(
      on, [&] { return api.cuEventDestroy_v2(to_cuda(event)); },
      [&] { return "destroying " + text(event); });
}

Status CudaDriver::event_record(EventHandle event, StreamHandle stream, EventScope scope) noexcept {
  ContextGuard on;
  if (!admits(event, on)) [[unlikely]]
    return refuse(event, on.admitted());
  if (event.device != stream.device) [[unlikely]]
    return Status(Code::invalid_handle, text(event) + " cannot be recorded on " + text(stream) +
                                            ", expected a stream of the event's device");
  if (!is_of(stream, event.epoch)) [[unlikely]]
    return refuse_old(stream.device, "stream");
  const unsigned flags = scope == EventScope::external ? CU_EVENT_RECORD_EXTERNAL : 0;
  return on->on_stream(
      on, to_cuda(stream),
      [&] { return api.cuEventRecordWithFlags(to_cuda(event), to_cuda(stream), flags); },
      [&] { return "recording " + text(event) + " on " + text(stream); });
}

Status CudaDriver::event_wait(StreamHandle stream, EventHandle event, EventScope scope) noexcept {
  ContextGuard of_event;
  if (!admits(event, of_event)) [[unlikely]]
    return refuse(event, of_event.admitted());
  ContextGuard on;
  if (!admits(stream, on)) [[unlikely]]
    return refuse(stream, on.admitted());
  const unsigned flags = scope == EventScope::external ? CU_EVENT_WAIT_EXTERNAL : 0;
  return on->on_stream(
      on, to_cuda(stream),
      [&] { return api.cuStreamWaitEvent(to_cuda(stream), to_cuda(event), flags); },
      [&] { return "letting " + text(stream) + " wait for " + text(event); });
}

Status CudaDriver::event_query(EventHandle event) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(event, on));
  const CUresult result = api.cuEventQuery(to_cuda(event));
  if (result == CUDA_ERROR_NOT_READY) return Code::not_ready;
  EMBER_TRY(on->outcome(result, [&] { return "querying " + text(event); }));
  return on->all_done(event.epoch);
}

Status CudaDriver::event_synchronize(EventHandle event) noexcept {
  return wait_for(event, [&](ContextGuard& on) -> Status {
    EMBER_TRY(on->enter(on));
    return on->outcome(api.cuEventSynchronize(to_cuda(event)),
                       [&] { return "synchronizing " + text(event); });
  });
}

Status CudaDriver::event_elapsed(EventHandle start, EventHandle end, float& milliseconds) noexcept {
  ContextGuard ends_on;
  EMBER_TRY(admit(end, ends_on));
  if (start.device != end.device)
    return Status(Code::invalid_handle, "start is " + text(start) + " and end is " + text(end) +
                                            ", expected events of one device");
  ContextGuard on;
  EMBER_TRY(enter(start, on));
  float between = 0;
  const CUresult result = api.cuEventElapsedTime(&between, to_cuda(start), to_cuda(end));
  if (result == CUDA_ERROR_NOT_READY) return Code::not_ready;
  EMBER_TRY(on->outcome(result, [&] {
    return "start is " + text(start) + " and end is " + text(end) +
           ", expected events with timing that were recorded";
  }));
  milliseconds = between;
  return {};
}

}  // namespace ember::inline v0::driver::cuda
