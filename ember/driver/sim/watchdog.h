// Ends a process in which a task of a seeded run never ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "ember/base/mutex.h"

namespace ember::inline v0::driver::sim {

/// Prints the text after "ember: ", and the line that replays the run if there is one, and ends the
/// process without running anything more of it.
[[noreturn]] void end_process(const std::string& text, const std::string& replay_line);

/// Looks at the task that runs, a few times a second, on a thread of its own.
class Watchdog {
 public:
  /// The exit status of a process that is ended.
  static constexpr int kStatus = 70;

  /// `patience` in seconds; zero: there is no watch.
  explicit Watchdog(int patience) noexcept : patience_(patience) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A task begins, of a name that stays. One at a time.
  void begin(const char* name, int device, std::uint32_t stream, std::uint64_t task) noexcept;
  /// It has ended.
  void end() noexcept { turns_.fetch_add(1, std::memory_order_release); }
  /// What is printed to repeat the run. Thread-safe.
  void set_replay_line(std::string line);

 private:
  void watch();

  const int patience_;
  std::atomic<bool> started_{false};
  std::atomic<std::uint64_t> turns_{0};  // odd while a task runs
  std::atomic<const char*> name_{""};
  std::atomic<int> device_{0};
  std::atomic<std::uint32_t> stream_{0};
  std::atomic<std::uint64_t> task_{0};
  Mutex mutex_;
  std::string replay_line_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace ember::inline v0::driver::sim
