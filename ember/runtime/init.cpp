// Making the driver, once, at the first need; and knowing about forks.

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "ember/base/embedding.h"
#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/stack.h"
#include "ember/driver/open.h"
#include "ember/runtime/declared.h"
#include "ember/runtime/device.h"
#include "ember/runtime/explored.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace detail {
std::atomic<driver::Driver*> the_driver{nullptr};
}

namespace {

struct Init {
  Mutex mutex;
  std::optional<driver::Choice> asked EMBER_GUARDED_BY(mutex);       // by simulate()
  std::optional<driver::Schedule> schedule EMBER_GUARDED_BY(mutex);  // by sim::schedule()
  std::vector<void (*)()> made_hooks EMBER_GUARDED_BY(mutex);
};

void after_fork_in_child();

Init& state() {
  static NoDestructor<Init> init;
  static const int fork_handler = pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  (void)fork_handler;
  return *init;
}

/// Made when the library is loaded: a first use beside a fork would leave the child waiting for
/// ever for an initialisation that another thread, which it does not have, has begun.
[[maybe_unused]] const Init& made_at_load = state();

/// Set in the child of a process that had a driver: threads and contexts did not come along.
std::atomic<bool> bad_fork{false};
/// How many devices that process had.
std::atomic<int> inherited_devices{0};
/// Set in a child that was forked in the middle of what InPieces marks.
std::atomic<bool> forked_in_pieces{false};
std::atomic<bool> blocking_launches{false};
std::atomic<bool> in_pieces{false};

/// While the process is inside what a child that another thread forks would find half done and
/// could not do again: making a driver, loading the CUDA object, asking NVML. glibc renews the
/// loader's lock in a child, but not the lists it guards: a dlopen() there ends in an assertion or
/// a fault. And NVML's own locks stay as they were.
class InPieces {
 public:
  explicit InPieces(bool really = true) EMBER_REQUIRES(state().mutex) : really_(really) {
    if (really_) in_pieces = true;
  }
  ~InPieces() {
    if (really_) in_pieces = false;
  }
  InPieces(const InPieces&) = delete;
  InPieces& operator=(const InPieces&) = delete;

 private:
  bool really_;
};

// The child renews the locks that a thread may have held that did not come along. The alternative,
// that a fork waits until they are free, hangs: a fork under the thread sanitizer stops the others
// before it waits for them, and a thread that keeps counting need not let a waiting one have a
// turn.
void after_fork_in_child() EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  // What this one guards is only written by simulate() and by hooks, which nobody calls beside a
  // fork.
  renew_in_child(state().mutex);
  detail::renew_observer_locks();
  detail::renew_recording_lock();
  driver::Driver* const had_driver = detail::the_driver.exchange(nullptr);
  if (had_driver != nullptr) inherited_devices = had_driver->device_count();
  const bool pieces = in_pieces.exchange(false);
  if (had_driver == nullptr && !pieces) return;
  bad_fork = true;
  if (pieces) forked_in_pieces = true;
  detail::forget_thread_state();
}

Status chosen(driver::Choice& out) EMBER_REQUIRES(state().mutex) {
  driver::Choice choice;
  if (state().asked)
    choice = *state().asked;
  else
    EMBER_TRY(driver::parse_choice(env::get("EMBER_DEVICES"), choice));
  EMBER_TRY(driver::name_machine(env::get("EMBER_SIM_MACHINE"), choice));
  if (choice.kind == driver::Choice::Kind::simulated && choice.simulated.count == 0)
    EMBER_TRY(driver::find_simulated(choice.simulated));
  choice.schedule = state().schedule;
  out = std::move(choice);
  return {};
}

/// Told apart from a machine that has no devices.
class OldDriver : public Error {
 public:
  using Error::Error;
};

constexpr const char* kHowToSimulate =
    "EMBER_DEVICES=sim:2, or before the first use of a device ember::cuda::simulate(2), in Python "
    "ember.cuda.simulate(2)";

[[noreturn]] void throw_open_failure(const Status& status) {
  const std::string detail = status.detail();
  switch (status.code()) {
    case Code::not_supported:
      throw AssertionError("Torch not compiled with CUDA enabled: this ember has no CUDA object (" +
                           detail + "). Simulated devices need none: " + kHowToSimulate + ".");
    case Code::not_initialized:
      throw AssertionError(
          "libcudart functions unavailable. It looks like you have a broken build? " + detail);
    case Code::insufficient_driver:
      throw OldDriver("The NVIDIA driver on your system is too old (" +
                      detail.substr(0, detail.find_first_of(",;")) + "). " + detail +
                      ". Update the GPU driver, or use simulated devices (" + kHowToSimulate +
                      ").");
    case Code::no_device:
      if (detail.rfind("libcuda", 0) == 0)
        throw Error("Found no NVIDIA driver on your system. " + detail +
                    ". Install one if there is an NVIDIA GPU, or use simulated devices (" +
                    kHowToSimulate + ").");
      throw Error("No CUDA GPUs are available: " + detail);
    case Code::invalid_value: throw ValueError(detail);
    case Code::not_permitted: throw Error(detail);
    default: throw AcceleratorError(status);
  }
}

