#include "input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "options.h"

namespace overlap {
namespace {

constexpr const char* kItself = "/proc/self/exe";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60;

std::string reason() { return std::strerror(errno); }

std::string link_target(const char* link) {
  char path[4096];
  const ssize_t length = readlink(link, path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string(link);
}

}  // namespace

Input::Input(const std::string& path)
    : name_(path.empty() ? link_target(kItself) + " (this program)" : path),
      // Not blocking, so that opening a pipe comes back and can be refused.
      descriptor_(open(path.empty() ? kItself : path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0)
    throw UsageError("FILE", name_, "cannot be opened (" + reason() + "); expected a file to read");
  struct stat status = {};
  const char* trouble = nullptr;
  if (fstat(descriptor_, &status) != 0)
    trouble = "cannot be examined; expected a regular file";
  else if (S_ISDIR(status.st_mode))
    trouble = "is a directory; expected a regular file";
  else if (!S_ISREG(status.st_mode))
    trouble = "is a device, pipe or socket; expected a regular file";
  if (trouble != nullptr) {
    close(descriptor_);
    throw UsageError("FILE", name_, trouble);
  }
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
}

Input::~Input() { close(descriptor_); }

void Input::set_repeat(std::uint64_t times) {
  if (file_bytes_ != 0 && times > kMostBytes / file_bytes_)
    throw UsageError("--repeat", std::to_string(times),
                     "expected at most " + std::to_string(kMostBytes / file_bytes_) +
                         " for a file of " + std::to_string(file_bytes_) + " bytes");
  repeat_ = times;
}

void Input::repeat_up_to(std::uint64_t bytes) {
  if (file_bytes_ != 0) set_repeat(std::max<std::uint64_t>(1, (bytes - 1) / file_bytes_ + 1));
}

void Input::read(std::uint64_t offset, std::size_t bytes, std::uint8_t* target) const {
  if (bytes == 0) return;
  offset %= file_bytes_;
  std::size_t done = 0;
  while (done < bytes && done < file_bytes_) {
    const std::uint64_t until_end = std::min(file_bytes_ - offset, file_bytes_ - done);
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, until_end));
    read_file(offset, part, target + done);
    done += part;
    offset = 0;
  }
  // One whole copy of the file is there; what follows is the same again.
  for (std::size_t part = 0; done < bytes; done += part) {
    part = std::min(bytes - done, done);
    std::memcpy(target + done, target, part);
  }
}

void Input::read_file(std::uint64_t offset, std::size_t bytes, std::uint8_t* target) const {
  while (bytes != 0) {
    const ssize_t got = pread(descriptor_, target, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error(name_ + ": cannot be read: " + reason());
    if (got == 0) throw std::runtime_error(name_ + ": became shorter while it was being read");
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
    target += got;
  }
}

}  // namespace overlap
