// Ranges of addresses whose memory comes and goes in chunks. A chunk is one cuMemCreate; its handle
// is released once it is mapped, and the memory lives as long as the mapping.
#include <dlfcn.h>
#include <unistd.h>

#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/cuda_driver.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {
namespace {

using Kind = Allocations::Kind;

CUdeviceptr to_cuda(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

CUmemLocation location_of(const Device& device) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device.id();
  return location;
}

/// Other processes can have it where the device gives out descriptors.
CUmemAllocationProp memory_of(const Device& device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(device);
  int descriptors = 0;
  if (api.cuDeviceGetAttribute(&descriptors,
                               CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                               device.id()) == CUDA_SUCCESS &&
      descriptors != 0)
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUresult set_access(const void* start, std::size_t bytes, const Device& device, bool allowed) {
  CUmemAccessDesc access{};
  access.location = location_of(device);
  access.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return api.cuMemSetAccess(to_cuda(start), bytes, &access, 1);
}

}  // namespace

Status CudaDriver::range_reserve(int device, std::uint32_t epoch, std::size_t bytes, void*& base,
                                 std::size_t& unit) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "epoch of the range");
  EMBER_TRY(on->enter(on));
  const RelaxedMode relaxed;
  int supported = 0;
  std::size_t granularity = 0;
  CUdeviceptr made = 0;
  CUresult result = api.cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, on->id());
  if (result == CUDA_SUCCESS && supported == 0) result = CUDA_ERROR_NOT_SUPPORTED;
  const CUmemAllocationProp properties = memory_of(*on);
  if (result == CUDA_SUCCESS)
    result = api.cuMemGetAllocationGranularity(&granularity, &properties,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result == CUDA_SUCCESS && (bytes == 0 || bytes % granularity != 0))
    return Status(Code::invalid_value, "a range of " + bytes_text(bytes) +
                                           ", expected a positive multiple of " +
                                           bytes_text(granularity));
  if (result == CUDA_SUCCESS) result = api.cuMemAddressReserve(&made, bytes, 0, 0, 0);
  EMBER_TRY(on->outcome(result, [&] {
    return "reserving " + bytes_text(bytes) + " of addresses of " + device_text(device);
  }));
  base = reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr)
  unit = granularity;
  any_range_.store(true, std::memory_order_relaxed);
  const MutexLock lock(ranges_mutex_);
  ranges_[base] = {device, bytes, granularity};
  return {};
}

Status CudaDriver::range_release(int device, std::uint32_t epoch, void* base) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "range");
  const RelaxedMode relaxed;
  const MutexLock lock(ranges_mutex_);
  const auto found = ranges_.find(base);
  if (found == ranges_.end() || found->second.device != device)
    return Status(Code::invalid_value, "base is " + address_text(base) +
                                           ", expected the start of a range of " +
                                           device_text(device));
  const std::size_t bytes = found->second.bytes;
  if (allocations_.any_within(base, bytes))
    return Status(Code::invalid_value,
                  "the range at " + address_text(base) + " still has memory behind it");
  EMBER_TRY(on->release(
      on, [&] { return api.cuMemAddressFree(to_cuda(base), bytes); },
      [&] { return "giving back the range at " + address_text(base); }));
  ranges_.erase(found);
  return {};
}

Status CudaDriver::range_map(int device, std::uint32_t epoch, void* start,
                             std::size_t bytes) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "range");
  EMBER_TRY(on->enter(on));
  const RelaxedMode relaxed;
  const MutexLock lock(ranges_mutex_);
  auto range = ranges_.upper_bound(start);
  const bool known = range != ranges_.begin() && (--range)->second.device == device;
  const std::size_t offset = known ? static_cast<std::size_t>(static_cast<std::byte*>(start) -
                                                              static_cast<std::byte*>(range->first))
                                   : 0;
  if (!known || bytes == 0 || offset >= range->second.bytes ||
      bytes > range->second.bytes - offset || offset % range->second.unit != 0 ||
      bytes % range->second.unit != 0 || allocations_.any_within(start, bytes))
    return Status(Code::invalid_value,
                  "mapping " + bytes_text(bytes) + " at " + address_text(start) +
                      ": expected whole units without memory in a range of " + device_text(device));
  EMBER_TRY(on->outcome(put_chunk(*on, to_cuda(start), bytes), [&] {
    return "mapping " + bytes_text(bytes) + " at " + address_text(start) + " of " +
           device_text(device);
  }));
  allocations_.add(start, {Kind::chunk, device, bytes});
  return {};
}

