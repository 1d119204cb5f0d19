#include "ember/runtime/simulation.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/file_name.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::sim {
namespace {

driver::Schedule parsed(const std::string& text) {
  driver::Schedule schedule;
  if (const Status status = driver::parse_schedule(text, schedule); !status.ok())
    throw ValueError(status.detail());
  return schedule;
}

struct Hooks {
  Mutex mutex;
  std::vector<void (*)(std::uint64_t)> all EMBER_GUARDED_BY(mutex);
};

Hooks& hooks() {
  static NoDestructor<Hooks> made;  // runs may begin in destructors of static objects
  return *made;
}

void run_hooks(std::uint64_t seed) {
  std::vector<void (*)(std::uint64_t)> all;
  {
    const MutexLock lock(hooks().mutex);
    all = hooks().all;
  }
  for (const auto& hook : all) hook(seed);
}

void begin(const driver::Schedule& schedule) {
  (void)cuda::active_driver();
  const cuda::HostWait wait(cuda::WaitKind::device, "begin_run");
  const Status status = driver::begin_simulated_run(schedule, &run_hooks);
  if (status.ok()) return;
  if (status.code() == Code::invalid_value) throw ValueError("begin_run: " + status.detail());
  throw Error("begin_run: " + status.text());
}

std::atomic<bool> owned_runs{false};

void refuse_owned() {
  if (owned_runs.load(std::memory_order_relaxed))
    throw Error("begin_run: a program is being explored, which decides what its runs are");
}

}  // namespace

}  // namespace ember::inline v0::sim

namespace ember::inline v0::cuda {

void own_runs(bool owned) noexcept { sim::owned_runs = owned; }
void begin_owned_run(const std::string& schedule) { sim::begin(sim::parsed(schedule)); }

void on_run_begun(void (*hook)(std::uint64_t seed)) {
  const MutexLock lock(sim::hooks().mutex);
  sim::hooks().all.push_back(hook);
}

}  // namespace ember::inline v0::cuda

namespace ember::inline v0::sim {

void schedule(const std::string& text) { cuda::detail::set_schedule(parsed(text)); }

void faults(const std::string& text) {
  driver::Faults wanted;
  if (const Status status = driver::parse_faults(text, wanted); !status.ok())
    throw ValueError(status.detail());
  (void)cuda::active_driver();
  const Status status = driver::set_simulated_faults(wanted);
  if (status.code() == Code::invalid_value) throw ValueError(status.detail());
  if (!status.ok()) throw Error("faults: " + status.detail());
}

std::uint64_t faults_happened() noexcept { return driver::simulated_faults_happened(); }

bool seeded() noexcept { return driver::simulated_schedule().seeded(); }

void begin_run(std::uint64_t seed) {
  refuse_owned();
  (void)cuda::active_driver();
  driver::Schedule schedule = driver::simulated_schedule();
  // A replay goes on replaying: what a seed would decide is recorded.
  schedule.seed = seed;
  begin(schedule);
}

void begin_run(const std::string& schedule) {
  refuse_owned();
  begin(parsed(schedule));
}

std::string log() {
  cuda::tell_figure_asked("log");
  return driver::simulated_log();
}

void save_log(const std::string& file) {
  require_file_name(file, "file");
  const std::string text = driver::simulated_log();
  std::FILE* opened = std::fopen(file.c_str(), "wbe");
  bool written = opened != nullptr;
  if (written) written = std::fwrite(text.data(), 1, text.size(), opened) == text.size();
  if (opened != nullptr) written = std::fclose(opened) == 0 && written;
  if (!written) throw FileError("save_log: '" + file + "' cannot be written", file, errno);
}

std::string replay_line() { return driver::simulated_replay_line(); }

}  // namespace ember::inline v0::sim
