// How busy simulated devices are: the share of the last second in which they did something.
//
// A worker tells when it begins to be busy and when it stops, not of every task: tasks that follow
// each other cost a comparison, and the clock is read where a queue runs empty.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "ember/base/mutex.h"
#include "ember/driver/sim/task_queue.h"

namespace ember::inline v0::driver::sim {

/// Adds up the time in which at least one of several workers does something. Thread-safe.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(Clock::time_point now = Clock::now()) noexcept;
  void end(Clock::time_point now = Clock::now()) noexcept;
  /// 0 to 1: of the last second, or of the time since the meter was made if that is shorter.
  double share(Clock::time_point now = Clock::now()) noexcept;

 private:
  // The last two seconds in pieces: the oldest one that counts is taken in part, so what happened
  // in it is placed to a sixty-fourth of a second.
  static constexpr std::int64_t kPieces = 128;
  static constexpr std::chrono::nanoseconds kWindow = std::chrono::seconds(1);
  static constexpr std::int64_t kLength = kWindow.count() / 64;  // nanoseconds
  struct Piece {
    std::int64_t number = -1;  // since the clock's beginning
    std::int64_t busy = 0;     // nanoseconds
  };

  void add(std::int64_t from, std::int64_t to) noexcept EMBER_REQUIRES(mutex_);

  const Clock::time_point made_ = Clock::now();
  Mutex mutex_;
  int running_ EMBER_GUARDED_BY(mutex_) = 0;
  std::int64_t since_ EMBER_GUARDED_BY(mutex_) = 0;
  std::array<Piece, kPieces> pieces_ EMBER_GUARDED_BY(mutex_);
};

/// The two shares of a device.
struct DeviceActivity {
  Meter busy;    ///< a kernel, copy or fill runs
  Meter memory;  ///< a copy or fill runs, or a kernel that has asked for memory
};

/// One worker's part in it; used by that worker alone.
class WorkerActivity {
 public:
  explicit WorkerActivity(DeviceActivity& device) noexcept : device_(device) {}

  /// Before a task that runs on the device.
  void begin(const Task& task) noexcept;
  /// The kernel that runs has asked for memory.
  void touch() noexcept {
    if (memory_) [[likely]]
      return;
    known(run_) = run_;
    begin_memory();
  }
  /// Nothing runs until the next begin().
  void idle() noexcept {
    if (busy_) stop();
  }

 private:
  void begin_memory() noexcept;
  void end_memory() noexcept;
  void stop() noexcept;
  const void*& known(const void* run) noexcept {
    return touching_[reinterpret_cast<std::uintptr_t>(run) / 16 % touching_.size()];
  }

  DeviceActivity& device_;
  bool busy_ = false;
  bool memory_ = false;
  const void* run_ = nullptr;  // the kernel's implementation
  // Kernels that have touched memory, as most do: they leave the meter as it is.
  std::array<const void*, 16> touching_{};
};

}  // namespace ember::inline v0::driver::sim
