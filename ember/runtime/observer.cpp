#include "ember/runtime/observer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/stack.h"
#include "ember/runtime/observer_queue.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/timing.h"

namespace ember::inline v0::cuda {
namespace detail {
std::atomic<int> observers{0};
std::atomic<int> timed_observers{0};
std::atomic<int> accesses_wanted{0};
}

namespace {

// Note [One order]
// ~~~~~~~~~~~~~~~~
// Everything that happens is put into one queue, and whoever finds that nobody is telling tells
// what is in it. A thread puts what it did there before its call returns; so what it did comes
// before whatever another thread does that learned of it. Work of one stream comes in the order of
// the stream's queue, since the call that enqueues and the record of it are made under one lock for
// the stream (enqueueing.h). That lock is taken only while somebody watches, and observers are told
// without it.

struct Queue {
  Mutex mutex;
  detail::Batch waiting EMBER_GUARDED_BY(mutex);
  std::uint64_t recorded EMBER_GUARDED_BY(mutex) = 0;
  bool telling EMBER_GUARDED_BY(mutex) = false;
  int quiet_wanted EMBER_GUARDED_BY(mutex) = 0;
  Condition told;
  std::map<std::uint32_t, std::exception_ptr> failures EMBER_GUARDED_BY(mutex);
  // Changed by a thread that made sure that nobody is telling, and read by who is; which may be the
  // same: then null stands for one that has gone.
  std::vector<Observer*> list;
  detail::Batch batch;  // of who is telling
  Observer* slot EMBER_GUARDED_BY(mutex) = nullptr;
};

Queue& queue() {
  static NoDestructor<Queue> made;  // threads report until the process ends
  return *made;
}
[[maybe_unused]] const Queue& queue_made_at_load = queue();  // not beside a fork

std::atomic<bool> any_failure{false};
std::atomic<std::uint32_t> threads{0};

struct OfThread {
  bool noticing = false;              // what an observer does through ember is not reported
  const Observer* noticed = nullptr;  // ... while it is told
  bool enqueueing = false;            // holds a stream's lock
  std::uint32_t number = 0;
  int places = 0;  // how many calls have noted where the thread stands; the outermost one counts
  std::uint64_t stack = 0;
};
thread_local constinit OfThread self;

std::uint32_t this_thread_number() noexcept {
  if (self.number == 0) self.number = ++threads;
  return self.number;
}

// The thread that forks may be the one that tells: its observer then goes on in the child.
void renew_telling(Queue& all) noexcept EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  all.telling = self.noticing;
}

}  // namespace

/// What may change the list, while nobody is telling.
struct detail::ObserverList {
  static void add(Observer& observer) EMBER_REQUIRES(queue().mutex) {
    queue().list.push_back(&observer);
    observer.listed_ = true;
    observer.since_ = queue().recorded;
    observer.stacks_ = observer.wants_stacks();
    if (observer.stacks_) want_stacks(true);
    observer.times_ = observer.wants_times();
    if (observer.times_) ++timed_observers;
    ++observers;
    ++accesses_wanted;
  }
  static void remove(Observer& observer) EMBER_REQUIRES(queue().mutex) {
    if (self.noticing)
      std::replace(queue().list.begin(), queue().list.end(), &observer,
                   static_cast<Observer*>(nullptr));
    else
      std::erase(queue().list, &observer);
    if (queue().slot == &observer) queue().slot = nullptr;
    observer.listed_ = false;
    if (observer.stacks_) want_stacks(false);
    if (observer.times_ && --timed_observers == 0) pause_times();
    --observers;
    --accesses_wanted;
  }
  static bool holds(const Observer& observer) noexcept { return observer.listed_; }
  static bool is_for(const Observer& observer, const Activity& activity) noexcept {
    return activity.order > observer.since_;
  }
  /// Calls `change()` under the lock when nobody is telling, and not before.
  template <class Change>
  static auto quietly(const char* caller, const Change& change)
      EMBER_THREAD_NOTE(no_thread_safety_analysis) {
    if (self.noticing)
      throw Error(std::string(caller) + ": must not be called from within notice()");
    Queue& all = queue();
    struct Release {
      ~Release() { deliver(); }  // what was left for us
    } release;
    const MutexLock lock(all.mutex);
    ++all.quiet_wanted;
    while (all.telling) all.told.wait(all.mutex);
    --all.quiet_wanted;
    return change();
  }
};

using detail::ObserverList;

Observer::~Observer() {
  if (listed_) remove_observer(*this);
}

void add_observer(Observer& observer) {
  ObserverList::quietly("add_observer", [&]() EMBER_REQUIRES(queue().mutex) {
    if (ObserverList::holds(observer))
      throw Error("add_observer: the observer is in the list already, where it can be once");
    ObserverList::add(observer);
  });
}

void remove_observer(Observer& observer) {
  // An interpreter may destroy one wherever it cleans up, so also while another one is told.
  if (self.noticing && self.noticed != &observer) {
    const MutexLock lock(queue().mutex);
    if (ObserverList::holds(observer)) ObserverList::remove(observer);
    return;
  }
  ObserverList::quietly("remove_observer", [&]() EMBER_REQUIRES(queue().mutex) {
    if (ObserverList::holds(observer)) ObserverList::remove(observer);
  });
}

Observer* set_observer(Observer* observer) {
  return ObserverList::quietly("set_observer", [&]() EMBER_REQUIRES(queue().mutex) {
    Observer* const previous = queue().slot;
    if (previous == observer) return previous;
    if (observer != nullptr && ObserverList::holds(*observer))
      throw Error("set_observer: the observer is in the list already, where it can be once");
    if (previous != nullptr) ObserverList::remove(*previous);
    if (observer != nullptr) ObserverList::add(*observer);
    queue().slot = observer;
    return previous;
  });
}