void adopt(std::unique_ptr<driver::Driver> made) EMBER_REQUIRES(state().mutex) {
  blocking_launches = env::flag("CUDA_LAUNCH_BLOCKING");
  check_accesses_as_asked(made->simulated());
  // Deliberately leaked: workers, thread-local state and static objects of the user's may outlive
  // any point at which it could be destroyed. It stays reachable through the_driver.
  detail::the_driver.store(made.release(), std::memory_order_release);
}

/// Calls what waited for the driver. A hook that throws stays, with those after it, for the next
/// init().
void call_made_hooks() {
  std::vector<void (*)()> hooks;
  {
    const MutexLock lock(state().mutex);
    hooks.swap(state().made_hooks);
  }
  for (auto hook = hooks.begin(); hook != hooks.end(); ++hook) {
    try {
      (*hook)();
    } catch (...) {
      const MutexLock lock(state().mutex);
      auto& left = state().made_hooks;
      left.insert(left.begin(), hook, hooks.end());
      throw;
    }
  }
}

void refuse_bad_fork() {
  if (bad_fork)
    throw Error(
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method");
}

}  // namespace

driver::Driver& detail::initialize() {
  refuse_bad_fork();  // before the lock: a thread that did not survive the fork may hold it
  watch_as_asked();   // before there is anything to see, and again until it does not throw
  record_as_asked();
  explore_as_asked();
  {
    const MutexLock lock(state().mutex);
    if (driver::Driver* made = the_driver.load(std::memory_order_acquire)) return *made;
    driver::Choice choice;
    if (const Status status = chosen(choice); !status.ok()) throw ValueError(status.detail());
    const int launches = launches_to_record();
    std::unique_ptr<driver::Driver> made;
    const InPieces until_adopted;
    const Status status = driver::open(choice, made);
    if (!status.ok()) throw_open_failure(status);
    adopt(std::move(made));
    begin_recording(*the_driver.load(std::memory_order_acquire), launches);
  }
  notify([&]() -> Activity { return {.kind = Activity::Kind::initialized}; });
  call_made_hooks();
  return *the_driver.load(std::memory_order_acquire);
}

Status detail::with_choice(const std::function<Status(const driver::Choice&)>& ask) {
  if (forked_in_pieces) refuse_bad_fork();
  const MutexLock lock(state().mutex);
  driver::Choice choice;
  if (const Status status = chosen(choice); !status.ok()) throw ValueError(status.detail());
  const InPieces while_asking(choice.kind != driver::Choice::Kind::simulated);
  return ask(choice);
}

bool detail::launch_blocking() noexcept {
  return blocking_launches.load(std::memory_order_relaxed);
}

void install_driver(std::unique_ptr<driver::Driver> driver) {
  refuse_bad_fork();
  detail::watch_as_asked();
  detail::record_as_asked();
  detail::explore_as_asked();
  const MutexLock lock(state().mutex);
  if (driver_if_made() != nullptr)
    throw Error("install_driver: devices are in use already; it must come before the first use");
  const int launches = detail::launches_to_record();
  adopt(std::move(driver));
  detail::begin_recording(*driver_if_made(), launches);
}

void on_initialized(void (*hook)()) {
  const MutexLock lock(state().mutex);
  if (driver_if_made() == nullptr) state().made_hooks.push_back(hook);
}

void want_stacks_of_first_use() {
  if (driver_if_made() != nullptr) return;
  for (const char* const name :
       {"EMBER_SANITIZER", "TORCH_CUDA_SANITIZER", "EMBER_SIM_EXPLORE", "EMBER_RECORD_LAUNCHES"})
    if (env::flag(name)) {
      want_stacks(true);
      return on_initialized([] { want_stacks(false); });
    }
}

void simulate(int count, std::uint64_t memory_bytes) {
  driver::Choice choice;
  choice.kind = driver::Choice::Kind::simulated;
  choice.simulated.count = count;
  choice.simulated.memory_bytes = memory_bytes;
  choice.simulated.all_visible = true;
  if (const Status status = driver::check_simulated(choice.simulated); !status.ok())
    throw ValueError("simulate: " + status.detail());
  refuse_bad_fork();
  const MutexLock lock(state().mutex);
  if (driver_if_made() != nullptr)
    throw Error("simulate: devices are in use already; it must be called before their first use");
  state().asked = choice;
}

bool devices_chosen() {
  const MutexLock lock(state().mutex);
  return driver_if_made() != nullptr || state().asked ||
         !env::get("EMBER_DEVICES").value_or("").empty();
}

void detail::set_schedule(const driver::Schedule& schedule) {
  refuse_bad_fork();
  const MutexLock lock(state().mutex);
  if (driver_if_made() != nullptr)
    throw Error("schedule: devices are in use already; it must be called before their first use");
  state().schedule = schedule;
}

