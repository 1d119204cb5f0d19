#include "ember/random/seed.h"

#include <pthread.h>

#include <atomic>
#include <functional>
#include <new>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/schedule.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0 {
namespace {

/// A call that waits for CUDA to be initialised.
struct Call {
  enum class Kind : std::uint8_t { seed, seed_all, other };
  Kind kind;
  std::string from;  ///< who made the call
  std::function<void()> run;
};

struct Defaults {
  Mutex mutex;
  std::optional<Generator> cpu EMBER_GUARDED_BY(mutex);
  std::vector<std::optional<Generator>> cuda EMBER_GUARDED_BY(mutex);
  std::vector<Call> calls EMBER_GUARDED_BY(mutex);
  bool hooked EMBER_GUARDED_BY(mutex) = false;
  bool failed EMBER_GUARDED_BY(mutex) = false;  // one of the calls: the others wait behind it

  /// Set from the first call that is put off until all have been made.
  std::atomic<bool> waiting{false};
  /// Held while they are made. Recursive: the calls themselves use default generators.
  std::recursive_mutex running;
};

void after_fork_in_child();

Defaults& defaults() {
  static NoDestructor<Defaults> made;
  static const int fork_handler = pthread_atfork(nullptr, nullptr, &after_fork_in_child);
  (void)fork_handler;
  return *made;
}

void after_fork_in_child() EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  // Threads that held the locks did not come along. A child of a process that used CUDA uses the
  // CPU's generator only.
  renew_in_child(defaults().mutex);
  renew_in_child(defaults().running);
}

/// A run that a seed decides begins with generators that have that seed.
void seed_defaults(std::uint64_t seed) {
  std::vector<Generator> made;
  {
    const MutexLock lock(defaults().mutex);
    if (defaults().cpu) made.push_back(*defaults().cpu);
    for (const std::optional<Generator>& each : defaults().cuda)
      if (each) made.push_back(*each);
  }
  for (Generator& each : made) each.manual_seed(seed);
}

/// Of the run that is, or that will be when a device is first used, as far as that is known.
driver::Schedule schedule_of_run() {
  driver::Schedule schedule;
  if (cuda::driver_if_made() != nullptr) return driver::simulated_schedule();
  try {
    (void)cuda::detail::schedule_to_come(schedule);
  } catch (const Error&) {
    // Of a malformed setting the first use tells.
  }
  return schedule;
}

void seed_first_time(Generator& made) {
  static std::atomic<bool> watching{false};
  if (!watching.exchange(true)) cuda::on_run_begun(&seed_defaults);
  const driver::Schedule schedule = schedule_of_run();
  if (schedule.seeded()) {
    made.manual_seed(schedule.seed);
    return;
  }
  const std::uint64_t seed = made.seed();
  if (made.device().is_cuda() || cuda::driver_if_made() != nullptr) return;
  // It may be made before anybody knows what devices there will be, as by an import.
  static std::atomic<std::uint64_t> first_seed;
  first_seed = seed;
  cuda::on_initialized([] {
    const driver::Schedule run = driver::simulated_schedule();
    if (!run.seeded()) return;
    std::optional<Generator> cpu;
    {
      const MutexLock lock(defaults().mutex);
      cpu = defaults().cpu;
    }
    if (cpu && cpu->initial_seed() == first_seed && cpu->get_offset() == 0)
      cpu->manual_seed(run.seed);
  });
}

Generator& slot(std::optional<Generator>& of, Device device) {
  if (!of) {
    of.emplace(device);
    seed_first_time(*of);
  }
  return *of;
}

/// Makes the calls that waited. CUDA is initialised.
void make_waiting_calls() {
  Defaults& all = defaults();
  if (!all.waiting.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard running(all.running);
  std::vector<Call> calls;
  {
    const MutexLock lock(all.mutex);
    calls.swap(all.calls);
  }
  if (calls.empty()) return;  // one of the calls came here itself, or another thread was faster
  for (std::size_t i = 0; i < calls.size(); ++i) {
    try {
      calls[i].run();
    } catch (const Error& error) {
      std::string from = calls[i].from;
      const MutexLock lock(all.mutex);
      all.calls.insert(all.calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(i),
                       calls.end());
      all.failed = true;
      throw DeferredCudaCallError(
          std::string("CUDA call failed lazily at initialization with error: ") + error.what() +
          "\n\nCUDA call was originally invoked at:\n\n" + from);
    }
  }
  const MutexLock lock(all.mutex);
  all.failed = false;
  all.waiting.store(!all.calls.empty(), std::memory_order_release);
}

/// Makes a call now if CUDA is initialised, else then; after those that failed then.
void call_when_initialized(Call::Kind kind, const char* name, std::function<void()> run) {
  Defaults& all = defaults();
  bool hook = false;
  std::string from;
  // Without the lock: the language may need one of its own.
  if (!cuda::is_initialized()) from = call_stack();
  if (from.empty()) from = std::string("ember::cuda::") + name;
  {
    const MutexLock lock(all.mutex);
    if (!cuda::is_initialized() || all.failed) {
      if (kind != Call::Kind::other)
        std::erase_if(all.calls, [kind](const Call& call) { return call.kind == kind; });
      all.calls.push_back({kind, std::move(from), std::exchange(run, nullptr)});
      all.waiting.store(true, std::memory_order_release);
      hook = !std::exchange(all.hooked, true);
    }
  }
  if (run)
    run();
  else if (hook)
    cuda::on_initialized(&make_waiting_calls);
}

Generator device_generator(const cuda::DeviceArg& device) {
  return default_generator(Device(Device::Type::cuda, device.existing()));
}

}  // namespace

