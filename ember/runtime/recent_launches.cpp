#include "ember/runtime/recent_launches.h"

#include <atomic>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/stack.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

constexpr int kAsTheEnvironmentSays = -1;

struct Recorded {
  Mutex mutex;
  int wanted EMBER_GUARDED_BY(mutex) = kAsTheEnvironmentSays;
  bool stacks EMBER_GUARDED_BY(mutex) = false;  // whether they are wanted because of this
};

Recorded& recorded() {
  static NoDestructor<Recorded> made;
  return *made;
}

Status tell(driver::Driver& machine, int count) EMBER_REQUIRES(recorded().mutex) {
  Status status = machine.record_launches(count, &capture_stack);
  // A driver that keeps nothing is no reason to fail.
  if (!status.ok() && status.code() != Code::not_supported) return status;
  const bool stacks = count != 0;
  if (std::exchange(recorded().stacks, stacks) != stacks) want_stacks(stacks);
  return {};
}

}  // namespace

int detail::launches_to_record() {
  const MutexLock lock(recorded().mutex);
  int count = recorded().wanted;
  if (count != kAsTheEnvironmentSays) return count;
  if (const Status status = driver::parse_record_launches(env::get("EMBER_RECORD_LAUNCHES"), count);
      !status.ok())
    throw ValueError(status.detail());
  return count;
}

void detail::begin_recording(driver::Driver& machine, int count) noexcept {
  const MutexLock lock(recorded().mutex);
  if (recorded().wanted != kAsTheEnvironmentSays) count = recorded().wanted;
  if (count != 0) (void)tell(machine, count);
}

void detail::renew_recording_lock() noexcept { renew_in_child(recorded().mutex); }

void record_launches(int count) {
  if (count < 0 || count > driver::kMostRecentLaunches)
    throw ValueError("record_launches: count is " + std::to_string(count) + ", expected 0 to " +
                     std::to_string(driver::kMostRecentLaunches));
  const MutexLock lock(recorded().mutex);
  if (driver::Driver* made = driver_if_made()) check(tell(*made, count));
  recorded().wanted = count;
}

std::vector<RecentLaunch> recent_launches(DeviceArg device) {
  const int index = device.existing();
  tell_figure_asked("recent_launches");
  std::vector<driver::RecentLaunch> found;
  const Status status = active_driver().recent_launches(index, found);
  if (status.code() != Code::not_supported) check(status);
  std::vector<RecentLaunch> made;
  made.reserve(found.size());
  for (const driver::RecentLaunch& each : found)
    made.push_back(
        {each.name, index, each.stream, each.number, each.bytes, each.state, each.stack});
  return made;
}

std::string RecentLaunch::where() const { return stack_text(stack); }

std::string RecentLaunch::str() const {
  const char* text = state == LaunchState::finished     ? "finished"
                     : state == LaunchState::unfinished ? "unfinished"
                                                        : "dropped";
  return "'" + name + "' " + driver::launch_place(stream, number, 0) +
         " of cuda:" + std::to_string(device) + ", " + text;
}

}  // namespace ember::inline v0::cuda
