#include "ember/sanitizer/at_end.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/sanitizer/sanitizer.h"

namespace ember::inline v0::cuda::sanitizer {
namespace {

struct Ending {
  Mutex mutex;
  bool asked EMBER_GUARDED_BY(mutex) = false;
  pid_t process EMBER_GUARDED_BY(mutex) = 0;
  AtEnd at_end EMBER_GUARDED_BY(mutex);
  // Set by exit(): the process ends by itself.
  std::optional<int> status EMBER_GUARDED_BY(mutex);
};

Ending& ending() {
  static NoDestructor<Ending> made;  // read when everything else has been destroyed
  return *made;
}

int open_summary(const std::string& path) noexcept {
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

void append_line(const std::string& path, const std::string& line) noexcept {
  const int file = open_summary(path);
  // In one call: processes may share the file.
  const bool written =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (!written)
    std::fprintf(stderr, "EMBER_SANITIZER_SUMMARY='%s' cannot be written: %s\n", path.c_str(),
                 std::strerror(errno));
  if (file >= 0) (void)close(file);
}

/// Its destructor is what the library does last, and late among all: it was made when the library
/// was loaded. Only then is it certain that nothing of the program's is left to do.
class Last {
 public:
  Last() = default;
  Last(const Last&) = delete;
  Last& operator=(const Last&) = delete;
  ~Last() {
    const Sanitizer* const sanitizer = enabled_sanitizer();
    Ending& asked = ending();
    const MutexLock lock(asked.mutex);
    if (sanitizer == nullptr || !asked.status || asked.process != getpid()) return;
    const SanitizerSummary summary = sanitizer->summary();
    if (!asked.at_end.summary_path.empty())
      append_line(asked.at_end.summary_path, summary.json() + "\n");
    if (*asked.status != 0 || asked.at_end.exit_code == 0 || !summary.found()) return;
    (void)std::fflush(nullptr);
    _exit(asked.at_end.exit_code);
  }
};

const Last end_of_library;

/// Destructors do not learn the status; this is told before them.
void keep_status(int status, void*) {
  Ending& asked = ending();
  const MutexLock lock(asked.mutex);
  asked.status = status;
}

/// Keeps the library where it is: what on_exit() was given is called even if a program that loaded
/// the library by dlopen() has closed it. Does nothing in programs that are linked with it.
void stay_loaded() {
  Dl_info here;
  if (dladdr(static_cast<const void*>(&end_of_library), &here) != 0 && here.dli_fname != nullptr)
    (void)dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

AtEnd at_end_as_asked() {
  AtEnd asked;
  if (const std::string text = env::get("EMBER_SANITIZER_EXITCODE").value_or(""); !text.empty()) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, asked.exit_code);
    if (error != std::errc() || rest != end || asked.exit_code < 1 || asked.exit_code > 255)
      throw ValueError("EMBER_SANITIZER_EXITCODE is '" + text +
                       "', expected a number from 1 to 255");
  }
  asked.summary_path = env::get("EMBER_SANITIZER_SUMMARY").value_or("");
  if (!asked.summary_path.empty()) {
    const int file = open_summary(asked.summary_path);
    if (file < 0)
      throw ValueError("EMBER_SANITIZER_SUMMARY is '" + asked.summary_path +
                       "', which cannot be opened (" + std::strerror(errno) +
                       "); expected a file that can be written");
    (void)close(file);
  }
  return asked;
}

void end_watched(AtEnd at_end) {
  Ending& asked = ending();
  const MutexLock lock(asked.mutex);
  if (asked.asked) return;
  asked.asked = true;
  asked.process = getpid();
  asked.at_end = std::move(at_end);
  stay_loaded();
  (void)on_exit(&keep_status, nullptr);
}

}  // namespace ember::inline v0::cuda::sanitizer
