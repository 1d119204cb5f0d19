// Work on streams: kernels, copies, fills, host functions.
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"
#include "ember/driver/cuda/work_clock.h"

namespace ember::inline v0::driver::cuda {
namespace {

CUstream to_cuda(StreamHandle stream) { return static_cast<CUstream>(stream.native); }
CUdeviceptr to_cuda(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

std::string copy_text(const void* target, const void* source, std::size_t bytes) {
  return "copying " + bytes_text(bytes) + " to " + address_text(target) + " from " +
         address_text(source);
}

/// The device whose memory an address is; -1 for other memory.
int owner(const void* pointer) noexcept {
  unsigned type = 0;
  int device = -1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&type, &device};
  const CUresult result = api.cuPointerGetAttributes(2, attributes, values, to_cuda(pointer));
  return result == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE ? device : -1;
}

/// Whether an address is in host memory that CUDA knows nothing of.
bool is_ordinary(const void* pointer) noexcept {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* values[] = {&type};
  return api.cuPointerGetAttributes(1, &attribute, values, to_cuda(pointer)) != CUDA_SUCCESS ||
         type == 0;
}

/// Whether an address is in the memory of another device.
bool is_elsewhere(int device, const void* pointer) noexcept {
  const int owns = owner(pointer);
  return owns >= 0 && owns != device;
}

}  // namespace

Status CudaDriver::launch(StreamHandle stream, const Kernel& kernel, const Params& params,
                          PeerMemory peer) noexcept {
  if (const CallsOfThread& calls = CallsOfThread::mine(); calls.in_batch && calls.timed == 0)
      [[unlikely]] {
    bool kept = false;
    Status status = keep_launch(stream, kernel, params, peer, kept);
    if (kept || !status.ok()) return status;
  }
  ContextGuard on;
  ContextGuard of_peer;
  EMBER_TRY(enter(stream, on));
  EMBER_TRY(admit_peer(peer, of_peer));
  if (params.size() > Params::kCapacity) [[unlikely]]
    return too_large(params);
  if (kernel.cuda == nullptr) [[unlikely]]
    return Status(Code::not_supported,
                  "kernel '" + std::string(kernel.name.c_str()) + "' has no CUDA implementation");
  const RecentWork::Operation operation{kernel.name.c_str(), stream.native, 0, true};
  const RecentWork::Number number = on->recent().add(operation);
  Status status;
  {
    // It may load code, or make a handle of a library.
    const RelaxedMode relaxed(captures_here.load(std::memory_order_relaxed) != 0);
    status =
        kernel.cuda.run(params, CudaLaunch(to_cuda(stream), stream.device, kernel.context.get()));
  }
  if (status.ok() && kernel.context) [[unlikely]]
    if (const CUresult kept = keep_for_capture(to_cuda(stream), kernel.context);
        kept != CUDA_SUCCESS)
      status = failure(kept, "keeping what it needs for the graph");
  if (!status.ok()) [[unlikely]]
    status = on->launch_failed(number, kernel.name.c_str(), status);
  else
    on->launch_log().add(operation, on->epoch());
  return status;
}

// What cannot be kept is left to launch(), which refuses what cannot be launched, too.
Status CudaDriver::keep_launch(StreamHandle stream, const Kernel& kernel, const Params& params,
                               PeerMemory peer, bool& kept) noexcept {
  if (!exists(stream.device) || peer.device != -1 || params.size() > Params::kCapacity ||
      kernel.cuda == nullptr)
    return {};
  ContextGuard on;
  if (!devices_[static_cast<std::size_t>(stream.device)]->admits_launch(on) ||
      !is_of(stream, on->epoch()))
    return {};
  EMBER_TRY(on->enter(on));
  if (on->launch_log().keeps() || (captures_here.load(std::memory_order_relaxed) != 0 &&
                                   captured_graph(to_cuda(stream)) != nullptr))
    return {};
  const RecentWork::Number number = on->recent().add({kernel.name.c_str(), stream.native, 0, true});
  kept = on->batches().keep(to_cuda(stream), kernel, params, number);
  if (!kept) on->recent().retract(number);
  return {};
}

Status CudaDriver::batch_begin() noexcept {
  CallsOfThread::mine().in_batch = true;
  return {};
}

Status CudaDriver::batch_end() noexcept {
  CallsOfThread::mine().in_batch = false;
  for (const auto& device : devices_)
    if (ContextGuard on; device->batches().any()) (void)device->admits(on);
  return {};
}

Status CudaDriver::launch_needs(const Kernel& kernel, const Params& params,
                                KernelNeeds& out) noexcept {
  return kernel.cuda.ask(params, out);
}

Status CudaDriver::copy(StreamHandle stream, void* target, const void* source, std::size_t bytes,
                        PeerMemory peer) noexcept {
  ContextGuard on;
  ContextGuard of_peer;
  EMBER_TRY(enter(stream, on));
  EMBER_TRY(admit_peer(peer, of_peer));
  if (bytes == 0) return {};
  if (captures_here.load(std::memory_order_relaxed) != 0) [[unlikely]]
    if (is_ordinary(target) || is_ordinary(source))
      EMBER_TRY(
          refuse_captured(to_cuda(stream), "a copy from or to host memory that is not pinned"));
  // Unified addressing: CUDA sees from the addresses which way to copy.
  EMBER_TRY(on->enqueue(
      {"copy", stream.native, bytes},
      [&] {
        const auto copy = [&](CUstream on_stream) {
          CUresult result = CUDA_SUCCESS;
          if (on->staging().copy(to_cuda(target), to_cuda(source), bytes, on_stream, result) ==
              Staging::Outcome::left_to_cuda)
            result = copy_async(target, source, bytes, on_stream);
          return result;
        };
        if (stream.native == nullptr && devices_.size() > 1 &&
            (of_peer.admitted() || is_elsewhere(stream.device, target) ||
             is_elsewhere(stream.device, source)))
          return on->peer_stream().run(copy);
        return copy(to_cuda(stream));
      },
      [&] { return copy_text(target, source, bytes); }));
  // With ordinary memory on one side it has waited for the work before it.
  return on->all_done(on->epoch());
}

Status CudaDriver::fill(StreamHandle stream, void* target, std::uint32_t pattern, unsigned width,
                        std::size_t count) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  if (width != 1 && width != 2 && width != 4)
    return Status(Code::invalid_value,
                  "width is " + std::to_string(width) + ", expected 1, 2 or 4 bytes");
  if (to_cuda(target) % width != 0)
    return Status(Code::invalid_value, "target is " + address_text(target) +
                                           ", expected a multiple of the width, " +
                                           std::to_string(width));
  if (count == 0) return {};
  return on->enqueue(
      {"fill", stream.native, count * width},
      [&] {
        const CUdeviceptr to = to_cuda(target);
        switch (width) {
          case 1:
            return api.cuMemsetD8Async(to, static_cast<unsigned char>(pattern), count,
                                       to_cuda(stream));
          case 2:
            return api.cuMemsetD16Async(to, static_cast<unsigned short>(pattern), count,
                                        to_cuda(stream));
          default: return api.cuMemsetD32Async(to, pattern, count, to_cuda(stream));
        }
      },
      [&] {
        return "filling " + std::to_string(count) + " times " + bytes_text(width) + " at " +
               address_text(target);
      });
}

