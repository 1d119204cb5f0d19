// A fake libcuda.so.1: the part of the CUDA driver API that ember uses, on host memory. It lets the
// host code of the CUDA driver (handles, epochs, faults, resets, error texts) be tested where there
// is no GPU. It says nothing about how CUDA behaves.
//
// Host functions wait in the queue of their stream until a thread waits for it, and are called by
// that thread. Every other operation is done before its call returns.
//
// FAKE_VERSION is the driver version it claims, FAKE_DEVICES how many devices it has (at most 2).
#include "fake_libcuda.h"

#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;

namespace {

/// The host functions of a stream.
struct Queue {
  const int device;
  std::mutex turn;  ///< of the thread that calls them
  std::deque<std::pair<CUhostFn, void*>> waiting{};
};

}  // namespace

struct CUctx_st {
  const int device;
  std::atomic<bool> exists{false};
  std::atomic<bool> fault_seen{false};
  std::atomic<bool> peer{false};
};
// Kernels that follow each other are all that is captured here.
struct CUgraph_st {
  struct Node {
    CUfunction function;
    unsigned blocks, threads;
    std::vector<std::byte> argument;
  };
  std::vector<Node> nodes;
};
struct CUgraphExec_st {
  std::vector<CUgraph_st::Node> nodes;
};
struct CUstream_st {
  CUcontext context;
  std::shared_ptr<Queue> queue;
  CUgraph captured = nullptr;
};
struct CUevent_st {
  unsigned flags;
  bool recorded = false;
  Clock::time_point time{};
  std::shared_ptr<Queue> queue{};
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
std::mutex mutex;  ///< of all that follows, and of what is in it
std::map<CUdeviceptr, Memory> device_memory;
std::vector<std::shared_ptr<Queue>> queues;
struct Chunk {
  int device;
  std::size_t bytes;
  CUdeviceptr at;  ///< null: not mapped
  bool held;       ///< its handle was not released
};
std::map<CUmemGenericAllocationHandle, Chunk> chunks;
CUmemGenericAllocationHandle last_chunk = 0;

/// How calls about ranges begin.
CUresult range_call(std::string_view name) {
  if (fake_cuda.failing_call == nullptr || name != fake_cuda.failing_call) return CUDA_SUCCESS;
  fake_cuda.failing_call = nullptr;
  return static_cast<CUresult>(fake_cuda.next_failure);
}

bool valid(CUdevice device) { return device >= 0 && device < FAKE_DEVICES; }

/// How calls that enqueue begin: CUDA tells them of a fault only once somebody has seen it.
CUresult enqueue() {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current->exists) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return current->fault_seen ? static_cast<CUresult>(fake_cuda.fault[current->device])
                             : CUDA_SUCCESS;
}

/// The same for calls that go by a stream's own context.
CUresult enqueue(CUstream stream) {
  if (current == nullptr || stream == nullptr) return enqueue();
  const CUcontext mine = std::exchange(current, stream->context);
  const CUresult result = enqueue();
  current = mine;
  return result;
}

/// How calls that wait or ask begin.
CUresult look() {
  const CUresult result = enqueue();
  if (result != CUDA_SUCCESS || fake_cuda.fault[current->device] == 0) return result;
  current->fault_seen = true;
  return enqueue();
}

std::shared_ptr<Queue> new_queue(int device) {
  const std::lock_guard lock(mutex);
  return queues.emplace_back(new Queue{device, {}});
}

std::shared_ptr<Queue> queue_of(CUstream stream) {
  if (stream != nullptr) return stream->queue;
  static const std::shared_ptr<Queue> defaults[] = {new_queue(0), new_queue(1)};
  return defaults[current->device];
}

