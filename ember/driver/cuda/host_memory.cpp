// Page-locked host memory.
//
// Registrations belong to a context and end with it, so pinned memory is mapped by us and only
// registered with CUDA: after a device_reset the host still has its data, though no longer pinned.
#include <sys/mman.h>

#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

using Kind = Allocations::Kind;

Status refuse_zero_bytes() {
  return Status(Code::invalid_value, "bytes is 0, expected a positive number");
}

void* map_pages(std::size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  // Large pages are what makes pinning fast; without them it works all the same.
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  if (bytes >= kLargePage) (void)madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

}  // namespace

Device* CudaDriver::any_active() noexcept {
  // The current one first: there nothing has to be changed and put back.
  CUcontext current = nullptr;
  if (api.cuCtxGetCurrent(&current) == CUDA_SUCCESS)
    for (const auto& device : devices_)
      if (device->owns(current) && !device->faulted()) return device.get();
  for (const auto& device : devices_)
    if (device->active() && !device->faulted()) return device.get();
  return nullptr;
}

Status CudaDriver::enter_any(ContextGuard& out) noexcept {
  Device* on = any_active();
  if (on == nullptr) on = devices_[0].get();
  return on->enter(out);
}

Status CudaDriver::register_with(Device& device, void* pointer, std::size_t bytes,
                                 Kind kind) noexcept {
  const RelaxedMode relaxed;
  EMBER_TRY(device.outcome(
      api.cuMemHostRegister_v2(pointer, bytes, CU_MEMHOSTREGISTER_PORTABLE),
      [&] { return "page-locking " + bytes_text(bytes) + " at " + address_text(pointer); }));
  allocations_.add(pointer, {kind, device.index(), bytes});
  return {};
}

Status CudaDriver::unregister(void* pointer, const Allocations::Entry& entry) noexcept {
  if (entry.device == Allocations::kNoDevice) return {};  // ended with its context
  ContextGuard on;
  EMBER_TRY(admit(entry.device, on));
  // Every device can reach it, so each may have a copy in flight.
  for (const auto& device : devices_)
    if (ContextGuard guard;
        device->admit(guard).ok() && device->active() && device->enter(guard).ok())
      (void)device->outcome(api.cuCtxSynchronize(), [] { return std::string("waiting"); });
  return on->release(
      on, [&] { return api.cuMemHostUnregister(pointer); },
      [&] { return "giving back " + address_text(pointer); });
}

Status CudaDriver::pinned_malloc(std::size_t bytes, void*& out) noexcept {
  if (bytes == 0) return refuse_zero_bytes();
  ContextGuard on;
  EMBER_TRY(enter_any(on));
  void* pages = map_pages(bytes);
  if (pages == nullptr)
    return Status(Code::out_of_memory, "no " + bytes_text(bytes) + " of host memory to page-lock");
  if (Status status = register_with(*on, pages, bytes, Kind::pinned); !status.ok()) {
    munmap(pages, bytes);
    return status;
  }
  out = pages;
  return {};
}

Status CudaDriver::pinned_free(void* pointer) noexcept {
  const auto entry = allocations_.take(pointer, Kind::pinned);
  if (!entry)
    return Status(
        Code::invalid_value,
        "pointer is " + address_text(pointer) +
            ", expected the start of an allocation of pinned_malloc that was not freed yet");
  if (Status status = unregister(pointer, *entry); !status.ok()) {
    allocations_.add(pointer, *entry);
    return status;
  }
  munmap(pointer, entry->bytes);
  return {};
}

Status CudaDriver::host_register(void* pointer, std::size_t bytes) noexcept {
  if (bytes == 0) return refuse_zero_bytes();
  if (pointer == nullptr)
    return Status(Code::invalid_value, "pointer is null, expected host memory of the caller");
  ContextGuard on;
  EMBER_TRY(enter_any(on));
  return register_with(*on, pointer, bytes, Kind::registered);
}

Status CudaDriver::host_unregister(void* pointer) noexcept {
  const auto entry = allocations_.take(pointer, Kind::registered);
  if (!entry)
    return Status(
        Code::host_memory_not_registered,
        "pointer is " + address_text(pointer) + ", expected one that host_register was given");
  Status status = unregister(pointer, *entry);
  if (!status.ok()) allocations_.add(pointer, *entry);
  return status;
}

}  // namespace ember::inline v0::driver::cuda
