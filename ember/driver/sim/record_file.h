// The file of a simulated machine that processes share: found or made, locked, and who lives in it.
//
// The locks are POSIX record locks on bytes that the file need not have. The kernel takes them away
// when their process ends, however that happens, and when it calls exec; a forked child has none of
// its parent's. So a slot's lock says that its process lives, and what dead ones held counts no
// more from the moment at which they died. Closing any descriptor of a file gives up all of the
// process's locks on it: a process that lives in a file never opens it again.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ember/base/file.h"
#include "ember/base/status.h"
#include "ember/driver/sim/machine_record.h"
#include "ember/driver/telemetry.h"

namespace ember::inline v0::driver::sim {

/// Not thread-safe but for what is const.
class RecordFile {
 public:
  RecordFile() noexcept = default;
  RecordFile(RecordFile&& other) noexcept { swap(other); }
  RecordFile& operator=(RecordFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~RecordFile();

  /// Opens the file for a process that will live in it, and leaves it locked and mapped. Makes it
  /// if there is none, or anew if nobody lives in it. Code::invalid_value if it is that of a
  /// machine with other devices, which names both; Code::not_permitted if it is no record, or
  /// somebody else's, or cannot be made. May block for ten seconds for a process that holds the
  /// lock.
  static Status open_locked(const std::string& path, const SimulatedSpec& spec, RecordFile& out);
  /// Opens the file of a machine that others live in, to look. Code::not_ready if there is none, or
  /// nobody lives there; Code::not_permitted as above. Does not block.
  static Status open_to_look(const std::string& path, RecordFile& out);
  /// Takes the file away if nobody lives in it. Must be none that this process lives in.
  static void remove_if_empty(const std::string& path) noexcept;

  /// Devices, and the bytes of each.
  SimulatedSpec spec() const noexcept;
  const std::string& path() const noexcept { return path_; }
  const RecordView& view() const noexcept { return view_; }

  /// Excludes other processes; the caller excludes this one's threads. Blocks for ten seconds at
  /// most: Code::not_permitted, which names the process that holds it.
  Status lock() noexcept;
  void unlock() noexcept;
  /// For tests: how long lock() waits.
  static void set_patience(std::chrono::milliseconds most) noexcept;
  /// Moves this process into a slot that nobody has. Code::not_permitted if there is none. Locked.
  Status attach() noexcept;
  /// Takes the file away, unless somebody else lives in it who does not end. Locked.
  void remove_unless_needed() noexcept;
  /// Whether the path still leads to the file that is open: others can find it.
  bool still_there() const noexcept;
  /// Closes what a forked child inherited, which lives nowhere.
  void abandon() noexcept;

  /// This process's slot; kNoSlot if it lives elsewhere.
  static constexpr std::uint32_t kNoSlot = RecordShape::kSlots;
  std::uint32_t own_slot() const noexcept { return own_; }

  /// The sum of what processes hold of a device. With `of_living` what has died since is left out,
  /// which asks the kernel for each other process that holds some.
  std::uint64_t used(int device, bool of_living) const noexcept;
  /// Who holds some of a device, in the order of their numbers.
  std::vector<GpuProcess> processes(int device) const;
  /// How busy living processes kept a device in the last second: 0 to 1.
  double share(int device, MeterRecord RecordMeters::*meter) const noexcept;

 private:
  Status open(int flags) noexcept;
  Status failed(const char* call) const;
  Status refused(const std::string& why) const;
  bool try_lock(std::int64_t byte) noexcept;
  bool lives(std::uint32_t slot) const noexcept;
  bool anybody_lives() const noexcept;
  Status read_header(RecordHeader& out, std::uint64_t& size) const;
  Status make(const SimulatedSpec& spec);
  Status map(int protection);
  void swap(RecordFile& other) noexcept;

  std::string path_;
  File file_;
  RecordHeader header_{};
  RecordView view_;
  void* data_ = nullptr;
  std::uint32_t own_ = kNoSlot;
};

}  // namespace ember::inline v0::driver::sim
