#include "ember/ipc/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "ember/base/error.h"

namespace ember::inline v0::ipc {
namespace {

std::atomic<bool> descriptors_refused{false};

/// As much of a small file as fits, which ends in a zero; false if it cannot be read: errno says
/// why.
template <std::size_t size>
bool read_text(const char* path, char (&out)[size]) noexcept {
  const File file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  const ssize_t count = read(file.get(), out, size - 1);
  if (count == 0) errno = ESRCH;
  if (count <= 0) return false;
  out[count] = '\0';
  return true;
}

std::uint64_t fnv(std::uint64_t seed, const char* text) noexcept {
  for (; *text != '\0'; ++text) seed = (seed ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  return seed;
}

/// Throws Error if there is no descriptor to be had.
std::uint64_t read_machine() {
  constexpr const char* kFile = "/proc/sys/kernel/random/boot_id";
  std::uint64_t number = 0xcbf29ce484222325;
  char text[128];
  if (read_text(kFile, text))
    number = fnv(number, text);
  else if (errno == EMFILE || errno == ENFILE)
    throw Error(std::string("sharing needs ") + kFile +
                ", which cannot be read: " + std::strerror(errno));
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) number ^= space.st_ino * 0x9e3779b97f4a7c15;
  return number;
}

int open_descriptor(std::int32_t id) noexcept {
  if (descriptors_refused.load(std::memory_order_relaxed)) return -1;
  return static_cast<int>(syscall(SYS_pidfd_open, id, 0));
}

/// When a process started; 0 if there is none, or it has ended. Nothing if that cannot be told, as
/// without a descriptor to be had.
std::optional<std::uint64_t> find_start(std::int32_t id) noexcept {
  if (id <= 0) return 0;
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(id));
  char text[1024];
  if (!read_text(path, text)) {
    if (errno == ENOENT || errno == ESRCH) return 0;
    return std::nullopt;
  }
  // The second field is the program's name in parentheses, which may hold anything.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return 0;
  at += 2;
  if (*at == 'Z' || *at == 'X') return 0;
  constexpr int kFields = 19;  // from the third one to the 22nd
  for (int i = 0; i < kFields; ++i) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return 0;
    ++at;
  }
  return std::strtoull(at, nullptr, 10);
}

}  // namespace

std::uint64_t start_of(std::int32_t id) noexcept { return find_start(id).value_or(0); }

Process this_process() noexcept {
  // The number first: a forked child has another one, and starts later.
  const auto id = static_cast<std::int32_t>(getpid());
  return {id, start_of(id)};
}

bool exists(const Process& process) noexcept {
  if (process.start == 0) return false;
  const auto start = find_start(process.id);
  // Of one that may still be there nothing is swept away and no lease is taken back.
  return start ? *start == process.start : kill(process.id, 0) == 0 || errno != ESRCH;
}

std::uint64_t this_machine() {
  static const std::uint64_t number = read_machine();
  return number;
}

std::array<std::uint8_t, 16> random_secret() {
  std::array<std::uint8_t, 16> secret{};
  for (;;) {
    const ssize_t count = getrandom(secret.data(), secret.size(), 0);
    if (count == static_cast<ssize_t>(secret.size())) return secret;
    if (count < 0 && errno != EINTR)
      throw Error(std::string("sharing needs random numbers: getrandom failed: ") +
                  std::strerror(errno));
  }
}

// Opened first and looked at then: what is found afterwards is the process of the descriptor, or
// that has ended.
Watch::Watch(const Process& process) noexcept
    : process_(process), file_(open_descriptor(process.id)), ended_(!exists(process)) {}

bool Watch::has_ended() const noexcept {
  if (ended_) return true;
  if (!file_) return !exists(process_);
  pollfd look{file_.get(), POLLIN, 0};
  return poll(&look, 1, 0) > 0;
}

void Watch::refuse_descriptors(bool refuse) noexcept { descriptors_refused = refuse; }

}  // namespace ember::inline v0::ipc