CUresult CudaDriver::put_chunk(Device& on, CUdeviceptr start, std::size_t bytes) noexcept {
  const CUmemAllocationProp properties = memory_of(on);
  CUmemGenericAllocationHandle chunk{};
  CUresult result = api.cuMemCreate(&chunk, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  return map_chunk(on, start, bytes, chunk);
}

// Unless it is mapped the chunk is gone.
CUresult CudaDriver::map_chunk(Device& on, CUdeviceptr start, std::size_t bytes,
                               CUmemGenericAllocationHandle chunk) noexcept {
  CUresult result = api.cuMemMap(start, bytes, 0, chunk, 0);
  (void)api.cuMemRelease(chunk);
  if (result != CUDA_SUCCESS) return result;
  std::vector<CUmemAccessDesc> access;
  const auto allow = [&](const Device& device) {
    access.push_back({location_of(device), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  };
  allow(on);
  for (const auto& [device, peer] : peers_)
    if (peer == on.index()) allow(*devices_[static_cast<std::size_t>(device)]);
  result = api.cuMemSetAccess(start, bytes, access.data(), access.size());
  if (result != CUDA_SUCCESS) (void)api.cuMemUnmap(start, bytes);
  return result;
}

Status CudaDriver::range_unmap(int device, std::uint32_t epoch, void* start,
                               std::size_t bytes) noexcept {
  ContextGuard on;
  EMBER_TRY(admit(device, on));
  if (epoch != on->epoch()) return refuse_old(device, "memory");
  const RelaxedMode relaxed;
  const MutexLock lock(ranges_mutex_);
  const auto entry = allocations_.take(start, Kind::chunk, device);
  Status status;
  if (!entry || entry->bytes != bytes)
    status = Status(Code::invalid_value, "unmapping " + bytes_text(bytes) + " at " +
                                             address_text(start) + ": expected a whole chunk of " +
                                             device_text(device));
  else
    status = on->release(
        on, [&] { return api.cuMemUnmap(to_cuda(start), bytes); },
        [&] { return "unmapping " + bytes_text(bytes) + " at " + address_text(start); });
  if (!status.ok() && entry) allocations_.add(start, *entry);
  return status;
}

CUresult CudaDriver::set_access(Device& device, int peer, bool allowed) noexcept {
  const std::vector<Allocations::Found> chunks = allocations_.chunks_of(peer);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const CUresult result =
        cuda::set_access(chunks[i].base, chunks[i].entry.bytes, device, allowed);
    if (result == CUDA_SUCCESS) continue;
    while (i-- > 0) (void)cuda::set_access(chunks[i].base, chunks[i].entry.bytes, device, !allowed);
    return result;
  }
  return CUDA_SUCCESS;
}

// Without access between two devices CUDA finds a way for memory of cuMemAlloc by itself; for that
// of ranges it has to be told whose it is.
CUresult CudaDriver::copy_async(void* target, const void* source, std::size_t bytes,
                                CUstream stream) noexcept {
  if (any_range_.load(std::memory_order_relaxed)) [[unlikely]] {
    const auto to = allocations_.find(target), from = allocations_.find(source);
    const auto on_device = [](const auto& found) {
      return found && found->entry.device != Allocations::kNoDevice &&
             (found->entry.kind == Kind::device || found->entry.kind == Kind::chunk);
    };
    CUcontext there = nullptr, here = nullptr;
    if (on_device(to) && on_device(from) && to->entry.device != from->entry.device &&
        (to->entry.kind == Kind::chunk || from->entry.kind == Kind::chunk) &&
        devices_[static_cast<std::size_t>(to->entry.device)]->context(there).ok() &&
        devices_[static_cast<std::size_t>(from->entry.device)]->context(here).ok()) {
      static const auto copy = reinterpret_cast<decltype(&::cuMemcpyPeerAsync)>(
          dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemcpyPeerAsync"));
      if (copy == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      return copy(to_cuda(target), there, to_cuda(source), here, bytes, stream);
    }
  }
  return api.cuMemcpyAsync(to_cuda(target), to_cuda(source), bytes, stream);
}

// ---- Between processes

Status CudaDriver::ipc_export_pieces(void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                                     std::size_t& in_front) noexcept {
  const auto found = allocations_.find(pointer);
  const auto* const first = static_cast<const std::byte*>(pointer);
  if (!found || found->entry.kind != Kind::chunk || bytes == 0 ||
      bytes > found->entry.bytes -
                  static_cast<std::size_t>(first - static_cast<const std::byte*>(found->base)))
    return Status(Code::invalid_value, "sharing " + bytes_text(bytes) + " at " +
                                           address_text(pointer) +
                                           ": expected memory behind a range");
  ContextGuard on;
  EMBER_TRY(enter(found->entry.device, on));
  const RelaxedMode relaxed;
  const MutexLock lock(ranges_mutex_);
  std::vector<IpcPiece> pieces;
  CUresult result = CUDA_SUCCESS;
  for (const Allocations::Found& chunk : allocations_.chunks_of(found->entry.device)) {
    const auto* const start = static_cast<const std::byte*>(chunk.base);
    if (start + chunk.entry.bytes <= first || start >= first + bytes) continue;
    if (pieces.empty()) in_front = static_cast<std::size_t>(first - start);
    CUmemGenericAllocationHandle handle{};
    result = api.cuMemRetainAllocationHandle(&handle, chunk.base);
    if (result != CUDA_SUCCESS) break;
    int file = -1;
    result = api.cuMemExportToShareableHandle(&file, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    (void)api.cuMemRelease(handle);
    if (result != CUDA_SUCCESS) break;
    pieces.push_back({file, 0, chunk.entry.bytes});
  }
  if (result != CUDA_SUCCESS)
    for (const IpcPiece& piece : pieces) (void)close(piece.file);
  EMBER_TRY(on->outcome(result, [&] { return "sharing memory at " + address_text(pointer); }));
  out = std::move(pieces);
  return {};
}

// It becomes a range like the allocator's own: peers reach it, and a reset takes it.
Status CudaDriver::ipc_open_pieces(int device, std::span<const IpcPiece> pieces,
                                   std::size_t in_front, std::size_t bytes, void*& out) noexcept {
  ContextGuard on;
  EMBER_TRY(enter(device, on));
  const RelaxedMode relaxed;
  std::size_t granularity = 0;
  const CUmemAllocationProp properties = memory_of(*on);
  EMBER_TRY(on->outcome(api.cuMemGetAllocationGranularity(&granularity, &properties,
                                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                        [&] { return "asking for the pages of " + device_text(device); }));
  constexpr std::size_t kMost = std::size_t{1} << 60;
  std::size_t total = 0;
  for (const IpcPiece& piece : pieces) {
    if (piece.bytes == 0 || piece.bytes % granularity != 0 || piece.bytes > kMost - total ||
        piece.offset != 0)
      return Status(Code::invalid_value, "another process's memory comes in a piece of " +
                                             bytes_text(piece.bytes) + ", expected multiples of " +
                                             bytes_text(granularity));
    total += piece.bytes;
  }
  if (bytes == 0 || in_front > total || bytes > total - in_front)
    return Status(Code::invalid_value, "another process's memory has " + bytes_text(total) +
                                           ", expected " + bytes_text(bytes) + " from " +
                                           std::to_string(in_front) + " on");
  const MutexLock lock(ranges_mutex_);
  CUdeviceptr base = 0;
  CUresult result = api.cuMemAddressReserve(&base, total, 0, 0, 0);
  CUdeviceptr at = base;
  if (result == CUDA_SUCCESS) {
    for (const IpcPiece& piece : pieces) {
      CUmemGenericAllocationHandle chunk{};
      result = api.cuMemImportFromShareableHandle(
          &chunk, reinterpret_cast<void*>(static_cast<std::uintptr_t>(piece.file)),  // NOLINT
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      if (result == CUDA_SUCCESS) result = map_chunk(*on, at, piece.bytes, chunk);
      if (result != CUDA_SUCCESS) break;
      at += piece.bytes;
    }
    if (result != CUDA_SUCCESS) {
      CUdeviceptr mapped = base;
      for (const IpcPiece& piece : pieces) {
        if (mapped == at) break;
        (void)api.cuMemUnmap(mapped, piece.bytes);
        mapped += piece.bytes;
      }
      (void)api.cuMemAddressFree(base, total);
    }
  }
  EMBER_TRY(on->outcome(result, [&] {
    return "opening " + bytes_text(bytes) + " of another process on " + device_text(device);
  }));
  void* const start = reinterpret_cast<void*>(base);  // NOLINT(performance-no-int-to-ptr)
  auto* piece_at = static_cast<std::byte*>(start);
  for (const IpcPiece& piece : pieces) {
    allocations_.add(piece_at, {Kind::chunk, device, piece.bytes});
    piece_at += piece.bytes;
  }
  ranges_[start] = {device, total, granularity};
  any_range_.store(true, std::memory_order_relaxed);
  out = static_cast<std::byte*>(start) + in_front;
  opened_pieces_[out] = {device, on->epoch(), start};
  return {};
}

bool CudaDriver::close_pieces(ContextGuard& on, void* pointer, Status& status) noexcept {
  OpenedPieces closed;
  {
    const MutexLock lock(ranges_mutex_);
    const auto opened = opened_pieces_.find(pointer);
    if (opened == opened_pieces_.end() || opened->second.device != on->index()) return false;
    closed = opened->second;
    opened_pieces_.erase(opened);
  }
  if (closed.epoch != on->epoch()) return true;  // went with the reset
  status = on->release(
      on,
      [&] {
        // Unlike that of an opened handle, the end of a mapping waits for nothing.
        const CUresult waited = api.cuCtxSynchronize();
        const CUresult given_back = release_pieces(closed);
        return waited == CUDA_SUCCESS ? given_back : waited;
      },
      [&] { return "closing another process's memory at " + address_text(pointer); });
  return true;
}

CUresult CudaDriver::release_pieces(const OpenedPieces& closed) noexcept {
  const MutexLock lock(ranges_mutex_);
  const auto range = ranges_.find(closed.base);
  if (range == ranges_.end()) return CUDA_SUCCESS;
  const std::size_t bytes = range->second.bytes;
  const auto* const start = static_cast<const std::byte*>(closed.base);
  CUresult result = CUDA_SUCCESS;
  for (const Allocations::Found& chunk : allocations_.chunks_of(closed.device)) {
    const auto* const at = static_cast<const std::byte*>(chunk.base);
    if (at < start || at >= start + bytes) continue;
    (void)allocations_.take(chunk.base, Kind::chunk, closed.device);
    const CUresult unmapped = api.cuMemUnmap(to_cuda(chunk.base), chunk.entry.bytes);
    if (result == CUDA_SUCCESS) result = unmapped;
  }
  const CUresult freed = api.cuMemAddressFree(to_cuda(closed.base), bytes);
  ranges_.erase(range);
  return result == CUDA_SUCCESS ? freed : result;
}

void CudaDriver::drop_ranges(int device) noexcept {
  const MutexLock lock(ranges_mutex_);
  for (const Allocations::Found& chunk : allocations_.chunks_of(device))
    (void)api.cuMemUnmap(to_cuda(chunk.base), chunk.entry.bytes);
  std::erase_if(ranges_, [&](const auto& range) {
    if (range.second.device != device) return false;
    (void)api.cuMemAddressFree(to_cuda(range.first), range.second.bytes);
    return true;
  });
  std::erase_if(peers_,
                [&](const auto& pair) { return pair.first == device || pair.second == device; });
}

}  // namespace ember::inline v0::driver::cuda
