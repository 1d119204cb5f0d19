// Sharing between processes, as the simulated driver has it: memory is the file behind a device,
// and order is a number in shared memory.

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

// All memory is in files. Cards and fabrics are not simulated.
Status SimDriver::memory_sharing(const void* pointer, MemorySharing& out) noexcept {
  PointerInfo info;
  if (!machine_.arena.find(pointer, info)) {
    char text[96];
    std::snprintf(text, sizeof text, "pointer %p: expected device memory in use", pointer);
    return Status(Code::invalid_value, text);
  }
  out = {};
  out.fd =
      machine_.arena.is_own(pointer) ? MemorySharing::Way::yes : MemorySharing::Way::other_memory;
  return {};
}

Status SimDriver::ipc_export_memory(void* pointer, IpcExport& out) noexcept {
  IpcExport made;
  if (PointerInfo info; machine_.arena.is_of_range(pointer) && machine_.arena.find(pointer, info)) {
    out = {};
    out.in_pieces = true;
    return {};
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

Status SimDriver::ipc_export_pieces(void* pointer, std::size_t bytes, std::vector<IpcPiece>& out,
                                    std::size_t& in_front) noexcept {
  std::vector<IpcPiece> pieces;
  std::size_t skipped = 0;
  if (!machine_.arena.pieces_of(pointer, bytes, pieces, skipped)) {
    char text[128];
    std::snprintf(text, sizeof text, "sharing %zu bytes at %p: expected memory behind a range",
                  bytes, pointer);
    return Status(Code::invalid_value, text);
  }
  const int file = fcntl(pieces.front().file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return Status(Code::unknown, std::string("dup failed: ") + std::strerror(errno));
  for (IpcPiece& piece : pieces) piece.file = file;
  out = std::move(pieces);
  in_front = skipped;
  return {};
}

Status SimDriver::ipc_open_pieces(int device, std::span<const IpcPiece> pieces,
                                  std::size_t in_front, std::size_t bytes, void*& out) noexcept {
  EMBER_TRY(enter(device));
  return machine_.arena.imports().open(device, device_epoch(device), pieces, in_front, bytes, out);
}

Status SimDriver::ipc_open_memory(int device, const IpcHandle&, int file, std::size_t offset,
                                  std::size_t bytes, void*& out) noexcept {
  EMBER_TRY(enter(device));
  if (offset > (std::size_t{1} << 60) || bytes > (std::size_t{1} << 60))
    return Status(Code::invalid_value, "memory of another process: " + std::to_string(bytes) +
                                           " bytes from " + std::to_string(offset) +
                                           " on, expected less than 2^60");
  const IpcPiece piece{file, offset, bytes};
  return machine_.arena.imports().open(device, device_epoch(device), {&piece, 1}, 0, bytes, out);
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
