#include "ember/runtime/work.h"

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "ember/base/error.h"
#include "ember/driver/kernels.h"
#include "ember/runtime/batch.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/declared.h"
#include "ember/runtime/deferred.h"
#include "ember/runtime/enqueueing.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

using Kind = Activity::Kind;

/// What the driver knows of an address, for observers.
Access::Memory memory_of(driver::Driver& machine, const void* address) noexcept {
  driver::PointerInfo info;
  if (!machine.pointer_info(address, info).ok()) return Access::Memory::unknown;
  switch (info.kind) {
    case driver::PointerInfo::Kind::device: return Access::Memory::device;
    case driver::PointerInfo::Kind::pinned: return Access::Memory::pinned;
    default: return Access::Memory::ordinary;
  }
}

/// The accesses of a copy: its target and its source.
std::array<Access, 2> accesses_of_copy(driver::Driver& machine, const void* target,
                                       const void* source, std::size_t bytes) noexcept {
  std::array<Access, 2> made{Access{target, bytes, true, memory_of(machine, target)},
                             Access{source, bytes, false, memory_of(machine, source)}};
  made[0].argument = "target";
  made[1].argument = "source";
  return made;
}

void record_launch(Enqueueing& call, const Stream& stream, const Kernel& kernel,
                   std::span<const Access> accesses) noexcept {
  call.record(stream, {.kind = Kind::kernel_launched,
                       .name = kernel.name.c_str(),
                       .accesses = accesses,
                       .accesses_known = accesses.data() != nullptr});
}

/// The launch itself.
void enqueue(driver::Driver& machine, const driver::StreamHandle& stream, const Kernel& kernel,
             const Params& params, driver::PeerMemory peer, std::span<const Access> accesses) {
  if (accesses.data() != nullptr && checks_accesses()) [[unlikely]]
    return check(machine.launch(stream, checked(kernel, accesses), params, peer));
  check(machine.launch(stream, kernel, params, peer));
}

/// After enqueueing: with CUDA_LAUNCH_BLOCKING the fault of an operation is reported by its own
/// call.
void settle(const driver::StreamHandle& stream) {
  if (detail::launch_blocking() && !is_captured(stream)) [[unlikely]]
    HostWait(WaitKind::launch, "CUDA_LAUNCH_BLOCKING").stream(stream);
}

/// The handle of a stream for work with memory of that epoch.
driver::StreamHandle handle_in_epoch(driver::StreamHandle handle, std::uint32_t epoch) {
  if (epoch == driver::kAnyEpoch || handle.epoch == epoch) return handle;
  if (handle.native != nullptr)
    throw AcceleratorError(Status(
        Code::context_is_destroyed,
        handle.epoch < epoch
            ? "the stream is from before a reset of cuda:" + std::to_string(handle.device) +
                  ", and the memory from after it; if it is the thread's current stream, make "
                  "another one current (set_stream)"
            : "the memory is from before a reset of cuda:" + std::to_string(handle.device) +
                  ", and the stream from after it"));
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
  settle_deferred();
  if (!kernel.name) [[unlikely]]
    throw ValueError("launch: the kernel has no name");
  driver::Driver& machine = active_driver();
  // What the program's own implementation asks of the machine comes behind the batch so far.
  const OutsideBatch outside;
  Enqueueing call(stream.handle());
  call.time(machine, stream.handle());
  enqueue(machine, stream.handle(), kernel, params, {}, accesses);
  if (call.watched()) [[unlikely]]
    record_launch(call, stream, kernel, accesses);
  call.done();
  settle(stream.handle());
}

void launch_on_current(int device, std::uint32_t epoch, driver::PeerMemory peer,
                       const Kernel& kernel, const Params& params,
                       std::span<const Access> accesses) {
  settle_deferred();
  const auto& streams = detail::thread_state().streams;
  // Only this thread changes what is current for it, so the stream lives as long as this call.
  const detail::StreamState* const current = streams[static_cast<std::size_t>(device)].get();
  driver::StreamHandle handle{nullptr, device, epoch};
  if (current != nullptr && current->handle.native != nullptr)
    handle = handle_in_epoch(current->handle, epoch);
  driver::Driver& machine = active_driver();
  Enqueueing call(handle);
  call.time(machine, handle);
  enqueue(machine, handle, kernel, params, peer, accesses);
  if (call.watched()) [[unlikely]]
    record_launch(call, current_stream(device), kernel, accesses);
  call.done();
  settle(handle);
}

