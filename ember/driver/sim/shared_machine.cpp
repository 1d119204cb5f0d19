#include "ember/driver/sim/shared_machine.h"

#include <unistd.h>

#include <utility>

#include "ember/base/bytes.h"

namespace ember::inline v0::driver::sim {
namespace {

Status named(const SimulatedSpec& spec, const Status& status) {
  return Status(status.code(), "simulated machine '" + spec.machine + "': " + status.detail());
}

}  // namespace

SharedMachine::SharedMachine(const SimulatedSpec& spec, RecordFile file) noexcept
    : spec_(spec), process_(getpid()), file_(std::move(file)) {}

Status SharedMachine::join(const SimulatedSpec& spec, std::unique_ptr<SharedMachine>& out) {
  RecordFile file;
  Status status = RecordFile::open_locked(record_path(spec.folder, spec.machine), spec, file);
  if (status.ok()) {
    status = file.attach();
    file.unlock();
  }
  if (!status.ok()) return named(spec, status);
  out.reset(new SharedMachine(spec, std::move(file)));
  return {};
}

Status SharedMachine::claim(int device, std::size_t bytes) noexcept {
  const auto fits = [&](std::uint64_t used) {
    return used <= spec_.memory_bytes && bytes <= spec_.memory_bytes - used;
  };
  const MutexLock lock(locking_);
  EMBER_TRY(file_.lock());
  // The dead are only looked for when there is not enough.
  bool enough = fits(file_.used(device, false));
  const std::uint64_t used = enough ? 0 : file_.used(device, true);
  enough = enough || fits(used);
  const std::uint64_t before =
      enough ? own(device).fetch_add(bytes, std::memory_order_relaxed) : own(device).load();
  file_.unlock();
  if (enough) return {};
  return Status(Code::out_of_memory,
                format_bytes(bytes) + " do not fit: of " + format_bytes(spec_.memory_bytes) +
                    " this process holds " + format_bytes(before) +
                    ", other processes of simulated machine '" + spec_.machine + "' " +
                    format_bytes(used > before ? used - before : 0));
}

void SharedMachine::add(int device, std::size_t bytes) noexcept {
  own(device).fetch_add(bytes, std::memory_order_relaxed);
}

void SharedMachine::give_back(int device, std::size_t bytes) noexcept {
  own(device).fetch_sub(bytes, std::memory_order_relaxed);
}

void SharedMachine::leave() noexcept {
  const MutexLock lock(locking_);
  if (!file_.lock().ok()) return;
  file_.remove_unless_needed();
  file_.unlock();
}

}  // namespace ember::inline v0::driver::sim
