#include "ember/driver/sim/imports.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "ember/driver/sim/pinned.h"

namespace ember::inline v0::driver::sim {
namespace {

Status failed(const char* what) {
  return Status(Code::map_failed, std::string(what) + " failed: " + std::strerror(errno));
}

Status check_file(int file, std::size_t offset, std::size_t bytes) {
  struct stat about {};
  if (fstat(file, &about) != 0) return failed("fstat of another process's memory");
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(Code::invalid_value,
                  "the memory of another process is not sealed against shrinking");
  const auto size = static_cast<std::size_t>(about.st_size);
  if (bytes == 0 || offset > size || bytes > size - offset)
    return Status(Code::invalid_value, "the memory of another process has " + std::to_string(size) +
                                           " bytes, expected " + std::to_string(bytes) + " from " +
                                           std::to_string(offset) + " on");
  return {};
}

}  // namespace

Imported::~Imported() { (void)munmap(reserved_, 2 * span_); }

Status Imports::open(int device, std::uint32_t epoch, std::span<const IpcPiece> pieces,
                     std::size_t in_front, std::size_t bytes, void*& out) {
  const bool several = pieces.size() > 1;
  std::size_t mapped = 0;
  for (const IpcPiece& piece : pieces) {
    EMBER_TRY(check_file(piece.file, piece.offset, piece.bytes));
    if (several && (piece.offset % kPage != 0 || piece.bytes % kPage != 0))
      return Status(Code::invalid_value, "the pieces of another process's memory are no pages");
    mapped += piece.bytes;
  }
  if (bytes == 0 || in_front > mapped || bytes > mapped - in_front)
    return Status(Code::invalid_value, "the pieces of another process's memory have " +
                                           std::to_string(mapped) + " bytes, expected " +
                                           std::to_string(bytes) + " from " +
                                           std::to_string(in_front) + " on");
  // Of a single piece that begins within a page, what is in front of it is mapped, too.
  const std::size_t in_page = pieces.front().offset % kPage;
  const std::size_t span = (in_page + mapped + kPage - 1) / kPage * kPage;
  void* range =
      mmap(nullptr, 2 * span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return failed("mmap");
  auto* reserved = static_cast<std::byte*>(range);
  std::byte* at = reserved + span;
  for (const IpcPiece& piece : pieces) {
    const std::size_t length = several ? piece.bytes : span;
    if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece.file,
             static_cast<off_t>(piece.offset / kPage * kPage)) == MAP_FAILED) {
      Status status = failed("mmap of another process's memory");
      (void)munmap(range, 2 * span);
      return status;
    }
    at += length;
  }
  std::byte* address = reserved + in_page + in_front;
  Ref<const Imported> made(new Imported(reserved, span, address, bytes, device, epoch));
  const std::unique_lock lock(mutex_);
  by_address_.emplace(address, std::move(made));
  count_.store(by_address_.size(), std::memory_order_relaxed);
  out = address;
  return {};
}

Status Imports::close(int device, const void* pointer) {
  Ref<const Imported> closed;  // goes after the lock
  const std::unique_lock lock(mutex_);
  const auto found = by_address_.find(static_cast<const std::byte*>(pointer));
  if (found == by_address_.end() || found->second->device() != device) {
    char text[96];
    std::snprintf(text, sizeof text, "closing %p: no memory of another process is open there",
                  pointer);
    return Status(Code::invalid_value, text);
  }
  closed = std::move(found->second);
  by_address_.erase(found);
  count_.store(by_address_.size(), std::memory_order_relaxed);
  return {};
}

const Imported* Imports::look(const void* pointer) const noexcept {
  auto next = by_address_.upper_bound(static_cast<const std::byte*>(pointer));
  if (next == by_address_.begin()) return nullptr;
  const Imported* found = std::prev(next)->second.get();
  return found->contains(pointer, 1) ? found : nullptr;
}

int Imports::device_of(const void* pointer) const noexcept {
  const std::shared_lock lock(mutex_);
  const Imported* found = look(pointer);
  return found != nullptr ? found->device() : -1;
}

Ref<const Imported> Imports::find(const void* pointer) const {
  const std::shared_lock lock(mutex_);
  return Ref<const Imported>(look(pointer));
}

}  // namespace ember::inline v0::driver::sim