Status CudaDriver::host_function(StreamHandle stream, void (*function)(void*),
                                 void (*destroy)(void*), void* argument) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  if (function == nullptr || destroy == nullptr)
    return Status(Code::invalid_value, "function is null, expected a function to call");
  return on->enqueue(
      {"host function", stream.native},
      [&] {
        HostCalls& calls = on->host_calls();
        if (const CUgraph graph = captured_graph(to_cuda(stream)); graph != nullptr) [[unlikely]]
          return calls.capture(graph, to_cuda(stream), function, destroy, argument);
        // CUPTI knows nothing of host functions: they note themselves when they run.
        Ref<WorkTimes> times = WorkClock::instance().take(CallsOfThread::mine().timed);
        return calls.enqueue(to_cuda(stream), function, destroy, argument, std::move(times));
      },
      [&] { return std::string("enqueuing a host function"); });
}

Status CudaDriver::time_next(StreamHandle stream, WorkTimes* times) noexcept {
  CallsOfThread& calls = CallsOfThread::mine();
  if (std::exchange(calls.timed, 0) != 0) WorkClock::instance().end_work();
  if (times == nullptr) return {};
  Device* on = nullptr;
  EMBER_TRY(find(stream.device, on));
  const RelaxedMode relaxed(captures_here.load(std::memory_order_relaxed) != 0);
  return WorkClock::instance().begin_work(stream.device, on->epoch(), times, calls.timed);
}

Status CudaDriver::times_collect() noexcept {
  return WorkClock::instance().collect([this](int device, std::uint32_t epoch) {
    const Device& of = *devices_[static_cast<std::size_t>(device)];
    return of.faulted() || of.epoch() != epoch;
  });
}

Status CudaDriver::times_pause() noexcept {
  WorkClock::instance().pause();
  return {};
}

Status CudaDriver::record_launches(int count, StackNumber stack) noexcept {
  for (const auto& device : devices_) device->launch_log().keep(count, stack);
  return {};
}

Status CudaDriver::recent_launches(int device, std::vector<RecentLaunch>& out) noexcept {
  Device* of = nullptr;
  EMBER_TRY(find(device, of));
  out = of->launch_log().list();
  return {};
}

}  // namespace ember::inline v0::driver::cuda
