// How busy simulated devices are: the share of the last second in which they did something.
//
// A worker tells when it begins to be busy and when it stops, not of every task: tasks that follow
// each other cost a comparison, and the clock is read where a queue runs empty.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "ember/base/mutex.h"
#include "ember/driver/sim/task_queue.h"

namespace ember::inline v0::driver::sim {

/// What a meter has counted, as others read it while it counts: also another process, where the
/// record lies in memory that processes share (shared_machine.h). Zeros are a record in which
/// nothing has happened.
struct MeterRecord {
  // The last two seconds in pieces: the oldest one that counts is taken in part, so what happened
  // in it is placed to a sixty-fourth of a second.
  static constexpr std::int64_t kPieces = 128;
  static constexpr std::int64_t kLength = 15'625'000;  // nanoseconds
  static constexpr int kBusyBits = 24;                 // hold a length

  std::atomic<std::int64_t> made;   // nanoseconds, since the clock's beginning
  std::atomic<std::int64_t> since;  // the beginning of what is in progress; 0 if nothing is
  /// A piece's number since the clock's beginning, and below it how many nanoseconds of it were
  /// busy: one word, so that it is never read half written.
  std::array<std::atomic<std::uint64_t>, kPieces> pieces;
};

/// 0 to 1: how much of the last second the records' meters were busy, or of the time since the
/// first of them was made if that is shorter. Devices give processes turns, so what several did at
/// the same time is added up, as far as there was time. Lock-free; whatever is in the records.
double share_of(std::span<const MeterRecord* const> records,
                std::chrono::steady_clock::time_point now) noexcept;

/// Adds up the time in which at least one of several workers does something. Thread-safe.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  Meter() noexcept;
  void begin(Clock::time_point now = Clock::now()) noexcept;
  void end(Clock::time_point now = Clock::now()) noexcept;
  /// 0 to 1: of the last second, or of the time since the meter was made if that is shorter.
  double share(Clock::time_point now = Clock::now()) noexcept;
  /// Counts in a record of others from now on, with all that was counted so far. The record stays
  /// as long as the meter.
  void move_to(MeterRecord& record) noexcept;

 private:
  void add(std::int64_t from, std::int64_t to) noexcept EMBER_REQUIRES(mutex_);

  MeterRecord own_{};
  Mutex mutex_;
  int running_ EMBER_GUARDED_BY(mutex_) = 0;
  MeterRecord* record_ EMBER_GUARDED_BY(mutex_) = &own_;
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
