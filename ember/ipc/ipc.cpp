// Looking after shared memory, and memory of the CPU that can be sent. Sending is in send.cpp,
// receiving in receive.cpp.
#include "ember/ipc/ipc.h"

#include <cstring>
#include <utility>

#include "ember/base/error.h"
#include "ember/ipc/devices.h"
#include "ember/ipc/service.h"
#include "ember/tensor/accesses.h"

namespace ember::inline v0::ipc {
namespace {

Lease lease_of(const Record& record, std::int32_t process, bool granted) {
  Lease lease;
  lease.granted = granted;
  lease.process = process;
  lease.device = device_text(record);
  lease.bytes = record.bytes;
  return lease;
}

}  // namespace

SharedHostMemory::~SharedHostMemory() {
  Service* service = Service::of_generation(generation_);
  if (service == nullptr) return;  // a forked child has the parent's memory as it is
  const MutexLock lock(service->mutex);
  service->host.free(piece_);
}  // NOLINT(clang-analyzer-cplusplus.NewDelete): it does not follow the nodes of maps

bool SharedHostMemory::is_own() const noexcept { return generation_ == Service::generation(); }

Ref<Storage> allocate_shared(std::size_t bytes) {
  Service& service = Service::get();
  HostPool::Piece piece;
  if (bytes > 0) {
    const MutexLock lock(service.mutex);
    if (const Status status = service.host.allocate(bytes, piece); !status.ok()) {
      if (status.code() == Code::out_of_memory) throw OutOfMemoryError(status.detail());
      throw Error(status.detail());
    }
  }
  return Storage::adopt_foreign(Device("cpu"), piece.data, bytes,
                                std::make_unique<SharedHostMemory>(piece, Service::generation()));
}

bool is_shared(const Tensor& tensor) {
  const Storage& storage = *tensor.storage();
  return storage.device().is_cuda() ||
         dynamic_cast<SharedHostMemory*>(storage.foreign()) != nullptr ||
         dynamic_cast<ImportedMemory*>(storage.foreign()) != nullptr;
}

Ref<Storage> shared_copy(const Ref<Storage>& storage) {
  if (!storage) throw ValueError("shared_copy: storage: got null, expected one with memory");
  storage->require_alive();
  const auto* own = dynamic_cast<SharedHostMemory*>(storage->foreign());
  if (storage->device().is_cuda() || (own != nullptr && own->is_own()) ||
      dynamic_cast<ImportedMemory*>(storage->foreign()) != nullptr)
    return storage;
  if (own != nullptr)
    throw Error(
        "send: the memory is shared with the process that this one was forked from, and only that "
        "one can send it; send a clone() of the tensor, or start the process by spawn or "
        "forkserver and send it the tensor");
  ops::host_reads("share_memory_", *storage);
  Ref<Storage> copy = allocate_shared(storage->bytes());
  if (storage->bytes() > 0) std::memcpy(copy->data(), storage->data(), storage->bytes());
  return copy;
}

void share_memory_(const Tensor& tensor) {
  if (is_shared(tensor)) return;
  tensor.set_(Tensor(shared_copy(tensor.storage()), tensor.dtype(), tensor.sizes(),
                     tensor.strides(), tensor.storage_offset()));
}

std::vector<Lease> leases() {
  Service& service = Service::get();
  std::vector<Lease> all;
  const MutexLock lock(service.mutex);
  for (const Exports::Lease& granted : service.exports.leases())
    all.push_back(lease_of(granted.record, granted.holder.id, true));
  for (const auto& import : service.imports.held) {
    all.push_back(lease_of(import->record, import->owner.id, false));
    all.back().failed = import->failed.load();
  }
  return all;
}

void collect() noexcept { Service::get().collect(); }

void end_process() noexcept { Service::get().end(); }

std::size_t unreceived() {
  Service& service = Service::get();
  const MutexLock lock(service.mutex);
  return service.exports.unreceived();
}

bool undone() {
  Service& service = Service::get();
  const MutexLock lock(service.mutex);
  const bool owed = service.words.settle();
  return owed || service.replying() || service.exports.undone() != 0;
}

void withdraw(std::span<const std::uint8_t> handle) noexcept {
  Record record;
  Service& service = Service::get();
  if (!parse_record(handle, record).ok() || !(record.process() == service.self())) return;
  Exports::Gone gone;  // goes after the lock
  const MutexLock lock(service.mutex);
  service.exports.withdraw(record, gone);
  service.wake();
}

void withdraw_all() {
  Service& service = Service::get();
  Exports::Gone gone;  // goes after the lock
  const MutexLock lock(service.mutex);
  service.exports.withdraw_all(gone);
  service.wake();
}

}  // namespace ember::inline v0::ipc