Generator default_generator(Device device) {
  Defaults& all = defaults();
  if (!device.is_cuda()) {
    const MutexLock lock(all.mutex);
    return slot(all.cpu, Device(Device::Type::cpu));
  }
  const int index = cuda::DeviceArg(device).existing();
  make_waiting_calls();
  const Device resolved(Device::Type::cuda, index);
  const MutexLock lock(all.mutex);
  const auto at = static_cast<std::size_t>(index);
  if (at >= all.cuda.size()) all.cuda.resize(at + 1);
  return slot(all.cuda[at], resolved);
}

Generator manual_seed(std::uint64_t seed) {
  cuda::manual_seed_all(seed);
  return default_generator().manual_seed(seed);
}

std::uint64_t seed() {
  const std::uint64_t seed = random::random_seed();
  manual_seed(seed);
  return seed;
}

std::uint64_t initial_seed() { return default_generator().initial_seed(); }
Tensor get_rng_state() { return default_generator().get_state(); }
void set_rng_state(const Tensor& state) { default_generator().set_state(state); }

namespace cuda {

void manual_seed(std::uint64_t seed) {
  call_when_initialized(Call::Kind::seed, "manual_seed",
                        [seed] { device_generator({}).manual_seed(seed); });
}

void manual_seed_all(std::uint64_t seed) {
  call_when_initialized(Call::Kind::seed_all, "manual_seed_all", [seed] {
    for (int i = 0; i < device_count(); ++i) device_generator(i).manual_seed(seed);
  });
}

void seed() {
  call_when_initialized(Call::Kind::other, "seed", [] { device_generator({}).seed(); });
}

void seed_all() {
  call_when_initialized(Call::Kind::other, "seed_all", [] {
    const std::uint64_t seed = random::random_seed();
    for (int i = 0; i < device_count(); ++i) device_generator(i).manual_seed(seed);
  });
}

std::uint64_t initial_seed() { return device_generator({}).initial_seed(); }

Tensor get_rng_state(DeviceArg device) { return device_generator(device).get_state(); }

std::vector<Tensor> get_rng_state_all() {
  if (device_count() == 0) return {};
  init();
  std::vector<Tensor> states;
  states.reserve(static_cast<std::size_t>(device_count()));
  for (int i = 0; i < device_count(); ++i) states.push_back(get_rng_state(i));
  return states;
}

void set_rng_state(const Tensor& state, DeviceArg device) {
  if (is_initialized()) {
    device_generator(device).set_state(state);
    return;
  }
  call_when_initialized(Call::Kind::other, "set_rng_state", [copy = state.clone(), device] {
    device_generator(device).set_state(copy);
  });
}

void set_rng_state_all(const std::vector<Tensor>& states) {
  for (std::size_t i = 0; i < states.size(); ++i) set_rng_state(states[i], i);
}

std::uint64_t get_rng_state_offset(DeviceArg device) {
  return device_generator(device).get_offset();
}
void set_rng_state_offset(std::uint64_t offset, DeviceArg device) {
  device_generator(device).set_offset(offset);
}

}  // namespace cuda

namespace random {

ForkRng::ForkRng(const std::optional<std::vector<cuda::DeviceArg>>& devices, bool enabled) {
  if (!enabled) return;
  const auto save = [this](const Generator& generator) {
    saved_.emplace_back(generator, generator.now());
  };
  save(default_generator());
  if (devices) {
    for (const cuda::DeviceArg& device : *devices) save(device_generator(device));
  } else {
    for (int i = 0; i < cuda::device_count(); ++i) save(device_generator(i));
  }
}

ForkRng::~ForkRng() {
  for (auto& [generator, state] : saved_) generator.restore(state);
}

}  // namespace random
}  // namespace ember::inline v0