Status detail::schedule_to_come(driver::Schedule& out) {
  return with_choice([&](const driver::Choice& choice) {
    if (choice.kind != driver::Choice::Kind::simulated) return Status();
    if (!choice.schedule) return driver::parse_schedule(env::get("EMBER_SIM_SCHEDULE"), out);
    out = *choice.schedule;
    return Status();
  });
}

std::optional<SimulatedMachine> share_simulated_machine() {
  if (bad_fork) return std::nullopt;
  const MutexLock lock(state().mutex);
  driver::Driver* made = driver_if_made();
  if (made != nullptr && !made->simulated()) return std::nullopt;
  driver::Choice choice;
  if (!chosen(choice).ok() || choice.kind != driver::Choice::Kind::simulated) return std::nullopt;
  driver::SimulatedSpec& spec = choice.simulated;
  const InPieces while_joining;
  if (const Status status = driver::share_simulated(spec, made); !status.ok())
    throw_open_failure(status);
  state().asked = choice;
  return SimulatedMachine{spec.count, spec.memory_bytes, spec.machine, spec.folder,
                          spec.all_visible};
}

bool join_simulated_machine(const SimulatedMachine& machine) {
  driver::Choice choice;
  choice.kind = driver::Choice::Kind::simulated;
  choice.simulated = {machine.devices, machine.memory_bytes, machine.all_visible, machine.name,
                      machine.folder};
  if (const Status status = driver::check_simulated(choice.simulated); !status.ok())
    throw ValueError("join_simulated_machine: " + status.detail());
  refuse_bad_fork();
  const MutexLock lock(state().mutex);
  driver::Driver* made = driver_if_made();
  if (made != nullptr && !driver::may_share(*made, choice.simulated)) return false;
  const InPieces while_joining;
  if (const Status status = driver::share_simulated(choice.simulated, made); !status.ok())
    throw_open_failure(status);
  state().asked = choice;
  return true;
}

void leave_simulated_machine() noexcept { driver::leave_simulated(); }

void init() {
  active_driver();
  call_made_hooks();
}

bool tells_all_writes() noexcept {
  const driver::Driver* const made = driver_if_made();
  return made != nullptr && made->simulated();
}

bool is_initialized() noexcept { return driver_if_made() != nullptr; }

bool is_in_bad_fork() noexcept { return bad_fork; }

int device_count() noexcept {
  if (driver::Driver* made = driver_if_made()) return made->device_count();
  if (bad_fork) return inherited_devices;
  // Shown without the lock: what shows them may count devices itself.
  const auto warn_of = [](const std::string& trouble) {
    warn(Warning::user, "CUDA initialization: " + trouble);
    return 0;
  };
  try {
    int count = -1;
    Status malformed;
    {
      const MutexLock lock(state().mutex);
      driver::Choice choice;
      malformed = chosen(choice);
      if (malformed.ok()) {
        const InPieces while_counting(driver::counting_leaves_ember(choice));
        count = driver::count_without_opening(choice);
      }
    }
    if (!malformed.ok()) return warn_of(malformed.detail());
    return count >= 0 ? count : active_driver().device_count();
  } catch (const OldDriver& trouble) {
    return warn_of(trouble.what());
  } catch (const AcceleratorError& trouble) {
    return warn_of(trouble.what());
  } catch (...) {
    // There are devices where only what waited for them (on_initialized) has failed.
    driver::Driver* made = driver_if_made();
    return made != nullptr ? made->device_count() : 0;
  }
}

bool is_available() noexcept { return device_count() > 0; }

bool is_simulated() { return active_driver().simulated(); }

std::vector<std::string> get_arch_list() {
  std::string words;
  {
    const MutexLock lock(state().mutex);
    if (forked_in_pieces) return {};  // the CUDA object cannot be loaded any more
    const InPieces while_loading(!driver::cuda_object_is_known());
    words = driver::compiled_architectures();
  }
  std::vector<std::string> made;
  for (std::size_t start = 0; (start = words.find_first_not_of(' ', start)) != std::string::npos;) {
    const std::size_t end = std::min(words.find(' ', start), words.size());
    made.push_back(words.substr(start, end - start));
    start = end;
  }
  return made;
}

std::string get_gencode_flags() {
  std::string flags;
  for (const std::string& architecture : get_arch_list()) {
    const std::string number = architecture.substr(architecture.find('_') + 1);
    if (!flags.empty()) flags += ' ';
    flags.append("-gencode compute=compute_").append(number).append(",code=").append(architecture);
  }
  return flags;
}

void reset_device(DeviceArg device) {
  const int index = device.existing();
  const std::uint32_t before = device_epoch(index);
  const auto tell = [&] {
    notify([&]() -> Activity { return {.kind = Activity::Kind::device_reset, .device = index}; });
  };
  try {
    HostWait(WaitKind::device, "reset_device").reset(index);
  } catch (...) {
    // An interrupted one has begun, and only has not waited for what runs.
    if (device_epoch(index) != before) tell();
    throw;
  }
  tell();
}

}  // namespace ember::inline v0::cuda