/// Calls what waits, as far as no fault keeps it from that.
CUresult work_off(Queue& queue) {
  const std::atomic_ref waiting(fake_cuda.waiting);
  ++waiting;
  CUresult result = CUDA_SUCCESS;
  const std::lock_guard turn(queue.turn);
  while ((result = look()) == CUDA_SUCCESS) {
    std::pair<CUhostFn, void*> next;
    {
      const std::lock_guard lock(mutex);
      if (queue.waiting.empty()) break;
      next = queue.waiting.front();
      queue.waiting.pop_front();
    }
    next.first(next.second);
  }
  --waiting;
  return result;
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
  *value = attribute == fake_cuda.absent_attribute ? 0 : static_cast<int>(attribute);
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
  if (fake_cuda.in_reset != nullptr) fake_cuda.in_reset();
  if (const int result = std::exchange(fake_cuda.next_reset, 0); result != 0)
    return static_cast<CUresult>(result);
  CUctx_st& context = contexts[device];
  context.exists = context.fault_seen = context.peer = false;
  fake_cuda.fault[device] = 0;
  const std::lock_guard lock(mutex);
  for (const auto& queue : queues)
    if (queue->device == device) queue->waiting.clear();
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
CUresult cuProfilerStart() {
  if (CUresult result = look(); result != CUDA_SUCCESS) return result;
  ++fake_cuda.profiles_begun;
  return CUDA_SUCCESS;
}
CUresult cuProfilerStop() {
  if (CUresult result = look(); result != CUDA_SUCCESS) return result;
  ++fake_cuda.profiles_ended;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  std::vector<std::shared_ptr<Queue>> all;
  {
    const std::lock_guard lock(mutex);
    all = queues;
  }
  CUresult result = look();
  for (const auto& queue : all)
    if (result == CUDA_SUCCESS && queue->device == current->device) result = work_off(*queue);
  return result;
}
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
  const std::lock_guard lock(mutex);
  ++fake_cuda.allocations;
  if (bytes > fake_cuda.largest_allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  device_memory[*out] = {bytes, current->device};
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  if (const CUresult result = look(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  device_memory.erase(pointer);
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}
// The order of streams needs nothing here: work is done when it is enqueued.
CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream) {
  return cuMemAlloc_v2(out, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream) { return cuMemFree_v2(pointer); }
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice) {
  *out = reinterpret_cast<CUmemoryPool>(&fake_cuda);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute attribute, void* value) {
  return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != nullptr
             ? look()
             : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemPoolTrimTo(CUmemoryPool, std::size_t) { return look(); }
// Ranges: addresses are host memory from the beginning, and a chunk is its size, counted.
CUresult cuMemGetAllocationGranularity(std::size_t* unit, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *unit = std::size_t{2} << 20;
  return range_call("cuMemGetAllocationGranularity");
}
CUresult cuMemAddressReserve(CUdeviceptr* out, std::size_t bytes, std::size_t, CUdeviceptr,
                             unsigned long long) {
  if (const CUresult result = range_call("cuMemAddressReserve"); result != CUDA_SUCCESS)
    return result;
  void* const range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  ++fake_cuda.ranges;
  *out = reinterpret_cast<CUdeviceptr>(range);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr range, std::size_t bytes) {
  if (const CUresult result = range_call("cuMemAddressFree"); result != CUDA_SUCCESS) return result;
  munmap(reinterpret_cast<void*>(range), bytes);  // NOLINT
  --fake_cuda.ranges;
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* out, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  if (const CUresult result = range_call("cuMemCreate"); result != CUDA_SUCCESS) return result;
  if (bytes > fake_cuda.largest_allocation) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(mutex);
  *out = ++last_chunk;
  chunks[*out] = {properties->location.id, bytes, 0, true};
  fake_cuda.chunks = static_cast<int>(chunks.size());
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(mutex);
  const auto found = chunks.find(handle);
  if (found == chunks.end() || !found->second.held) return CUDA_ERROR_INVALID_VALUE;
  found->second.held = false;
  if (found->second.at == 0) chunks.erase(found);
  fake_cuda.chunks = static_cast<int>(chunks.size());
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr start, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  if (const CUresult result = range_call("cuMemMap"); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  const auto found = chunks.find(handle);
  if (found == chunks.end() || offset != 0 || found->second.bytes != bytes)
    return CUDA_ERROR_INVALID_VALUE;
  found->second.at = start;
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr start, std::size_t bytes) {
  if (const CUresult result = range_call("cuMemUnmap"); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  for (auto chunk = chunks.begin(); chunk != chunks.end(); ++chunk) {
    if (chunk->second.at != start || chunk->second.bytes != bytes) continue;
    chunk->second.at = 0;
    if (!chunk->second.held) chunks.erase(chunk);
    fake_cuda.chunks = static_cast<int>(chunks.size());
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemSetAccess(CUdeviceptr start, std::size_t bytes, const CUmemAccessDesc*,
                        std::size_t count) {
  if (const CUresult result = range_call("cuMemSetAccess"); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  for (const auto& [handle, chunk] : chunks)
    if (chunk.at == start && chunk.bytes == bytes) {
      fake_cuda.access_set += static_cast<int>(count);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* start) {
  if (const CUresult result = range_call("cuMemRetainAllocationHandle"); result != CUDA_SUCCESS)
    return result;
  const std::lock_guard lock(mutex);
  for (auto& [handle, chunk] : chunks) {
    if (chunk.at != reinterpret_cast<CUdeviceptr>(start)) continue;
    chunk.held = true;
    *out = handle;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
// The descriptor is a file with what a chunk of it has.
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType, unsigned long long) {
  if (const CUresult result = range_call("cuMemExportToShareableHandle"); result != CUDA_SUCCESS)
    return result;
  const std::lock_guard lock(mutex);
  const Chunk same{chunks.at(handle).device, chunks.at(handle).bytes, 0, true};
  const int file = memfd_create("chunk", MFD_CLOEXEC);
  if (pwrite(file, &same, sizeof same, 0) != sizeof same) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* file,
                                        CUmemAllocationHandleType) {
  if (const CUresult result = range_call("cuMemImportFromShareableHandle"); result != CUDA_SUCCESS)
    return result;
  const std::lock_guard lock(mutex);
  Chunk same{};
  if (pread(static_cast<int>(reinterpret_cast<std::intptr_t>(file)), &same, sizeof same, 0) !=
      sizeof same)
    return CUDA_ERROR_INVALID_VALUE;
  *out = ++last_chunk;
  chunks[*out] = same;
  fake_cuda.chunks = static_cast<int>(chunks.size());
  return CUDA_SUCCESS;
}
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = 1000;
  *total = 2000;
  return enqueue();
}
CUresult cuMemHostRegister_v2(void*, std::size_t, unsigned) { return enqueue(); }
CUresult cuMemHostUnregister(void*) { return look(); }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned) {
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return look();
}

// ---- Between processes, of which there is only one here: a handle is the address, and what is
// opened is other memory of that size.

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr pointer) {
  *out = {};
  std::memcpy(out, &pointer, sizeof pointer);
  return look();
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned) {
  CUdeviceptr original = 0;
  std::memcpy(&original, &handle, sizeof original);
  const std::lock_guard lock(mutex);
  const auto found = device_memory.find(original);
  if (found == device_memory.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t bytes = found->second.bytes;
  *out = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  device_memory[*out] = {bytes, current->device};
  ++fake_cuda.imports;
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  const std::lock_guard lock(mutex);
  device_memory.erase(pointer);
  std::free(reinterpret_cast<void*>(pointer));
  --fake_cuda.imports;
  return CUDA_SUCCESS;
}
CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent event) {
  if ((event->flags & CU_EVENT_INTERPROCESS) == 0) return CUDA_ERROR_INVALID_HANDLE;
  *out = {};
  std::memcpy(out, &event, sizeof event);
  return look();
}
CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  CUevent original = nullptr;
  std::memcpy(&original, &handle, sizeof original);
  *out = new CUevent_st(*original);
  return look();
}
CUresult cuStreamWriteValue64_v2(CUstream, CUdeviceptr place, cuuint64_t value, unsigned) {
  *reinterpret_cast<cuuint64_t*>(place) = value;  // NOLINT
  return enqueue();
}
CUresult cuStreamWaitValue64_v2(CUstream, CUdeviceptr place, cuuint64_t value, unsigned) {
  // What would be waited for here is never done: the one thread is in this call.
  return *reinterpret_cast<cuuint64_t*>(place) >= value ? enqueue()  // NOLINT
                                                        : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr pointer) {
  const std::lock_guard lock(mutex);
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
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *static_cast<int*>(values[i]) = found == nullptr ? 0 : 1;  // not of chunks
        break;
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *static_cast<unsigned long long*>(values[i]) = fake_cuda.handle_types;
        break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  return CUDA_SUCCESS;
}

// ---- Streams and events

CUresult cuStreamCreateWithPriority(CUstream* out, unsigned, int) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  if (fake_cuda.no_more_streams) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = new CUstream_st{current, new_queue(current->device)};
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  const CUresult result = work_off(*stream->queue);
  const std::lock_guard lock(mutex);
  std::erase(queues, stream->queue);
  delete stream;
  return result;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  if (stream->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->captured = new CUgraph_st;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  if (stream->captured == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = std::exchange(stream->captured, nullptr);
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** last, size_t* count) {
  const CUgraph captured = stream != nullptr ? stream->captured : nullptr;
  *status = captured != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (id != nullptr) *id = reinterpret_cast<std::uintptr_t>(captured);
  if (graph != nullptr) *graph = captured;
  if (last != nullptr) *last = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  thread_local CUstreamCaptureMode of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::swap(of_thread, *mode);
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, size_t*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  if (fake_cuda.no_more_graphs) return CUDA_ERROR_OUT_OF_MEMORY;
  *exec = new CUgraphExec_st{graph->nodes};
  ++fake_cuda.graphs_made;
  ++fake_cuda.graphs_ready;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  bool same = exec->nodes.size() == graph->nodes.size();
  for (std::size_t i = 0; same && i < graph->nodes.size(); ++i)
    same = exec->nodes[i].function == graph->nodes[i].function;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->nodes = graph->nodes;
  ++fake_cuda.graphs_updated;
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (const CUresult result = enqueue(stream); result != CUDA_SUCCESS) return result;
  ++fake_cuda.graphs_launched;
  for (CUgraph_st::Node& node : exec->nodes)
    fake_cuda.run(node.function, node.blocks, node.threads, stream, node.argument.data());
  return CUDA_SUCCESS;
}
CUresult cuGraphDebugDotPrint(CUgraph, const char*, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode, CUDA_MEMCPY3D*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, CUDA_MEMSET_NODE_PARAMS*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*,
                                        CUcontext) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  delete exec;
  --fake_cuda.graphs_ready;
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph, CUuserObject, unsigned, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuUserObjectCreate(CUuserObject*, void*, CUhostFn, unsigned, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuUserObjectRelease(CUuserObject, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuStreamQuery(CUstream stream) {
  if (const int result = fake_cuda.next_query; result != 0) {
    fake_cuda.next_query = 0;
    return static_cast<CUresult>(result);
  }
  const CUresult result = look_if_ready();
  if (result != CUDA_SUCCESS) return result;
  const std::shared_ptr<Queue> queue = queue_of(stream);
  const std::lock_guard lock(mutex);
  return queue->waiting.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuStreamSynchronize(CUstream stream) {
  if (const CUresult result = look(); result != CUDA_SUCCESS) return result;
  return work_off(*queue_of(stream));
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent, unsigned) { return enqueue(stream); }
CUresult cuEventCreate(CUevent* out, unsigned flags) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(mutex);
  if (fake_cuda.events == fake_cuda.most_events) return CUDA_ERROR_OUT_OF_MEMORY;
  ++fake_cuda.events;
  *out = new CUevent_st{flags};
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  const std::lock_guard lock(mutex);
  --fake_cuda.events;
  delete event;
  return enqueue();
}
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  if (const CUresult result = enqueue(stream); result != CUDA_SUCCESS) return result;
  event->recorded = true;
  event->time = Clock::now();
  event->queue = queue_of(stream);
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent) { return look_if_ready(); }
CUresult cuEventSynchronize(CUevent event) {
  const CUresult result = look();
  return result == CUDA_SUCCESS && event->recorded ? work_off(*event->queue) : result;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || !start->recorded ||
      !end->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return look_if_ready();
}

// ---- Work

CUresult cuGetExportTable(const void**, const CUuuid*) {
  return CUDA_ERROR_NOT_FOUND;  // NVRTC asks for one, and does without
}
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  ++fake_cuda.libraries;
  *library = static_cast<CUlibrary>(const_cast<void*>(code));  // known by its code
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  if (fake_cuda.kernel == nullptr || std::string_view(name) != fake_cuda.kernel)
    return CUDA_ERROR_NOT_FOUND;
  *kernel = reinterpret_cast<CUkernel>(library);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (fake_cuda.kernel == nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // no kernel is known here
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream stream, void** arguments, void**) {
  // There is nothing here that could run a kernel, unless the test does.
  if (fake_cuda.run == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (stream != nullptr && stream->captured != nullptr) {
    const auto* const first = static_cast<const std::byte*>(arguments[0]);
    stream->captured->nodes.push_back(
        {function, x, threads, {first, first + fake_cuda.argument_bytes}});
    return CUDA_SUCCESS;
  }
  fake_cuda.run(function, x, threads, stream, arguments[0]);
  return CUDA_SUCCESS;
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  if (const CUresult result = enqueue(stream); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<Queue> queue = queue_of(stream);
  const std::lock_guard lock(mutex);
  queue->waiting.emplace_back(function, argument);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  if (const CUresult result = enqueue(); result != CUDA_SUCCESS) return result;
  fake_cuda.copied_on = stream;
  if (target == 0 || source == 0) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<void*>(source), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from,
                           std::size_t bytes, CUstream stream) {
  if (to == nullptr || from == nullptr || to == from) return CUDA_ERROR_INVALID_VALUE;
  ++fake_cuda.peer_copies;
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
