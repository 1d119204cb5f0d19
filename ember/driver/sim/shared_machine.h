// A simulated machine that processes share, as one of them lives on it: what it holds of each
// device is kept in the machine's record, which knows what all hold together.
//
// A process joins once for each machine and stays until it ends. Only memory from the
// device and what makes and ends contexts come here, and meters at the ends of work; a machine of
// its own has none of this.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/driver/sim/record_file.h"

namespace ember::inline v0::driver::sim {

/// Thread-safe. Devices are numbered among all of the machine, whatever is visible.
class SharedMachine {
 public:
  /// Moves in. `spec` names the machine and its folder. Errors are RecordFile::open_locked's and
  /// attach's, with the machine's name in front. Blocks as those do.
  static Status join(const SimulatedSpec& spec, std::unique_ptr<SharedMachine>& out);

  const SimulatedSpec& spec() const noexcept { return spec_; }
  const std::string& path() const noexcept { return file_.path(); }
  const RecordFile& file() const noexcept { return file_; }
  /// Who joined; a forked child of it did not.
  pid_t process() const noexcept { return process_; }

  /// Takes memory of a device for this process, exactly: of several processes that ask at once for
  /// the last of it one gets it. Code::out_of_memory if the machine has no more, which says who has
  /// it. Takes the record's lock, so blocks for a moment while another process asks.
  Status claim(int device, std::size_t bytes) noexcept;
  /// The same for what the process holds already, also if it is too much.
  void add(int device, std::size_t bytes) noexcept;
  void give_back(int device, std::size_t bytes) noexcept;
  /// What all processes hold of a device.
  std::uint64_t used(int device) const noexcept { return file_.used(device, true); }
  std::vector<GpuProcess> processes(int device) const { return file_.processes(device); }
  /// See RecordFile::share.
  double share(int device, MeterRecord RecordMeters::*meter) const noexcept {
    return file_.share(device, meter);
  }
  /// Where this process's meters of a device count.
  RecordMeters& meters(int device) const noexcept {
    return file_.view().meters(device, file_.own_slot());
  }

  /// The process ends: takes the record away, unless others live on the machine who do not end.
  void leave() noexcept;
  /// In a child of the process that joined: closes what it inherited. What lies in the record is
  /// the parent's.
  void abandon() noexcept { file_.abandon(); }

 private:
  SharedMachine(const SimulatedSpec& spec, RecordFile file) noexcept;
  RecordBytes& own(int device) const noexcept {
    return file_.view().bytes(device, file_.own_slot());
  }

  const SimulatedSpec spec_;
  const pid_t process_;
  RecordFile file_;
  Mutex locking_;  // the record's lock is the process's: its threads need this one
};

/// The file of a machine.
std::string record_path(const std::string& folder, const std::string& name);

/// This process's part in a machine: joins unless it has joined it already. A spec without a name
/// gets one, and a spec without a folder the one in which the machine is found, or made. The part
/// is never destroyed. Thread-safe; errors and waits are SharedMachine::join's.
Status join_machine(SimulatedSpec& spec, SharedMachine*& out);

/// Looks at a named machine without joining. Code::not_ready if nobody has joined it. The file is
/// that of the process's own part if it lives there, and good while `look` is called.
Status look_at(const SimulatedSpec& spec, const std::function<void(const RecordFile&)>& look);

/// The process ends: leaves the machines that it lives on. Called at its exit; what ends by _exit
/// calls it itself.
void leave_machines();

}  // namespace ember::inline v0::driver::sim
