#include "ember/runtime/work.h"

#include <cstdio>
#include <memory>

#include "ember/base/error.h"
#include "ember/driver/kernels.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

using Kind = Activity::Kind;

void report(Kind kind, const Stream& stream, Activity activity) {
  activity.kind = kind;
  activity.device = stream.device_index();
  activity.stream = stream.native();
  activity.stream_id = stream.stream_id();
  notify(activity);
}

/// After enqueueing: with CUDA_LAUNCH_BLOCKING the fault of an operation is reported by its own
/// call.
void settle(driver::Driver& machine, const driver::StreamHandle& stream) {
  if (detail::launch_blocking()) [[unlikely]]
    check(machine.stream_synchronize(stream));
}

/// The handle of a stream for work with memory of that epoch.
driver::StreamHandle handle_in_epoch(driver::StreamHandle handle, std::uint32_t epoch) {
  if (epoch == driver::kAnyEpoch || handle.epoch == epoch) return handle;
  if (handle.native != nullptr)
    throw AcceleratorError(
        Status(Code::context_is_destroyed,
               "the stream and the memory are from before and after a reset of cuda:" +
                   std::to_string(handle.device)));
  handle.epoch = epoch;
  return handle;
}

void call_host_function(void* argument) { (*static_cast<std::function<void()>*>(argument))(); }

void destroy_host_function(void* argument) { delete static_cast<std::function<void()>*>(argument); }

}  // namespace

bool detail::runs_host_implementation() { return active_driver().simulated(); }

void launch(const Stream& stream, const Kernel& kernel, const Params& params) {
  launch(stream, kernel, params, {});
}

void launch(const Stream& stream, const Kernel& kernel, const Params& params,
            std::span<const Access> accesses) {
  if (!kernel.name) [[unlikely]]
    throw ValueError("launch: the kernel has no name");
  driver::Driver& machine = active_driver();
  check(machine.launch(stream.handle(), kernel, params));
  if (observed()) [[unlikely]]
    report(Kind::kernel_launched, stream, {.name = kernel.name.c_str(), .accesses = accesses});
  settle(machine, stream.handle());
}

void launch_on_current(int device, std::uint32_t epoch, driver::PeerMemory peer,
                       const Kernel& kernel, const Params& params,
                       std::span<const Access> accesses) {
  const auto& streams = detail::thread_state().streams;
  // Only this thread changes what is current for it, so the stream lives as long as this call.
  const detail::StreamState* const current = streams[static_cast<std::size_t>(device)].get();
  driver::StreamHandle handle{nullptr, device, epoch};
  if (current != nullptr && current->handle.native != nullptr)
    handle = handle_in_epoch(current->handle, epoch);
  driver::Driver& machine = active_driver();
  check(machine.launch(handle, kernel, params, peer));
  if (observed() || detail::launch_blocking()) [[unlikely]] {
    const Stream stream = current_stream(device);
    if (observed())
      report(Kind::kernel_launched, stream, {.name = kernel.name.c_str(), .accesses = accesses});
    settle(machine, handle);
  }
}

void copy_async(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  copy_in_epoch(stream, driver::kAnyEpoch, {}, target, source, bytes);
}

void copy_in_epoch(const Stream& stream, std::uint32_t epoch, driver::PeerMemory peer, void* target,
                   const void* source, std::size_t bytes) {
  driver::Driver& machine = active_driver();
  const driver::StreamHandle handle = handle_in_epoch(stream.handle(), epoch);
  check(machine.copy(handle, target, source, bytes, peer));
  if (observed()) [[unlikely]]
    report(Kind::copied, stream, {.address = target, .source = source, .bytes = bytes});
  settle(machine, handle);
}

void synchronize_in_epoch(const Stream& stream, std::uint32_t epoch) {
  check(active_driver().stream_synchronize(handle_in_epoch(stream.handle(), epoch)));
  if (observed()) [[unlikely]]
    report(Kind::stream_synchronized, stream, {});
}

void copy(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  const std::uint32_t epoch = device_epoch(stream.device_index());
  copy_in_epoch(stream, epoch, {}, target, source, bytes);
  synchronize_in_epoch(stream, epoch);
}

void fill_async(void* target, std::uint8_t value, std::size_t bytes, const Stream& stream) {
  driver::Driver& machine = active_driver();
  check(machine.fill(stream.handle(), target, value, 1, bytes));
  if (observed()) [[unlikely]]
    report(Kind::filled, stream, {.address = target, .bytes = bytes});
  settle(machine, stream.handle());
}

void host_function(std::function<void()> function, const Stream& stream) {
  if (!function) throw ValueError("host_function: got an empty function, expected a callable one");
  driver::Driver& machine = active_driver();
  auto owned = std::make_unique<std::function<void()>>(std::move(function));
  check(machine.host_function(stream.handle(), &call_host_function, &destroy_host_function,
                              owned.get()));
  (void)owned.release();  // the driver's now
  if (observed()) [[unlikely]]
    report(Kind::host_function_queued, stream, {});
  settle(machine, stream.handle());
}

void sleep_cycles(std::uint64_t cycles, const Stream& stream) {
  launch(stream, driver::kernels::sleep, driver::kernels::SleepArgs{cycles});
}

int device_of_pointer(const void* pointer) {
  driver::PointerInfo info;
  check(active_driver().pointer_info(pointer, info));
  if (info.kind != driver::PointerInfo::Kind::device) {
    char text[128];
    std::snprintf(text, sizeof text,
                  "device_of_pointer: %p is not device memory, expected an address that a device "
                  "allocation returned",
                  pointer);
    throw Error(text);
  }
  return info.device;
}

}  // namespace ember::inline v0::cuda
