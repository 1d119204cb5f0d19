// Sharing between processes: memory and events by CUDA's handles, order by words of host memory.
#include <cstring>

#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

using Kind = Allocations::Kind;

CUdeviceptr to_cuda(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUstream to_cuda(StreamHandle stream) { return static_cast<CUstream>(stream.native); }

static_assert(sizeof(CUipcMemHandle) == sizeof(IpcHandle));
static_assert(sizeof(CUipcEventHandle) == sizeof(IpcHandle));

template <class To, class From>
To same_bytes(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

bool same(const IpcHandle& a, const IpcHandle& b) noexcept {
  return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

std::string text(StreamHandle stream) {
  return stream_text(stream.native) + " of " + device_text(stream.device);
}

/// Where devices find a word of registered memory.
CUresult device_address(Word* word, CUdeviceptr& out) noexcept {
  return api.cuMemHostGetDevicePointer_v2(&out, word, 0);
}

}  // namespace

// ---- Memory

Status CudaDriver::memory_sharing(const void* pointer, MemorySharing& out) noexcept {
  PointerInfo info;
  EMBER_TRY(pointer_info(pointer, info));
  if (info.kind != PointerInfo::Kind::device || info.device < 0)
    return Status(Code::invalid_value,
                  "pointer " + address_text(pointer) + ": expected device memory in use");
  ContextGuard on;
  EMBER_TRY(enter(info.device, on));
  const auto asked = [&](CUresult result) {
    return on->outcome(result,
                       [&] { return "asking how " + address_text(pointer) + " can be shared"; });
  };
  // What another process's memory is capable of, is so there.
  const auto known = allocations_.find(pointer);
  int legacy = 0, rdma = 0;
  std::uint64_t handles = 0;
  if (!known || known->entry.kind != Kind::imported) {
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};
    void* values[] = {&legacy, &handles, &rdma};
    EMBER_TRY(asked(api.cuPointerGetAttributes(3, attributes, values, to_cuda(pointer))));
  }
  using Way = MemorySharing::Way;
  MemorySharing found;
  found.legacy_ipc = legacy != 0 ? Way::yes : Way::other_memory;
  const auto judge = [&](bool is_so, CUdevice_attribute of_device, Way& way) -> Status {
    int possible = 0;
    if (!is_so) EMBER_TRY(asked(api.cuDeviceGetAttribute(&possible, of_device, on->id())));
    way = is_so ? Way::yes : possible != 0 ? Way::other_memory : Way::no;
    return {};
  };
  EMBER_TRY(judge((handles & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0,
                  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, found.fd));
  EMBER_TRY(judge((handles & CU_MEM_HANDLE_TYPE_FABRIC) != 0,
                  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, found.fabric));
  EMBER_TRY(judge(rdma != 0, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, found.rdma));
  out = found;
  return {};
}

Status CudaDriver::ipc_export_memory(void* pointer, IpcExport& out) noexcept {
  const auto found = allocations_.find(pointer);
  if (found && found->entry.kind == Kind::chunk) {
    MemorySharing sharing;
    EMBER_TRY(memory_sharing(pointer, sharing));
    if (sharing.fd != MemorySharing::Way::yes)
      return Status(Code::not_supported,
                    "sharing " + address_text(pointer) + ": it lies in a range of addresses, and " +
                        device_text(found->entry.device) + " gives out no descriptors");
    out = {};
    out.in_pieces = true;
    return {};
  }
  if (!found || found->entry.kind != Kind::device || found->entry.device == Allocations::kNoDevice)
    return Status(Code::invalid_value, "sharing " + address_text(pointer) +
                                           ": expected device memory of this process's own");
  ContextGuard on;
  EMBER_TRY(enter(found->entry.device, on));
  CUipcMemHandle made;
  EMBER_TRY(on->outcome(api.cuIpcGetMemHandle(&made, to_cuda(found->base)), [&] {
    return "sharing the memory at " + address_text(found->base) + " of " +
           device_text(found->entry.device);
  }));
  IpcExport result;
  result.handle = same_bytes<IpcHandle>(made);
  result.offset = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) -
                                           static_cast<const std::byte*>(found->base));
  result.extent = found->entry.bytes;
  out = result;
  return {};
}

