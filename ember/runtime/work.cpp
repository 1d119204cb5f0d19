#include "ember/runtime/work.h"

#include <cstdio>
#include <list>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/kernels.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::cuda {
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
void settle(driver::Driver& machine, const Stream& stream) {
  if (detail::launch_blocking()) [[unlikely]]
    check(machine.stream_synchronize(stream.handle()));
}

/// A queued host function. The list owns it, so that it is not lost when the device is reset before
/// the function could be called.
struct HostCall {
  driver::StreamHandle stream;
  std::function<void()> function;
  std::list<HostCall>::iterator self;
};

struct HostCalls {
  Mutex mutex;
  std::list<HostCall> waiting EMBER_GUARDED_BY(mutex);
};

/// The stream whose host function the thread is calling.
thread_local constinit const driver::StreamHandle* running_for = nullptr;

HostCalls& host_calls() {
  static NoDestructor<HostCalls> calls;
  return *calls;
}

/// Takes a call off the list; what it captured is destroyed by the caller, outside the lock.
std::list<HostCall> take(std::list<HostCall>::iterator call) {
  std::list<HostCall> taken;
  const MutexLock lock(host_calls().mutex);
  taken.splice(taken.begin(), host_calls().waiting, call);
  return taken;
}

void call_host_function(void* argument) {
  const std::list<HostCall> taken = take(static_cast<HostCall*>(argument)->self);
  running_for = &taken.front().stream;
  taken.front().function();
  running_for = nullptr;
}

[[noreturn, gnu::cold, gnu::noinline]] void throw_own_wait(const char* what) {
  throw AcceleratorError(
      Status(Code::not_permitted, std::string(what) +
                                      " called from a host function of its own would wait for "
                                      "itself"));
}

}  // namespace

void detail::refuse_own_wait(int device) {
  if (running_for != nullptr && running_for->device == device) [[unlikely]]
    throw_own_wait("synchronizing a device");
}

void detail::refuse_own_wait(const driver::StreamHandle& stream) {
  if (running_for != nullptr && running_for->device == stream.device &&
      running_for->native == stream.native) [[unlikely]]
    throw_own_wait("synchronizing a stream");
}

void detail::forget_host_functions(int device) noexcept {
  std::list<HostCall> dropped;
  const MutexLock lock(host_calls().mutex);
  auto& waiting = host_calls().waiting;
  for (auto call = waiting.begin(); call != waiting.end();) {
    const auto next = std::next(call);
    if (call->stream.device == device) dropped.splice(dropped.end(), waiting, call);
    call = next;
  }
}

bool detail::runs_host_column() { return active_driver().simulated(); }

void launch(const Stream& stream, const Kernel& kernel, const Params& params) {
  launch(stream, kernel, params, {});
}

void launch(const Stream& stream, const Kernel& kernel, const Params& params,
            std::span<const Access> accesses) {
  if (kernel.name == nullptr) [[unlikely]]
    throw ValueError("launch: kernel.name is null, expected a literal");
  driver::Driver& machine = active_driver();
  check(machine.launch(stream.handle(), kernel, params));
  if (observed()) [[unlikely]]
    report(Kind::kernel_launched, stream, {.name = kernel.name, .accesses = accesses});
  settle(machine, stream);
}

void launch_on_current(int device, const Kernel& kernel, const Params& params,
                       std::span<const Access> accesses) {
  const auto& streams = detail::thread_state().streams;
  const auto slot = static_cast<std::size_t>(device);
  if (slot >= streams.size() || observed() || detail::launch_blocking()) [[unlikely]]
    return launch(current_stream(device), kernel, params, accesses);
  // Only this thread changes what is current for it, so the stream lives as long as this call.
  const detail::StreamState* const current = streams[slot].get();
  check(active_driver().launch(
      current != nullptr ? current->handle : driver::StreamHandle{nullptr, device, 0}, kernel,
      params));
}

void copy_async(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  driver::Driver& machine = active_driver();
  check(machine.copy(stream.handle(), target, source, bytes));
  if (observed()) [[unlikely]]
    report(Kind::copied, stream, {.address = target, .source = source, .bytes = bytes});
  settle(machine, stream);
}

void copy(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  copy_async(target, source, bytes, stream);
  stream.synchronize();
}

void fill_async(void* target, std::uint8_t value, std::size_t bytes, const Stream& stream) {
  driver::Driver& machine = active_driver();
  check(machine.fill(stream.handle(), target, value, 1, bytes));
  if (observed()) [[unlikely]]
    report(Kind::filled, stream, {.address = target, .bytes = bytes});
  settle(machine, stream);
}

void host_function(std::function<void()> function, const Stream& stream) {
  if (!function) throw ValueError("host_function: got an empty function, expected a callable one");
  driver::Driver& machine = active_driver();
  std::list<HostCall> made(1);
  made.front().stream = stream.handle();
  made.front().function = std::move(function);
  const auto call = made.begin();
  call->self = call;
  {
    const MutexLock lock(host_calls().mutex);
    host_calls().waiting.splice(host_calls().waiting.end(), made);
  }
  const Status status = machine.host_function(stream.handle(), &call_host_function, &*call);
  if (!status.ok()) {
    take(call);
    throw AcceleratorError(status);
  }
  if (observed()) [[unlikely]]
    report(Kind::host_function_queued, stream, {});
  settle(machine, stream);
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

}  // namespace ember::cuda
