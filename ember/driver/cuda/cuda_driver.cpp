#include "ember/driver/cuda/cuda_driver.h"

#include "ember/driver/cuda/blas.h"
#include "ember/driver/cuda/blas_handle.h"
#include "ember/driver/cuda/compiled.h"
#include "ember/driver/cuda/functions.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {

Status CudaDriver::make(std::unique_ptr<CudaDriver>& out) noexcept {
  int count = 0;
  if (const CUresult result = api.cuDeviceGetCount(&count); result != CUDA_SUCCESS)
    return failure(result, "cuDeviceGetCount failed");
  if (count == 0) return Status(Code::no_device, "the NVIDIA driver counts 0 devices");
  auto driver = std::make_unique<CudaDriver>();
  for (int index = 0; index < count; ++index) {
    CUdevice device = 0;
    if (const CUresult result = api.cuDeviceGet(&device, index); result != CUDA_SUCCESS)
      return failure(result, "cuDeviceGet failed for device " + std::to_string(index));
    driver->devices_.push_back(std::make_unique<Device>(index, device, driver->devices_));
  }
  out = std::move(driver);
  return {};
}

Status CudaDriver::refuse_number(int device, const char* argument) const noexcept {
  return Status(Code::invalid_device, std::string(argument) + " is " + std::to_string(device) +
                                          ", expected 0 to " + std::to_string(devices_.size() - 1));
}

Status CudaDriver::refuse_old(int device, const char* kind) noexcept {
  return Status(Code::context_is_destroyed, std::string(kind) + " of " + device_text(device) +
                                                " was made before the device was reset");
}

Status CudaDriver::refuse(int number, bool) const noexcept {
  return exists(number) ? Device::refuse_in_host_call() : refuse_number(number, "device");
}

Status CudaDriver::refuse(StreamHandle stream, bool admitted) const noexcept {
  return admitted ? refuse_old(stream.device, "stream") : refuse(stream.device, admitted);
}

Status CudaDriver::refuse(EventHandle event, bool admitted) const noexcept {
  if (event.native == nullptr)
    return Status(Code::invalid_handle, "event of " + device_text(event.device) +
                                            " is null, expected one from event_create");
  return admitted ? refuse_old(event.device, "event") : refuse(event.device, admitted);
}

// ---- The machine

Status CudaDriver::device_properties(int device, DeviceProperties& out) noexcept {
  Device* on = nullptr;
  EMBER_TRY(find(device, on));
  return on->properties(out);
}

bool CudaDriver::device_active(int device) noexcept {
  Device* on = nullptr;
  return find(device, on).ok() && on->active();
}

Status CudaDriver::device_activate(int device) noexcept {
  ContextGuard on;
  return enter(device, on);
}

Status CudaDriver::device_profile(int device, bool on) noexcept {
  ContextGuard context;
  EMBER_TRY(enter(device, context));
  return context->outcome(on ? api.cuProfilerStart() : api.cuProfilerStop(), [&] {
    return (on ? "starting the profile of " : "stopping the profile of ") + device_text(device);
  });
}

Status CudaDriver::device_synchronize(int device) noexcept {
  return wait_for(device, [&](ContextGuard& on) -> Status {
    if (!on->active())
      return {};  // nothing was ever enqueued, and waiting must not wake the device
    EMBER_TRY(on->enter(on));
    const RecentWork::Number newest = on->recent().newest();
    EMBER_TRY(on->outcome(api.cuCtxSynchronize(),
                          [&] { return "synchronizing " + device_text(device); }));
    on->recent().finished(newest);
    return {};
  });
}

bool CudaDriver::may_wait() noexcept { return !in_host_call(); }

std::uint32_t CudaDriver::device_epoch(int device) noexcept {
  Device* on = nullptr;
  return find(device, on).ok() ? on->epoch() : 0;
}

// The epoch turns when the context is gone, and all its work with it.
bool CudaDriver::epoch_ended(int device, std::uint32_t epoch) noexcept {
  return epoch < device_epoch(device);
}

Status CudaDriver::device_reset(int device) noexcept {
  Device* on = nullptr;
  EMBER_TRY(find(device, on));
  return on->reset([&] {
    drop_ranges(device);
    allocations_.drop(device);
    forget_blas(device);
    forget_blas_handles(device);
    Functions::forget(device);
    forget_compiled(device);
  });
}

// ---- Peers

Status CudaDriver::peer_possible(int device, int peer, bool& out) noexcept {
  Device* on = nullptr;
  Device* other = nullptr;
  EMBER_TRY(find(device, on));
  EMBER_TRY(find(peer, other, "peer"));
  int possible = 0;
  ContextGuard guard;
  EMBER_TRY(on->admit(guard));
  if (on != other)
    EMBER_TRY(on->outcome(api.cuDeviceCanAccessPeer(&possible, on->id(), other->id()), [&] {
      return "asking whether " + device_text(device) + " can access " + device_text(peer);
    }));
  out = possible != 0;
  return {};
}

Status CudaDriver::peer_enable(int device, int peer) noexcept {
  Device* on = nullptr;
  Device* other = nullptr;
  EMBER_TRY(find(device, on));
  EMBER_TRY(find(peer, other, "peer"));
  if (on == other)
    return Status(Code::invalid_device,
                  "peer is " + std::to_string(peer) + ", expected another device than `device`");
  ContextGuard of_peer;
  ContextGuard guard;
  EMBER_TRY(other->admit(of_peer));
  CUcontext context = nullptr;
  EMBER_TRY(other->context(context));
  EMBER_TRY(on->enter(guard));
  const MutexLock lock(ranges_mutex_);
  CUresult result = api.cuCtxEnablePeerAccess(context, 0);
  const bool before = result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  if (before) result = CUDA_SUCCESS;
  if (result == CUDA_SUCCESS && !peers_.contains({device, peer})) {
    result = set_access(*on, peer, true);
    if (result == CUDA_SUCCESS)
      peers_.emplace(device, peer);
    else if (!before)
      (void)api.cuCtxDisablePeerAccess(context);
  }
  return on->outcome(result, [&] {
    return "letting " + device_text(device) + " access memory of " + device_text(peer);
  });
}

Status CudaDriver::peer_disable(int device, int peer) noexcept {
  Device* on = nullptr;
  Device* other = nullptr;
  EMBER_TRY(find(device, on));
  EMBER_TRY(find(peer, other, "peer"));
  // What was never enabled must not wake a device to be told so.
  CUresult result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  ContextGuard of_peer;
  ContextGuard guard;
  EMBER_TRY(other->admit(of_peer));
  EMBER_TRY(on->admit(guard));
  if (on != other && on->active() && other->active()) {
    CUcontext context = nullptr;
    EMBER_TRY(other->context(context));
    EMBER_TRY(on->enter(guard));
    const MutexLock lock(ranges_mutex_);
    result = api.cuCtxDisablePeerAccess(context);
    if (result == CUDA_SUCCESS && peers_.erase({device, peer}) != 0)
      result = set_access(*on, peer, false);
  }
  return on->outcome(result, [&] {
    return device_text(device) + " has no access to memory of " + device_text(peer) +
           " that could be taken back";
  });
}

// ---- Libraries

Status CudaDriver::blas_handle(StreamHandle stream, std::uint8_t math, void* workspace,
                               std::size_t bytes, void*& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  return cuda::blas_handle(*on, static_cast<CUstream>(stream.native), math, workspace, bytes, out);
}

}  // namespace ember::inline v0::driver::cuda
