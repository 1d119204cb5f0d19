#include "ember/driver/sim/watchdog.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>

#include "ember/base/sanitizer.h"

namespace ember::inline v0::driver::sim {

void end_process(const std::string& text, const std::string& replay_line) {
  std::fflush(stdout);
  std::fprintf(stderr, "ember: %s\n", text.c_str());
  if (!replay_line.empty()) std::fprintf(stderr, "ember: %s\n", replay_line.c_str());
  std::fflush(stderr);
  // The thread sanitizer has an _exit of its own, which objects to a thread that is out of its
  // sight.
  if (kThreadSanitizer) (void)syscall(SYS_exit_group, Watchdog::kStatus);
  _exit(Watchdog::kStatus);
}

void Watchdog::begin(const char* name, int device, std::uint32_t stream,
                     std::uint64_t task) noexcept {
  name_.store(name, std::memory_order_relaxed);
  device_.store(device, std::memory_order_relaxed);
  stream_.store(stream, std::memory_order_relaxed);
  task_.store(task, std::memory_order_relaxed);
  turns_.fetch_add(1, std::memory_order_release);
  if (patience_ == 0 || started_.load(std::memory_order_relaxed) || started_.exchange(true)) return;
  try {
    std::thread([this] { watch(); }).detach();  // it lives as long as the process
  } catch (const std::system_error&) {
    // Without a thread there is no watch; the run is the same.
  }
}

void Watchdog::set_replay_line(std::string line) {
  const MutexLock lock(mutex_);
  replay_line_ = std::move(line);
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  const Unseen looking;  // who makes this thread may be out of the sanitizer's sight
  std::uint64_t seen = 0;
  Clock::time_point since;
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::uint64_t turns = turns_.load(std::memory_order_acquire);
    if (turns != seen || turns % 2 == 0) {
      seen = turns;
      since = Clock::now();
      continue;
    }
    if (Clock::now() - since < std::chrono::seconds(patience_)) continue;
    const std::string text =
        std::string("task '") + name_.load() + "' (the " + std::to_string(task_.load()) +
        ". of stream " + std::to_string(stream_.load()) +
        ", cuda:" + std::to_string(device_.load()) + ") has run for " + std::to_string(patience_) +
        " s. In a seeded run one task runs at a time: one that waits for another stream or for the "
        "host, through memory, waits for ever. (EMBER_SIM_PATIENCE sets the seconds; 0: no limit.)";
    std::string line;
    {
      const MutexLock lock(mutex_);
      line = replay_line_;
    }
    end_process(text, line);
  }
}

}  // namespace ember::inline v0::driver::sim
