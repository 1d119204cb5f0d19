// Sharing between processes, as the simulated driver has it: memory is the file behind a device,
// and order is a number in shared memory.

#include <cstdio>
#include <string>
#include <utility>

#include "ember/driver/sim/sim_driver.h"

namespace ember::inline v0::driver::sim {
namespace {

Status check_word(const Word* word) {
  if (word != nullptr) return {};
  return Status(Code::invalid_value, "a word of null, expected an address");
}

}  // namespace

// Memory is a file, but chunks are pieces of it from anywhere. Cards and fabrics are not simulated.
Status SimDriver::memory_sharing(const void* pointer, MemorySharing& out) noexcept {
  PointerInfo info;
  if (!machine_.arena.find(pointer, info)) {
    char text[96];
    std::snprintf(text, sizeof text, "pointer %p: expected device memory in use", pointer);
    return Status(Code::invalid_value, text);
  }
  const bool whole = machine_.arena.is_own(pointer) && !machine_.arena.is_of_range(pointer);
  out = {};
  out.fd = whole ? MemorySharing::Way::yes : MemorySharing::Way::other_memory;
  return {};
}

Status SimDriver::ipc_export_memory(void* pointer, IpcExport& out) noexcept {
  IpcExport made;
  if (PointerInfo info; machine_.arena.is_of_range(pointer) && machine_.arena.find(pointer, info)) {
    char text[80];
    std::snprintf(text, sizeof text, "sharing %p: it lies in a range of addresses", pointer);
    return Status(Code::not_supported, text);
  }
  if (!machine_.arena.file_of(pointer, made.file, made.offset)) {
    char text[112];
    std::snprintf(text, sizeof text, "sharing %p: expected device memory of this process's own",
                  pointer);
    return Status(Code::invalid_value, text);
  }
  out = made;
  return {};
}

Status SimDriver::ipc_open_memory(int device, const IpcHandle&, int file, std::size_t offset,
                                  std::size_t bytes, void*& out) noexcept {
  EMBER_TRY(enter(device));
  if (offset > (std::size_t{1} << 60) || bytes > (std::size_t{1} << 60))
    return Status(Code::invalid_value, "memory of another process: " + std::to_string(bytes) +
                                           " bytes from " + std::to_string(offset) +
                                           " on, expected less than 2^60");
  return machine_.arena.imports().open(device, device_epoch(device), file, offset, bytes, out);
}

Status SimDriver::ipc_close_memory(int device, void* pointer) noexcept {
  EMBER_TRY(check_device(device));
  return machine_.arena.imports().close(device, pointer);
}

Status SimDriver::word_write(StreamHandle handle, Word* word, std::uint64_t value) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(check_word(word));
  if (stream->capturing())
    EMBER_TRY(captures_.refuse(*stream, "recording an event for other processes"));
  Point done;
  return stream->submit(handle.epoch, Task::Kind::word_write, {"word write"},
                        Params(WordArgs{word, value}), done);
}

Status SimDriver::word_wait(StreamHandle handle, Word* word, std::uint64_t value,
                            Ref<const Context> keep) noexcept {
  Stream* stream = nullptr;
  EMBER_TRY(enter(handle, stream));
  EMBER_TRY(check_word(word));
  if (stream->capturing()) EMBER_TRY(captures_.refuse(*stream, "waiting for another process"));
  Kernel kernel{"wait for another process"};
  kernel.context = std::move(keep);
  Point done;
  return stream->submit(handle.epoch, Task::Kind::word_wait, kernel, Params(WordArgs{word, value}),
                        done);
}

}  // namespace ember::inline v0::driver::sim