void collect_times() {
  if (self.noticing) throw Error("collect_times: must not be called from within notice()");
  (void)detail::collect_times();
}

bool inside_notice() noexcept { return self.noticing; }

std::span<const Access> no_accesses() noexcept {
  static const Access none;
  return {&none, 0};
}

void fail_operation(std::uint32_t thread, std::exception_ptr error) noexcept {
  const MutexLock lock(queue().mutex);
  std::exception_ptr& kept = queue().failures[thread];
  if (!kept) kept = std::move(error);
  any_failure = true;
}

namespace detail {

void note_place() noexcept {
  if (self.places++ == 0 && stacks_wanted() && !self.noticing) self.stack = capture_stack();
}

void release_place() noexcept {
  if (--self.places == 0) self.stack = 0;
}

bool mark_enqueueing(bool now) noexcept { return std::exchange(self.enqueueing, now); }

void record(const Activity& activity) noexcept {
  if (self.noticing) {
    if (activity.release != nullptr) activity.release(activity.annotation);
    return;
  }
  const detail::Place place{this_thread_number(), self.stack,
                            timed_observers.load(std::memory_order_relaxed) != 0 ? now() : 0};
  Queue& all = queue();
  const MutexLock lock(all.mutex);
  all.waiting.add(activity, place, ++all.recorded);
}

void deliver() noexcept {
  if (self.noticing || self.enqueueing) return;
  Queue& all = queue();
  const MutexLock lock(all.mutex);
  if (all.telling) return;  // that thread looks for more before it ends
  while (!all.waiting.empty() && all.quiet_wanted == 0) {
    all.telling = true;
    std::swap(all.batch, all.waiting);
    all.mutex.unlock();
    self.noticing = true;
    all.batch.each([&](const Activity& activity) {
      for (Observer* const& observer : all.list)
        if (observer != nullptr && ObserverList::is_for(*observer, activity)) {
          self.noticed = observer;
          observer->notice(activity);
        }
    });
    self.noticing = false;
    self.noticed = nullptr;
    all.mutex.lock();
    std::erase(all.list, nullptr);
    all.telling = false;
  }
  if (all.quiet_wanted != 0) all.told.notify_all();
}

void notify_slow(const Activity& activity) noexcept {
  if (self.noticing) return record(activity);
  note_place();
  record(activity);
  release_place();
  deliver();
}

void renew_observer_locks() noexcept {
  Queue& all = queue();
  renew_in_child(all.mutex);
  renew_enqueueing_locks();
  renew_timing_locks();
  // Whoever was telling did not come along.
  renew_telling(all);
}

void throw_failure() {
  if (!any_failure.load(std::memory_order_relaxed) || self.noticing || self.enqueueing) return;
  std::exception_ptr error;
  {
    Queue& all = queue();
    const MutexLock lock(all.mutex);
    const auto found = all.failures.find(this_thread_number());
    if (found == all.failures.end()) return;
    error = std::move(found->second);
    all.failures.erase(found);
    any_failure = !all.failures.empty();
  }
  std::rethrow_exception(error);
}

}  // namespace detail

const char* activity_name(Activity::Kind kind) noexcept {
  using Kind = Activity::Kind;
  switch (kind) {
    case Kind::initialized: return "initialized";
    case Kind::device_reset: return "device_reset";
    case Kind::device_synchronized: return "device_synchronized";
    case Kind::stream_created: return "stream_created";
    case Kind::stream_ended: return "stream_ended";
    case Kind::stream_synchronized: return "stream_synchronized";
    case Kind::stream_queried: return "stream_queried";
    case Kind::wait_began: return "wait_began";
    case Kind::event_created: return "event_created";
    case Kind::event_destroyed: return "event_destroyed";
    case Kind::event_recorded: return "event_recorded";
    case Kind::event_waited: return "event_waited";
    case Kind::event_synchronized: return "event_synchronized";
    case Kind::event_queried: return "event_queried";
    case Kind::kernel_launched: return "kernel_launched";
    case Kind::copied: return "copied";
    case Kind::filled: return "filled";
    case Kind::host_function_queued: return "host_function_queued";
    case Kind::host_accessed: return "host_accessed";
    case Kind::host_exposed: return "host_exposed";
    case Kind::peer_enabled: return "peer_enabled";
    case Kind::peer_disabled: return "peer_disabled";
    case Kind::memory_allocated: return "memory_allocated";
    case Kind::memory_free_requested: return "memory_free_requested";
    case Kind::memory_free_completed: return "memory_free_completed";
    case Kind::memory_stream_recorded: return "memory_stream_recorded";
    case Kind::segment_allocated: return "segment_allocated";
    case Kind::segment_freed: return "segment_freed";
    case Kind::out_of_memory: return "out_of_memory";
    case Kind::pinned_allocated: return "pinned_allocated";
    case Kind::pinned_freed: return "pinned_freed";
    case Kind::pinned_handed_out: return "pinned_handed_out";
    case Kind::pinned_returned: return "pinned_returned";
    case Kind::pinned_stream_recorded: return "pinned_stream_recorded";
    case Kind::marked: return "marked";
    case Kind::range_pushed: return "range_pushed";
    case Kind::range_popped: return "range_popped";
    case Kind::range_started: return "range_started";
    case Kind::range_ended: return "range_ended";
    case Kind::figure_asked: return "figure_asked";
  }
  return "unknown";
}

}  // namespace ember::inline v0::cuda
