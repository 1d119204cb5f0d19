// Handles of this process's memory, and of memory that it received itself.
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "ember/base/error.h"
#include "ember/ipc/devices.h"
#include "ember/ipc/ipc.h"
#include "ember/ipc/service.h"
#include "ember/ipc/steps.h"
#include "ember/memory/allocators.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::ipc {
namespace {

Handle bytes_of_record(const Record& record) {
  static_assert(sizeof(Record) == kHandleBytes);
  Handle handle;
  std::memcpy(handle.data(), &record, sizeof record);
  return handle;
}

/// What records of all memory of this process have in common.
Record own_record(Kind kind, std::size_t bytes) {
  const Process& self = Service::get().self();
  Record record;
  record.kind = kind;
  record.machine = this_machine();
  record.owner = self.id;
  record.start = self.start;
  record.bytes = bytes;
  return record;
}

Source source_on_device(const Storage& storage) {
  driver::Driver& driver = cuda::active_driver();
  const int device = storage.device().index();
  memory::DeviceAllocator* const allocator = memory::allocator_if_made(device);
  if (allocator != nullptr && allocator->is_asleep(storage.data()))
    throw Error(
        "Tensors of a pool that is asleep cannot be shared between processes: offload() has moved "
        "its memory to the host; call restore() first");
  driver::IpcExport exported;
  const Status status = driver.ipc_export_memory(storage.data(), exported);
  // Which other memory cannot be shared, the driver says.
  if (status.code() == Code::not_supported && allocator != nullptr &&
      allocator->is_in_growing(storage.data()))
    throw Error(
        "Tensors allocated with expandable_segments:True cannot be shared between processes. "
        "Consider using expandable_segments:False in data loading workers via "
        "ember.cuda.memory._set_allocator_settings('expandable_segments:False')");
  check(status);
  driver::DeviceProperties properties;
  check(driver.device_properties(device, properties));
  Source source;
  source.record = own_record(exported.in_pieces   ? Kind::pieces
                             : exported.file >= 0 ? Kind::file
                                                  : Kind::native,
                             storage.bytes());
  source.record.device = properties.uuid;
  source.record.epoch = storage.epoch();
  source.record.offset = exported.offset;
  source.record.extent = exported.extent;
  std::memcpy(source.record.native.data(), exported.handle.bytes, sizeof exported.handle.bytes);
  source.descriptor = exported.file;
  // What other processes write there nobody sees.
  cuda::notify([&]() -> cuda::Activity {
    return {.kind = cuda::Activity::Kind::host_exposed,
            .device = device,
            .name = "send",
            .address = storage.data(),
            .bytes = storage.bytes()};
  });
  return source;
}

Source source_on_host(const Storage& storage) {
  const auto* shared = dynamic_cast<const SharedHostMemory*>(storage.foreign());
  if (shared == nullptr || !shared->is_own())
    throw ValueError(
        "send: ordinary memory of the CPU cannot be shared; allocate it with allocate_shared, or "
        "call share_memory_ of the tensor");
  Source source;
  source.record = own_record(Kind::host, storage.bytes());
  source.record.file = shared->piece().file;
  source.record.offset = shared->piece().offset;
  return source;
}

/// A word that becomes the value when the work is done that the current stream holds. None if the
/// stream had to be waited for in its place, since all words are in use.
Ready when_ready(const Storage& storage) {
  Service& service = Service::get();
  const cuda::Stream stream = cuda::current_stream(storage.device());
  driver::Driver& driver = cuda::active_driver();
  Ready ready;
  Ref<WordsFile> file;
  {
    const MutexLock lock(service.mutex);
    if (service.words.take(ready.cell).ok()) {
      // Other processes write there as well, and may have written anything.
      const std::uint64_t now = ready.cell.word->load(std::memory_order_relaxed);
      if (WordPool::is_usable(now)) {
        ready.value = now + 1;
        file = service.words.file();
      } else {
        service.words.give_back(ready.cell);
      }
    }
  }
  Status status(Code::not_supported);
  if (ready.value != 0) {
    status = file->open_with(driver);
    if (status.ok()) status = driver.word_write(stream.handle(), ready.cell.word, ready.value);
    if (status.ok()) status = finish_if_seeded(stream.handle());
  }
  if (status.ok()) return ready;
  if (ready.value != 0) {
    WordPool::Files retired;  // go after the lock
    const MutexLock lock(service.mutex);
    service.words.give_back(ready.cell);
    service.wake();
    retired = service.retired_words();
  }
  stream.synchronize();
  return {};
}

/// What went wrong then did so in sending.
Reply ask_to_forward(Service& service, const Process& owner, const Request& request) {
  std::vector<File> none;
  try {
    return service.ask(owner, request, none);
  } catch (const Error& error) {
    constexpr std::string_view kReceiving = "cannot receive: ";
    const std::string_view text = error.what();
    if (!text.starts_with(kReceiving)) throw;
    throw Error("cannot send: " + std::string(text.substr(kReceiving.size())));
  }
}

Record forward(const ImportedMemory& memory) {
  const Import& import = *memory.import();
  Service& service = Service::get();
  at(Step::before_forward);
  // The third process waits for the owner's work, and knows nothing of this one's.
  if (import.device.is_cuda()) cuda::current_stream(import.device).synchronize();
  Request request;
  request.verb = Verb::forward;
  request.start = service.self().start;
  request.lease = import.lease;
  const Reply reply = ask_to_forward(service, import.owner, request);
  at(Step::forwarded);
  if (!check_record(reply.record).ok() || !(reply.record.process() == import.owner))
    throw Error("send: the memory's owner answered with a handle that is none of its own");
  return reply.record;
}

}  // namespace

Handle send(const Ref<Storage>& storage, int receivers) {
  if (!storage || storage->bytes() == 0)
    throw ValueError("send: a storage without bytes needs no handle");
  if (receivers < 1 || receivers > 1'000'000)
    throw ValueError("send: receivers is " + std::to_string(receivers) + ", expected 1 to 1000000");
  storage->require_alive();
  if (const auto* memory = dynamic_cast<const ImportedMemory*>(storage->foreign())) {
    if (receivers != 1)
      throw ValueError("send: memory of another process goes to one receiver for each handle");
    return bytes_of_record(forward(*memory));
  }
  const bool on_device = storage->device().is_cuda();
  // An event tells the receiver when it is ready, and the wait for one is no part of a graph.
  if (on_device) cuda::refuse_captured(storage->device().index(), "sending memory to a process");
  const Source source = on_device ? source_on_device(*storage) : source_on_host(*storage);
  Service& service = Service::get();
  {
    const MutexLock lock(service.mutex);
    service.start(true);  // fails before anything is enqueued
  }
  const Ready ready = on_device ? when_ready(*storage) : Ready();
  Record record;
  try {
    const MutexLock lock(service.mutex);
    service.start(true);  // once more: it may have ended, having nothing to do, meanwhile
    record = service.exports.send(storage, source, receivers, ready);
  } catch (...) {
    if (ready.value != 0) {
      const MutexLock lock(service.mutex);
      service.words.give_back_at(ready.cell, ready.value);
    }
    throw;
  }
  at(Step::sent);
  return bytes_of_record(record);
}

}  // namespace ember::inline v0::ipc
