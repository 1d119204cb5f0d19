// Device memory, and what a pointer points to. Page-locked host memory is in host_memory.cpp.
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

using Kind = Allocations::Kind;

CUdeviceptr to_cuda(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
void* from_cuda(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

Status refuse_zero_bytes() {
  return Status(Code::invalid_value, "bytes is 0, expected a positive number");
}

}  // namespace

Status CudaDriver::malloc(int device, std::uint32_t epoch, std::size_t bytes, void*& out) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "epoch of the memory");
  EMBER_TRY(on->enter(on));
  if (bytes == 0) return refuse_zero_bytes();
  const RelaxedMode relaxed;
  CUdeviceptr made = 0;
  std::size_t total = 0;
  CUresult result = api.cuDeviceTotalMem_v2(&total, on->id());
  // CUDA would refuse more than there is too, but tools that watch its calls report that as an
  // error of the program.
  if (result == CUDA_SUCCESS)
    result = bytes <= total ? api.cuMemAlloc_v2(&made, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
  EMBER_TRY(on->outcome(
      result, [&] { return "allocating " + bytes_text(bytes) + " on " + device_text(device); }));
  allocations_.add(from_cuda(made), {Kind::device, device, bytes});
  out = from_cuda(made);
  return {};
}

// cuMemFree waits for the device's work, as the seam asks for.
Status CudaDriver::free(int device, std::uint32_t epoch, void* pointer) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "memory");
  const RelaxedMode relaxed;
  const auto entry = allocations_.take(pointer, Kind::device, device);
  if (!entry)
    return Status(Code::invalid_value, "pointer is " + address_text(pointer) +
                                           ", expected the start of an allocation of " +
                                           device_text(device) + " that was not freed yet");
  Status status = on->release(
      on, [&] { return api.cuMemFree_v2(to_cuda(pointer)); },
      [&] { return "freeing " + address_text(pointer); });
  if (!status.ok()) allocations_.add(pointer, *entry);
  return status;
}

// The device's default pool keeps what it has until memory_trim: else CUDA would give it back with
// every wait of the host.
Status CudaDriver::pool_of(ContextGuard& on, const PoolCalls& calls, CUmemoryPool& out) noexcept {
  const auto of_device = [&] { return "asking for the pool of " + device_text(on->index()); };
  EMBER_TRY(on->outcome(calls.cuDeviceGetDefaultMemPool(&out, on->id()), of_device));
  cuuint64_t kept = ~cuuint64_t{0};
  return on->outcome(calls.cuMemPoolSetAttribute(out, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept),
                     of_device);
}

Status CudaDriver::malloc_async(StreamHandle stream, std::size_t bytes, void*& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(stream, on));
  if (bytes == 0) return refuse_zero_bytes();
  const PoolCalls* calls = nullptr;
  EMBER_TRY(find_pool_calls(calls));
  CUmemoryPool pool = nullptr;
  EMBER_TRY(pool_of(on, *calls, pool));
  CUdeviceptr made = 0;
  std::size_t total = 0;
  CUresult result = api.cuDeviceTotalMem_v2(&total, on->id());
  if (result == CUDA_SUCCESS)
    result = bytes <= total
                 ? calls->cuMemAllocAsync(&made, bytes, static_cast<CUstream>(stream.native))
                 : CUDA_ERROR_OUT_OF_MEMORY;
  EMBER_TRY(on->outcome(result, [&] {
    return "allocating " + bytes_text(bytes) + " of the pool of " + device_text(stream.device);
  }));
  allocations_.add(from_cuda(made), {Kind::device, stream.device, bytes});
  out = from_cuda(made);
  return {};
}

Status CudaDriver::free_async(StreamHandle stream, void* pointer) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(stream, on));
  const PoolCalls* calls = nullptr;
  EMBER_TRY(find_pool_calls(calls));
  const auto entry = allocations_.take(pointer, Kind::device, stream.device);
  if (!entry)
    return Status(Code::invalid_value, "pointer is " + address_text(pointer) +
                                           ", expected the start of an allocation of " +
                                           device_text(stream.device) + " that was not freed yet");
  Status status = on->release(
      on,
      [&] { return calls->cuMemFreeAsync(to_cuda(pointer), static_cast<CUstream>(stream.native)); },
      [&] { return "freeing " + address_text(pointer) + " on a stream"; });
  if (!status.ok()) allocations_.add(pointer, *entry);
  return status;
}

Status CudaDriver::memory_trim(int device, std::uint32_t epoch) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "epoch of the memory");
  EMBER_TRY(on->enter(on));
  const PoolCalls* calls = nullptr;
  EMBER_TRY(find_pool_calls(calls));
  CUmemoryPool pool = nullptr;
  EMBER_TRY(pool_of(on, *calls, pool));
  return on->outcome(calls->cuMemPoolTrimTo(pool, 0),
                     [&] { return "trimming the pool of " + device_text(device); });
}

Status CudaDriver::memory_info(int device, MemoryInfo& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  MemoryInfo info;
  EMBER_TRY(on->outcome(api.cuMemGetInfo_v2(&info.free, &info.total),
                        [&] { return "asking for the memory of " + device_text(device); }));
  out = info;
  return {};
}

Status CudaDriver::pointer_info(const void* pointer, PointerInfo& out) noexcept {
  if (const auto found = allocations_.find(pointer)) {
    const bool on_device = found->entry.kind == Kind::device ||
                           found->entry.kind == Kind::imported || found->entry.kind == Kind::chunk;
    if (found->entry.device == Allocations::kNoDevice)
      out = PointerInfo();  // was pinned, until its device was reset
    else
      out = {on_device ? PointerInfo::Kind::device : PointerInfo::Kind::pinned,
             on_device ? found->entry.device : -1, found->base, found->entry.bytes};
    return {};
  }
  // Memory of other libraries; there is none while no device has a context. CUDA can be asked in
  // any context. If it does not know the pointer it succeeds and leaves zeros.
  out = PointerInfo();
  Device* on = any_active();
  ContextGuard guard;
  if (on == nullptr || !on->enter(guard).ok()) return {};
  CUmemorytype type{};
  int ordinal = -1;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &ordinal, &base, &bytes};
  if (api.cuPointerGetAttributes(4, attributes, values, to_cuda(pointer)) != CUDA_SUCCESS)
    return {};
  if (type == CU_MEMORYTYPE_HOST)
    out = {PointerInfo::Kind::pinned, -1, from_cuda(base), bytes};
  else if (type == CU_MEMORYTYPE_DEVICE)
    out = {PointerInfo::Kind::device, ordinal, from_cuda(base), bytes};
  return {};
}
}  // namespace ember::inline v0::driver::cuda