Status CudaDriver::open_once(ContextGuard& on, const IpcHandle& handle, Opened*& out) noexcept {
  for (Opened& known : opened_)
    if (known.device == on->index() && known.epoch == on->epoch() && same(known.handle, handle)) {
      out = &known;
      return {};
    }
  CUdeviceptr base = 0;
  EMBER_TRY(on->outcome(
      api.cuIpcOpenMemHandle_v2(&base, same_bytes<CUipcMemHandle>(handle),
                                CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
      [&] { return "opening another process's memory on " + device_text(on->index()); }));
  std::size_t bytes = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_RANGE_SIZE;
  void* value = &bytes;
  const CUresult asked = api.cuPointerGetAttributes(1, &attribute, &value, base);
  if (asked != CUDA_SUCCESS) {
    (void)api.cuIpcCloseMemHandle(base);
    return on->outcome(asked, [] { return std::string("asking for the size of memory"); });
  }
  auto* memory = reinterpret_cast<std::byte*>(base);  // NOLINT
  opened_.push_back({on->index(), on->epoch(), handle, memory, bytes, 0});
  allocations_.add(memory, {Kind::imported, on->index(), bytes});
  out = &opened_.back();
  return {};
}

Status CudaDriver::ipc_open_memory(int device, const IpcHandle& handle, int, std::size_t offset,
                                   std::size_t bytes, void*& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  const MutexLock lock(opened_mutex_);
  Opened* opened = nullptr;
  EMBER_TRY(open_once(on, handle, opened));
  ++opened->users;
  if (bytes == 0 || offset > opened->bytes || bytes > opened->bytes - offset) {
    const std::string found = bytes_text(opened->bytes);
    std::byte* const base = opened->base;
    if (--opened->users == 0) {
      opened_.remove_if([&](const Opened& each) { return &each == opened; });
      (void)allocations_.take(base, Kind::imported, device);
      (void)api.cuIpcCloseMemHandle(to_cuda(base));
    }
    return Status(Code::invalid_value, "another process's memory has " + found + ", expected " +
                                           bytes_text(bytes) + " from " + std::to_string(offset) +
                                           " on");
  }
  out = opened->base + offset;
  return {};
}

Status CudaDriver::ipc_close_memory(int device, void* pointer) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (Status status; close_pieces(on, pointer, status)) return status;
  const MutexLock lock(opened_mutex_);
  const auto* inside = static_cast<const std::byte*>(pointer);
  for (auto opened = opened_.begin(); opened != opened_.end(); ++opened) {
    if (opened->device != device || inside < opened->base ||
        static_cast<std::size_t>(inside - opened->base) >= opened->bytes)
      continue;
    if (--opened->users > 0) return {};
    const Opened closed = *opened;
    opened_.erase(opened);
    if (closed.epoch != on->epoch()) return {};  // went with the reset
    (void)allocations_.take(closed.base, Kind::imported, device);
    return on->release(
        on, [&] { return api.cuIpcCloseMemHandle(to_cuda(closed.base)); },
        [&] { return "closing another process's memory at " + address_text(closed.base); });
  }
  return Status(Code::invalid_value, "closing " + address_text(pointer) +
                                         ": no memory of another process is open there");
}

// ---- Events

Status CudaDriver::ipc_export_event(EventHandle event, IpcHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(event, on));
  CUipcEventHandle made;
  EMBER_TRY(on->outcome(api.cuIpcGetEventHandle(&made, static_cast<CUevent>(event.native)),
                        [&] { return "sharing event " + address_text(event.native); }));
  out = same_bytes<IpcHandle>(made);
  return {};
}

Status CudaDriver::ipc_open_event(int device, const IpcHandle& handle, EventHandle& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  CUevent made = nullptr;
  const CUresult result = api.cuIpcOpenEventHandle(&made, same_bytes<CUipcEventHandle>(handle));
  const auto what = [&] { return "opening another process's event on " + device_text(device); };
  if (result == CUDA_ERROR_INVALID_CONTEXT)  // its answer to the process that made the handle
    return Status(Code::not_permitted,
                  what() + ": CUDA opens handles in other processes than their own only");
  EMBER_TRY(on->outcome(result, what));
  out = {made, device, on->epoch()};
  return {};
}

// ---- Order

Status CudaDriver::words_open(void* memory, std::size_t bytes) noexcept {
  return host_register(memory, bytes);
}

// Without the wait of host_unregister: no work uses the words any more, and who closes them answers
// other processes, which other work may be waiting for.
Status CudaDriver::words_close(void* memory) noexcept {
  const auto entry = allocations_.take(memory, Kind::registered);
  if (!entry) return Status(Code::host_memory_not_registered, "words at " + address_text(memory));
  if (entry->device == Allocations::kNoDevice) return {};
  ContextGuard on;
  EMBER_TRY(admit(entry->device, on));
  return on->release(
      on, [&] { return api.cuMemHostUnregister(memory); },
      [&] { return "giving back the words at " + address_text(memory); });
}

Status CudaDriver::word_write(StreamHandle stream, Word* word, std::uint64_t value) noexcept {
  ContextGuard on;
  if (!admits(stream, on)) [[unlikely]]
    return refuse(stream, on.admitted());
  EMBER_TRY(refuse_captured(to_cuda(stream), "recording an event for other processes"));
  return on->on_stream(
      on, to_cuda(stream),
      [&] {
        CUdeviceptr place = 0;
        const CUresult found = device_address(word, place);
        if (found != CUDA_SUCCESS) return found;
        // By default it comes behind the memory writes of the work before it.
        return api.cuStreamWriteValue64_v2(to_cuda(stream), place, value,
                                           CU_STREAM_WRITE_VALUE_DEFAULT);
      },
      [&] { return "letting " + text(stream) + " write a word"; });
}

Status CudaDriver::word_wait(StreamHandle stream, Word* word, std::uint64_t value,
                             Ref<const Context>) noexcept {
  ContextGuard on;
  if (!admits(stream, on)) [[unlikely]]
    return refuse(stream, on.admitted());
  EMBER_TRY(refuse_captured(to_cuda(stream), "waiting for another process"));
  return on->on_stream(
      on, to_cuda(stream),
      [&] {
        CUdeviceptr place = 0;
        const CUresult found = device_address(word, place);
        if (found != CUDA_SUCCESS) return found;
        return api.cuStreamWaitValue64_v2(to_cuda(stream), place, value, CU_STREAM_WAIT_VALUE_GEQ);
      },
      [&] { return "letting " + text(stream) + " wait for a word"; });
}

}  // namespace ember::inline v0::driver::cuda
