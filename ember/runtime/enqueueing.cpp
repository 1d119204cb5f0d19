#include "ember/runtime/enqueueing.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/argument_names.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/timing.h"

namespace ember::inline v0::cuda {
namespace {

/// Streams share them: a lock for each would have to be found and kept.
constexpr int kLocks = 64;
constinit std::array<Mutex, kLocks> locks;

thread_local const ArgumentNames* names = nullptr;

/// Of work that touches more, a `cat` of many tensors, the names are left as they are.
constexpr std::size_t kMostNamed = 8;

int lock_of(const driver::StreamHandle& stream) noexcept {
  const auto native = reinterpret_cast<std::uintptr_t>(stream.native);
  const std::uint64_t mixed =
      (native + static_cast<std::uint64_t>(stream.device)) * 0x9E3779B97F4A7C15;
  return static_cast<int>(mixed >> 58);
}

}  // namespace

ArgumentNames::ArgumentNames(const char* reads, const char* writes) noexcept
    : reads_(reads), writes_(writes) {
  if (names == nullptr) names = this;
}
ArgumentNames::~ArgumentNames() {
  if (names == this) names = nullptr;
}
const ArgumentNames* ArgumentNames::of_this_thread() noexcept { return names; }

void Enqueueing::begin(const driver::StreamHandle* stream) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  // An observer enqueues while it is told something: that is not seen.
  if (inside_notice()) {
    watched_ = false;
    return;
  }
  detail::note_place();
  (void)driver::take_simulated_ticket();  // of work that was enqueued before
  may_wait_ = stream == nullptr;
  // A call within another one (an implementation that enqueues) is under the outer one's lock.
  if (stream == nullptr || detail::mark_enqueueing(true)) return;
  lock_ = lock_of(*stream);
  locks[static_cast<std::size_t>(lock_)].lock();
}

void Enqueueing::begin_timing(driver::Driver& machine,
                              const driver::StreamHandle& stream) noexcept {
  if (may_wait_) began_ = detail::now();
  timing_ = new (std::nothrow) detail::Timing(machine, stream);
}

void Enqueueing::record(const Stream& stream, Activity activity) noexcept {
  std::array<Access, kMostNamed> named;
  if (names != nullptr && activity.accesses.size() <= named.size() && activity.accesses_known)
      [[unlikely]] {
    const auto end = std::copy(activity.accesses.begin(), activity.accesses.end(), named.begin());
    for (auto access = named.begin(); access != end; ++access)
      access->argument = names->name(access->writes);
    // An empty list stays the one that says that nothing is touched.
    if (end != named.begin()) activity.accesses = {named.begin(), end};
  }
  if (noted_ && CaptureLog::note(stream, activity)) [[unlikely]]
    return;
  if (!watched_) return;
  activity.device = stream.device_index();
  activity.stream = stream.handle().native;
  activity.stream_id = stream.stream_id();
  const driver::Ticket ticket = driver::take_simulated_ticket();
  activity.ticket = ticket.number;
  activity.run_stream = ticket.stream;
  activity.run_task = ticket.task;
  activity.run_point = ticket.point;
  if (timing_ != nullptr) activity.times = timing_->enqueued();
  activity.began = began_;
  detail::record(activity);
}

void Enqueueing::unlock() noexcept EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  const int held = std::exchange(lock_, -1);
  if (held < 0) return;
  (void)detail::mark_enqueueing(false);
  locks[static_cast<std::size_t>(held)].unlock();
}

void Enqueueing::end() noexcept {
  delete std::exchange(timing_, nullptr);
  unlock();
  detail::release_place();
  detail::deliver();
}

void Enqueueing::tell() {
  if (std::exchange(watched_, false)) {
    end();
    detail::throw_failure();
  }
  if (noted_) detail::finish_call();
}

void detail::renew_enqueueing_locks() noexcept {
  for (Mutex& lock : locks) renew_in_child(lock);
}

}  // namespace ember::inline v0::cuda
