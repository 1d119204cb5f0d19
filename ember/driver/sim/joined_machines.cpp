// On which shared machines this process lives, and where they are found.
#include <dirent.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "ember/base/private_folder.h"
#include "ember/driver/sim/shared_machine.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr const char* kEnding = ".machine";

constinit Mutex joining;

/// One of the machines that this process lives on.
struct Part {
  std::unique_ptr<SharedMachine> machine;
  Part* next;
};

/// Never destroyed: workers count in the records until the process ends. Those that a parent lived
/// on stay in the list of a forked child, which does not look at them; forked in the middle of
/// anything, it finds a whole list.
constinit std::atomic<Part*> first_part{nullptr};

template <class Use>
void for_each_part(const Use& use) {
  for (Part* part = first_part.load(std::memory_order_acquire); part != nullptr; part = part->next)
    use(*part->machine);
}

void after_fork_in_child() { renew_in_child(joining); }
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, &after_fork_in_child);

SharedMachine* own_part(const std::string& path) EMBER_REQUIRES(joining) {
  SharedMachine* found = nullptr;
  for_each_part([&](SharedMachine& machine) {
    if (machine.process() == getpid() && machine.path() == path) found = &machine;
  });
  return found;
}

bool is_there(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0;
}

/// Takes away the records in a folder that nobody lives in: of machines whose last process was
/// killed.
void sweep(const std::string& folder) EMBER_REQUIRES(joining) {
  DIR* listing = opendir(folder.c_str());
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing)) {  // NOLINT: the listing is this call's own
    const std::string path = folder + "/" + entry->d_name;
    if (!path.ends_with(kEnding)) continue;
    if (own_part(path) == nullptr) RecordFile::remove_if_empty(path);
  }
  (void)closedir(listing);
}

std::string new_name() {
  // Without randomness the process and the address of a fresh object still tell names apart.
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    random = reinterpret_cast<std::uintptr_t>(&random);
  char text[64];
  std::snprintf(text, sizeof text, "process-%d-%016llx", static_cast<int>(getpid()),
                static_cast<unsigned long long>(random));
  return text;
}

Status attach(const SimulatedSpec& spec, SharedMachine*& out) EMBER_REQUIRES(joining) {
  out = own_part(record_path(spec.folder, spec.machine));
  if (out != nullptr) {
    SimulatedSpec found = out->spec();
    if (found.count == spec.count && found.memory_bytes == spec.memory_bytes) return {};
    return Status(Code::invalid_value, "simulated machine '" + spec.machine +
                                           "': this process lives on it already, with other "
                                           "devices");
  }
  std::unique_ptr<SharedMachine> made;
  EMBER_TRY(SharedMachine::join(spec, made));
  out = made.get();
  first_part.store(new Part{std::move(made), first_part.load()}, std::memory_order_release);
  static const int at_exit = std::atexit(&leave_machines);
  (void)at_exit;
  return {};
}

/// The folder in which there is such a machine; empty if there is none.
std::string folder_of(const SimulatedSpec& spec) {
  if (!spec.folder.empty()) return spec.folder;
  for (const std::string& folder : private_folders())
    if (is_there(record_path(folder, spec.machine))) return folder;
  return "";
}

}  // namespace

std::string record_path(const std::string& folder, const std::string& name) {
  return folder + "/" + name + kEnding;
}

Status join_machine(SimulatedSpec& spec, SharedMachine*& out) {
  const MutexLock lock(joining);
  // A child closes what it inherited before it opens anything: later, it would give up locks.
  for_each_part([](SharedMachine& machine) {
    if (machine.process() != getpid()) machine.abandon();
  });
  SimulatedSpec wanted = spec;
  const bool is_new = wanted.machine.empty();
  if (is_new) wanted.machine = new_name();
  wanted.folder = folder_of(wanted);
  // Called here, under the lock, which clang does not follow.
  const auto try_folder = [&](const std::string& folder)
                              EMBER_THREAD_NOTE(no_thread_safety_analysis) {
                                if (is_new) sweep(folder);
                                wanted.folder = folder;
                                return attach(wanted, out);
                              };
  Status status;
  if (wanted.folder.empty()) {
    status = in_private_folder(try_folder);
  } else {
    status = make_private_folder(wanted.folder);
    if (status.ok()) status = attach(wanted, out);
  }
  // Code::not_supported would say that there are no such devices.
  if (status.code() == Code::not_supported)
    return Status(Code::not_permitted,
                  "a shared simulated machine needs a record: " + status.detail());
  EMBER_TRY(status);
  spec = wanted;
  return {};
}

Status look_at(const SimulatedSpec& spec, const std::function<void(const RecordFile&)>& look) {
  const MutexLock lock(joining);
  const std::string folder = folder_of(spec);
  if (folder.empty()) return Code::not_ready;
  const std::string path = record_path(folder, spec.machine);
  if (const SharedMachine* own = own_part(path)) {
    look(own->file());
    return {};
  }
  EMBER_TRY(make_private_folder(folder));
  RecordFile file;
  EMBER_TRY(RecordFile::open_to_look(path, file));
  look(file);
  return {};
}

void leave_machines() {
  const MutexLock lock(joining);
  for_each_part([](SharedMachine& machine) {
    if (machine.process() == getpid()) machine.leave();
  });
}

}  // namespace ember::inline v0::driver::sim