void copy_async(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  copy_without_wait(stream, driver::kAnyEpoch, {}, target, source, bytes);
}

void copy_without_wait(const Stream& stream, std::uint32_t epoch, driver::PeerMemory peer,
                       void* target, const void* source, std::size_t bytes) {
  std::optional<HostWait> wait;
  if (HostWait::counts_pageable()) [[unlikely]] {
    driver::Driver& machine = active_driver();
    if (memory_of(machine, target) == Access::Memory::ordinary ||
        memory_of(machine, source) == Access::Memory::ordinary)
      wait.emplace(WaitKind::pageable, "copy_async");
  }
  copy_in_epoch(stream, epoch, peer, target, source, bytes);
}

void copy_in_epoch(const Stream& stream, std::uint32_t epoch, driver::PeerMemory peer, void* target,
                   const void* source, std::size_t bytes) {
  settle_deferred();
  driver::Driver& machine = active_driver();
  const driver::StreamHandle handle = handle_in_epoch(stream.handle(), epoch);
  if (!observed() && !work_noted()) [[likely]] {
    check(machine.copy(handle, target, source, bytes, peer));
    return settle(handle);
  }
  const std::array<Access, 2> accesses = accesses_of_copy(machine, target, source, bytes);
  const bool may_wait = accesses[0].memory == Access::Memory::ordinary ||
                        accesses[1].memory == Access::Memory::ordinary;
  if (may_wait && is_captured(handle)) [[unlikely]]
    refuse_captured(handle,
                    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the "
                    "CPU tensor is pinned: a copy of ordinary host memory");
  std::optional<Enqueueing> call;
  if (may_wait)
    call.emplace(Enqueueing::MayWait());
  else
    call.emplace(handle);
  call->time(machine, handle);
  check(machine.copy(handle, target, source, bytes, peer));
  if (call->watched())
    call->record(stream, {.kind = Kind::copied,
                          .address = target,
                          .source = source,
                          .bytes = bytes,
                          .accesses = accesses,
                          .accesses_known = true});
  call->done();
  settle(handle);
}

void synchronize_in_epoch(const HostWait& wait, const Stream& stream, std::uint32_t epoch) {
  detail::told_wait(stream, [&] { wait.stream(handle_in_epoch(stream.handle(), epoch)); });
}

void copy(void* target, const void* source, std::size_t bytes, const Stream& stream) {
  const HostWait wait(WaitKind::copy, "copy");
  const std::uint32_t epoch = device_epoch(stream.device_index());
  copy_in_epoch(stream, epoch, {}, target, source, bytes);
  synchronize_in_epoch(wait, stream, epoch);
}

void fill_async(void* target, std::uint8_t value, std::size_t bytes, const Stream& stream) {
  settle_deferred();
  driver::Driver& machine = active_driver();
  Enqueueing call(stream.handle());
  call.time(machine, stream.handle());
  check(machine.fill(stream.handle(), target, value, 1, bytes));
  if (call.watched()) [[unlikely]] {
    Access access{target, bytes, true, Access::Memory::device};
    access.argument = "target";
    call.record(stream, {.kind = Kind::filled,
                         .address = target,
                         .bytes = bytes,
                         .accesses = {&access, 1},
                         .accesses_known = true});
  }
  call.done();
  settle(stream.handle());
}

void host_function(std::function<void()> function, const Stream& stream) {
  host_function(std::move(function), stream, std::span<const Access>());
}

void host_function(std::function<void()> function, const Stream& stream,
                   std::span<const Access> accesses) {
  if (!function) throw ValueError("host_function: got an empty function, expected a callable one");
  settle_deferred();
  driver::Driver& machine = active_driver();
  auto owned = std::make_unique<std::function<void()>>(std::move(function));
  Enqueueing call(stream.handle());
  call.time(machine, stream.handle());
  check(machine.host_function(stream.handle(), &call_host_function, &destroy_host_function,
                              owned.get()));
  (void)owned.release();  // the driver's now
  if (call.watched()) [[unlikely]]
    call.record(stream, {.kind = Kind::host_function_queued,
                         .accesses = accesses,
                         .accesses_known = accesses.data() != nullptr});
  call.done();
  settle(stream.handle());
}

void sleep_cycles(std::uint64_t cycles, const Stream& stream) {
  const driver::kernels::SleepArgs args{cycles};
  launch(stream, driver::kernels::sleep, Params(args), no_accesses());
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
