#include "ember/runtime/simulation.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ember/base/error.h"
#include "ember/driver/simulation.h"
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

void begin(const driver::Schedule& schedule) {
  (void)cuda::active_driver();
  const Status status = driver::begin_simulated_run(schedule);
  if (status.ok()) return;
  if (status.code() == Code::invalid_value) throw ValueError("begin_run: " + status.detail());
  throw Error("begin_run: " + status.text());
}

}  // namespace

void schedule(const std::string& text) { cuda::detail::set_schedule(parsed(text)); }

bool seeded() noexcept { return driver::simulated_schedule().seeded(); }

void begin_run(std::uint64_t seed) {
  (void)cuda::active_driver();
  driver::Schedule schedule = driver::simulated_schedule();
  // A replay goes on replaying: what a seed would decide is recorded.
  schedule.seed = seed;
  begin(schedule);
}

void begin_run(const std::string& schedule) { begin(parsed(schedule)); }

std::string log() { return driver::simulated_log(); }

void save_log(const std::string& file) {
  const std::string text = log();
  std::FILE* opened = std::fopen(file.c_str(), "wbe");
  bool written = opened != nullptr;
  if (written) written = std::fwrite(text.data(), 1, text.size(), opened) == text.size();
  if (opened != nullptr) written = std::fclose(opened) == 0 && written;
  if (!written) throw Error("save_log: '" + file + "' cannot be written: " + std::strerror(errno));
}

std::string replay_line() { return driver::simulated_replay_line(); }

}  // namespace ember::inline v0::sim
