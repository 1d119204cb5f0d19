#include "ember/driver/cuda/staging.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/copy_team.h"

namespace ember::inline v0::driver::cuda {
namespace {

void* to_host(CUdeviceptr pointer) noexcept { return reinterpret_cast<void*>(pointer); }

/// CU_MEMORYTYPE_..., or zero for what CUDA knows nothing of.
unsigned memory_type(CUdeviceptr pointer) noexcept {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* values[] = {&type};
  return api.cuPointerGetAttributes(1, &attribute, values, pointer) == CUDA_SUCCESS ? type : 0;
}

bool is_device(CUdeviceptr pointer) noexcept {
  return memory_type(pointer) == CU_MEMORYTYPE_DEVICE;
}

/// Ordinary memory is what CUDA knows nothing of and the host can read. (Asking the kernel to read
/// it: addresses of device memory that was freed are neither, and touching them would end the
/// process where CUDA reports an error.)
bool is_pageable(CUdeviceptr pointer, std::size_t bytes) noexcept {
  if (memory_type(pointer) != 0) return false;
  char ends[2];
  iovec here{ends, sizeof ends};
  iovec there[] = {{to_host(pointer), 1}, {to_host(pointer + bytes - 1), 1}};
  return process_vm_readv(getpid(), &here, 1, there, 2, 0) == 2;
}

}  // namespace

struct Staging::Set {
  static constexpr std::size_t kBytes = kPieces * kLargePiece;
  std::byte* memory = nullptr;
  std::array<CUevent, kPieces> done{};

  ~Set() {
    if (memory != nullptr) munmap(memory, kBytes);
  }
  bool make() noexcept {
    void* pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return false;
    memory = static_cast<std::byte*>(pages);
    (void)madvise(memory, kBytes, MADV_HUGEPAGE);
    if (api.cuMemHostRegister_v2(memory, kBytes, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS)
      return false;
    for (CUevent& event : done) {
      if (api.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) continue;
      for (CUevent* made = done.data(); made != &event; ++made) (void)api.cuEventDestroy_v2(*made);
      (void)api.cuMemHostUnregister(memory);
      return false;
    }
    return true;
  }
  bool idle() const noexcept {
    return std::all_of(done.begin(), done.end(),
                       [](CUevent event) { return api.cuEventQuery(event) == CUDA_SUCCESS; });
  }
  CUevent event(std::size_t i) const noexcept { return done[i % kPieces]; }

  CUresult to_device(CUdeviceptr target, const std::byte* source, std::size_t bytes,
                     CUstream stream) noexcept {
    const std::size_t most = piece_of(bytes);
    for (std::size_t i = 0, at = 0; at < bytes; ++i, at += most) {
      const std::size_t size = std::min(most, bytes - at);
      std::byte* const piece = memory + i % kPieces * most;
      if (CUresult result = api.cuEventSynchronize(event(i)); result != CUDA_SUCCESS) return result;
      copy_by_team(piece, source + at, size);
      if (CUresult result = step(target + at, address(piece), size, event(i), stream);
          result != CUDA_SUCCESS)
        return result;
    }
    return CUDA_SUCCESS;
  }

  CUresult to_host(std::byte* target, CUdeviceptr source, std::size_t bytes,
                   CUstream stream) noexcept {
    const std::size_t most = piece_of(bytes);
    const std::size_t count = (bytes + most - 1) / most;
    const auto size = [&](std::size_t i) { return std::min(most, bytes - i * most); };
    const auto piece = [&](std::size_t i) { return memory + i % kPieces * most; };
    for (std::size_t i = 0; i < count + kPieces; ++i) {
      if (i >= kPieces && i - kPieces < count) {
        const std::size_t arrived = i - kPieces;
        if (CUresult result = api.cuEventSynchronize(event(arrived)); result != CUDA_SUCCESS)
          return result;
        copy_by_team(target + arrived * most, piece(arrived), size(arrived));
      }
      if (i >= count) continue;
      if (CUresult result = step(address(piece(i)), source + i * most, size(i), event(i), stream);
          result != CUDA_SUCCESS)
        return result;
    }
    return CUDA_SUCCESS;
  }

 private:
  /// Larger pieces cost the team fewer meetings, smaller ones let the first copy start sooner.
  static constexpr std::size_t piece_of(std::size_t bytes) noexcept {
    return bytes < 16 * kLargePiece ? kPiece : kLargePiece;
  }
  static CUdeviceptr address(const std::byte* piece) noexcept {
    return reinterpret_cast<CUdeviceptr>(piece);
  }
  static CUresult step(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUevent event,
                       CUstream stream) noexcept {
    const CUresult result = api.cuMemcpyAsync(target, source, bytes, stream);
    return result != CUDA_SUCCESS ? result : api.cuEventRecordWithFlags(event, stream, 0);
  }
};

Staging::Staging() = default;
Staging::~Staging() = default;

Staging::Outcome Staging::copy(CUdeviceptr target, CUdeviceptr source, std::size_t bytes,
                               CUstream stream, CUresult& result) noexcept {
  if (bytes < kFrom || !copy_team_is_faster()) return Outcome::left_to_cuda;
  const bool up = is_device(target) && is_pageable(source, bytes);
  const bool down = !up && is_device(source) && is_pageable(target, bytes);
  if (!up && !down) return Outcome::left_to_cuda;
  if (captured_graph(stream) != nullptr) {  // the pieces are needed again before any replay
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return Outcome::done;
  }
  Set* set = take();
  if (set == nullptr) return Outcome::left_to_cuda;
  if (up)
    result = set->to_device(target, static_cast<const std::byte*>(to_host(source)), bytes, stream);
  else
    result = set->to_host(static_cast<std::byte*>(to_host(target)), source, bytes, stream);
  give_back(set);
  return Outcome::done;
}

Staging::Set* Staging::take() noexcept {
  {
    const MutexLock lock(mutex_);
    // One whose last copies are not over would make this copy wait for another stream.
    for (auto set = free_.begin(); set != free_.end(); ++set) {
      if (!(*set)->idle()) continue;
      Set* found = *set;
      free_.erase(set);
      return found;
    }
    if (all_.size() >= kMostSets) return nullptr;
  }
  // Page-locking takes milliseconds: not under the lock.
  std::unique_ptr<Set> made(new (std::nothrow) Set);
  if (made == nullptr || !made->make()) return nullptr;
  const MutexLock lock(mutex_);
  all_.push_back(std::move(made));
  free_.reserve(all_.size());
  return all_.back().get();
}

void Staging::give_back(Set* set) noexcept {
  const MutexLock lock(mutex_);
  free_.push_back(set);
}

void Staging::forget() noexcept {
  const MutexLock lock(mutex_);
  free_.clear();
  all_.clear();
}

}  // namespace ember::inline v0::driver::cuda
