// A fake libcuda.so.1: the part of the CUDA driver API that ember uses, on host memory, with every
// operation done before its call returns. It lets the host code of the CUDA driver (handles,
// epochs, faults, error texts) be tested where there is no GPU. It says nothing about how CUDA
// behaves.
//
// FAKE_VERSION is the driver version it claims, FAKE_DEVICES how many devices it has (at most 2).
#include "fake_libcuda.h"

#include <cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using Clock = std::chrono::steady_clock;

struct CUctx_st {
  int device;
  bool exists = false;
  bool fault_seen = false;
  bool peer = false;
};
struct CUstream_st {
  int priority;
};
struct CUevent_st {
  unsigned flags;
  bool recorded = false;
  Clock::time_point time{};
};

extern "C" {
extern __attribute__((visibility("default"))) FakeCuda fake_cuda;
FakeCuda fake_cuda;
}

namespace {

CUctx_st contexts[FakeCuda::kDevices] = {{0}, {1}};
thread_local CUcontext current = nullptr;
struct Memory {
  std::size_t bytes;
  int device;
};
std::map<CUdeviceptr, Memory> device_memory;

bool valid(CUdevice device) { return device >= 0 && device < FAKE_DEVICES; }

/// How calls that enqueue begin: CUDA tells them of a fault only once somebody has seen it.
CUresult enqueue() {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current->exists) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return current->fault_seen ? static_cast<CUresult>(fake_cuda.fault[current->device])
                             : CUDA_SUCCESS;
}

/// How calls that wait or ask begin.
CUresult look() {
  const CUresult result = enqueue();
  if (result != CUDA_SUCCESS || fake_cuda.fault[current->device] == 0) return result;
  current->fault_seen = true;
  return enqueue();
}

CUresult look_if_ready() {
  const CUresult result = look();
  return result == CUDA_SUCCESS && fake_cuda.busy ? CUDA_ERROR_NOT_READY : result;
}

template <class T>
CUresult fill(CUdeviceptr target, T value, std::size_t count) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  T* to = reinterpret_cast<T*>(target);
  for (std::size_t i = 0; i < count; ++i) to[i] = value;
  return CUDA_SUCCESS;
}

}  // namespace

#undef cuEventElapsedTime  // cuda.h gives it a suffix that the real library exports beside this one

extern "C" {

// ---- Devices and contexts

CUresult cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuInit(unsigned) { return FAKE_DEVICES == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "text of the fake";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = FAKE_DEVICES;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return valid(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(size), "fake device %d", device);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0x10 + device, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = static_cast<int>(attribute);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{1} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int* possible, CUdevice, CUdevice) {
  *possible = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = contexts[device].exists ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ++fake_cuda.retained[device];
  if (!contexts[device].exists) ++fake_cuda.contexts_made[device];
  contexts[device].exists = true;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  --fake_cuda.retained[device];
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  contexts[device] = {device};
  fake_cuda.fault[device] = 0;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* device) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current->exists) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *device = current->device;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() { return look(); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return enqueue();
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  if (current->peer) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  current->peer = true;
  return CUDA_SUCCESS;
}
CUresult cuCtxDisablePeerAccess(CUcontext) {
  if (!current->peer) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  current->peer = false;
  return CUDA_SUCCESS;
}

// ---- Memory

CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  if (bytes > fake_cuda.largest_allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  device_memory[*out] = {bytes, current->device};
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  if (const CUresult result = look(); result != CUDA_SUCCESS) return result;
  device_memory.erase(pointer);
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = 1000;
  *total = 2000;
  return enqueue();
}
CUresult cuMemHostRegister_v2(void*, std::size_t, unsigned) { return enqueue(); }
CUresult cuMemHostUnregister(void*) { return look(); }
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr pointer) {
  CUdeviceptr base = 0;
  const Memory* found = nullptr;
  for (const auto& [start, memory] : device_memory)
    if (pointer >= start && pointer < start + memory.bytes) base = start, found = &memory;
  for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<CUmemorytype*>(values[i]) =
            found == nullptr ? CUmemorytype{} : CU_MEMORYTYPE_DEVICE;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = found == nullptr ? -2 : found->device;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = base;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(values[i]) = found == nullptr ? 0 : found->bytes;
        break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

// ---- Streams and events

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned, int priority) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  if (fake_cuda.no_more_streams) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = new CUstream_st{priority};
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  delete stream;
  return enqueue();
}
CUresult cuStreamQuery(CUstream) {
  if (const int result = fake_cuda.next_query; result != 0) {
    fake_cuda.next_query = 0;
    return static_cast<CUresult>(result);
  }
  return look_if_ready();
}
CUresult cuStreamSynchronize(CUstream) { return look(); }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return enqueue(); }
CUresult cuEventCreate(CUevent* out, unsigned flags) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  *out = new CUevent_st{flags};
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return enqueue();
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream, unsigned) {
  event->recorded = true;
  event->time = Clock::now();
  return enqueue();
}
CUresult cuEventQuery(CUevent) { return look_if_ready(); }
CUresult cuEventSynchronize(CUevent) { return look(); }
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || !start->recorded ||
      !end->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return look_if_ready();
}

// ---- Work

CUresult cuKernelGetFunction(CUfunction*, CUkernel) {
  return CUDA_ERROR_NOT_SUPPORTED;  // no kernel is known here
}
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void**, void**) {
  return CUDA_ERROR_NOT_SUPPORTED;  // there is nothing here that could run a kernel
}
CUresult cuLaunchHostFunc(CUstream, CUhostFn function, void* argument) {
  const CUresult result = enqueue();
  if (result == CUDA_SUCCESS) function(argument);
  return result;
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  fake_cuda.copied_on = stream;
  if (target == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext,
                           std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(target, source, bytes, stream);
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, std::size_t count, CUstream) {
  return fill(target, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr target, unsigned short value, std::size_t count, CUstream) {
  return fill(target, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr target, unsigned value, std::size_t count, CUstream) {
  return fill(target, value, count);
}

}  // extern "C"
