// Which process something is about, and whether it still exists.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "ember/base/file.h"

namespace ember::inline v0::ipc {

/// A process, told apart from later ones with its number by the time at which it started, in ticks
/// since the machine started.
struct Process {
  std::int32_t id = 0;
  std::uint64_t start = 0;

  friend bool operator==(const Process&, const Process&) = default;
  friend bool operator<(const Process& a, const Process& b) noexcept {
    return a.id != b.id ? a.id < b.id : a.start < b.start;
  }
};

/// Zero if there is no such process, or it has ended and only its parent does not know yet.
std::uint64_t start_of(std::int32_t id) noexcept;
/// The calling process.
Process this_process() noexcept;
/// By /proc. True where that cannot be told, as without a descriptor to be had, of a process that
/// is there: what belongs to the living is not taken away.
bool exists(const Process& process) noexcept;
/// A number for the machine since it started and for the processes that can see each other's
/// numbers: handles of another one are refused. Throws Error if there is no descriptor by which to
/// find out; a later call may.
std::uint64_t this_machine();

/// 128 bits that nobody can guess. Throws Error if the system has none to give.
std::array<std::uint8_t, 16> random_secret();
/// Tells when a process has ended, which a closed socket does not prove.
class Watch {
 public:
  Watch() noexcept = default;
  /// Of a process that may have ended already.
  explicit Watch(const Process& process) noexcept;

  const Process& process() const noexcept { return process_; }
  /// Readable once the process has ended; -1 where the kernel refuses such descriptors, so that
  /// has_ended() must be asked from time to time.
  int descriptor() const noexcept { return file_.get(); }
  bool has_ended() const noexcept;

  /// For tests: as if the kernel refused descriptors of processes.
  static void refuse_descriptors(bool refuse) noexcept;

 private:
  Process process_;
  File file_;
  bool ended_ = true;
};

}  // namespace ember::inline v0::ipc
