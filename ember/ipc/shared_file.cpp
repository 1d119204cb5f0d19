#include "ember/ipc/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace ember::inline v0::ipc {
namespace {

Status system_error(const char* what) {
  const Code code = errno == ENOSPC || errno == ENOMEM ? Code::out_of_memory : Code::map_failed;
  return Status(code, std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

Status make_shared_file(const char* name, std::size_t bytes, File& out) {
  File made(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made) return system_error("memfd_create");
  if (ftruncate(made.get(), static_cast<off_t>(bytes)) != 0) return system_error("ftruncate");
  if (fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing shared memory");
  out = std::move(made);
  return {};
}

Status commit(const File& file, std::size_t offset, std::size_t bytes) {
  // posix_fallocate would write zeros where the kernel cannot do it, over what is there.
  while (fallocate(file.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
    if (errno != EINTR) return system_error("fallocate");
  return {};
}

void decommit(const File& file, std::size_t offset, std::size_t bytes) noexcept {
  (void)fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset), static_cast<off_t>(bytes));
}

Mapping::~Mapping() {
  if (data_ != nullptr) (void)munmap(data_, bytes_);
}

Status Mapping::map(const File& file, std::size_t bytes, bool theirs) {
  if (theirs) {
    struct stat about {};
    const int seals = fcntl(file.get(), F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file.get(), &about) != 0)
      return Status(Code::invalid_value, "the file of another process can shrink");
    const auto size = static_cast<std::size_t>(about.st_size);
    if (size < bytes)
      return Status(Code::invalid_value, "the file of another process has " + std::to_string(size) +
                                             " bytes, expected " + std::to_string(bytes));
    bytes = size;
  }
  void* place =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (place == MAP_FAILED) return system_error("mmap of shared memory");
  Mapping made;
  made.data_ = static_cast<std::byte*>(place);
  made.bytes_ = bytes;
  swap(made);
  return {};
}

}  // namespace ember::inline v0::ipc
