#include "ember/jit/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "ember/base/env.h"
#include "ember/base/file.h"
#include "ember/base/private_folder.h"
#include "ember/jit/digest.h"

namespace ember::inline v0::jit {
namespace {

constexpr std::string_view kMark = "ember kernel 2\n";
constexpr std::size_t kTrailer = kMark.size() + sizeof(std::uint64_t);
constexpr off_t kLargest = off_t{1} << 30;

std::string folder_by_environment() {
  if (env::get("USE_PYTORCH_KERNEL_CACHE") == "0") return "";
  const auto set = [](const std::optional<std::string>& value) { return value && !value->empty(); };
  if (const auto own = env::get("EMBER_KERNEL_CACHE_PATH"); set(own)) return *own;
  if (const auto torch = env::get("PYTORCH_KERNEL_CACHE_PATH"); set(torch))
    return *torch + "/ember";
  if (const auto cache = env::get("XDG_CACHE_HOME"); set(cache)) return *cache + "/ember/kernels";
  if (const auto home = env::get("HOME"); set(home)) return *home + "/.cache/ember/kernels";
  return "";
}

/// The folders above one, as far as they are missing.
void make_parents(const std::string& folder) {
  for (std::size_t at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1))
    (void)mkdir(folder.substr(0, at).c_str(), 0700);
}

/// What stands behind the contents: a mark, and their checksum as this machine writes a number.
std::string trailer(std::string_view contents) {
  const std::uint64_t sum = checksum(contents);
  std::string text(kMark);
  text.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return text;
}

bool read_all(int file, std::string& out, std::size_t size) {
  out.resize(size);
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = read(file, out.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(file, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

/// A name that no other writer has, in this process or in another one.
std::string temporary(const std::string& path) {
  static std::atomic<unsigned> count{0};
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return path + "." + std::to_string(getpid()) + "." + std::to_string(now.tv_nsec) + "." +
         std::to_string(count++) + ".part";
}

}  // namespace

Status DiskCache::open(DiskCache& out) {
  out.folder_ = folder_by_environment();
  if (out.folder_.empty()) return {};
  while (out.folder_.size() > 1 && out.folder_.back() == '/') out.folder_.pop_back();
  make_parents(out.folder_);
  const Status status = make_private_folder(out.folder_);
  if (!status.ok()) out.folder_.clear();
  return status.code() == Code::not_permitted ? status : Status();
}

std::string DiskCache::path(std::string_view name) const {
  return folder_ + "/" + std::string(name);
}

Status DiskCache::find(std::string_view name, std::string& contents, bool& found) const {
  found = false;
  if (folder_.empty()) return {};
  const std::string file = path(name);
  const File opened(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!opened || fstat(opened.get(), &about) != 0) return {};
  if (!S_ISREG(about.st_mode)) return {};
  if (about.st_uid != geteuid() || (about.st_mode & 022) != 0) {
    char text[128];
    std::snprintf(text, sizeof text,
                  " belongs to user %u with mode %04o, expected user %u's own, which nobody else "
                  "may write",
                  static_cast<unsigned>(about.st_uid),
                  static_cast<unsigned>(about.st_mode) & 07777U, static_cast<unsigned>(geteuid()));
    return Status(Code::not_permitted, "the compiled kernel " + file + text);
  }
  if (about.st_size < static_cast<off_t>(kTrailer) || about.st_size > kLargest) return {};
  if (!read_all(opened.get(), contents, static_cast<std::size_t>(about.st_size))) return {};
  const std::string_view all = contents;
  const std::string_view kept = all.substr(0, all.size() - kTrailer);
  if (all.substr(kept.size()) != trailer(kept)) return {};
  contents.resize(kept.size());
  found = true;
  return {};
}

bool DiskCache::keep(std::string_view name, std::string_view contents) const {
  if (folder_.empty()) return false;
  const std::string target = path(name);
  const std::string made = temporary(target);
  File file(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700));
  if (!file) return false;
  const bool written = write_all(file.get(), contents) && write_all(file.get(), trailer(contents));
  const bool closed = ::close(file.release()) == 0;
  if (written && closed && rename(made.c_str(), target.c_str()) == 0) return true;
  (void)unlink(made.c_str());
  return false;
}

}  // namespace ember::inline v0::jit
