// Host threads that take turns: of several that could go on, a decision says which one does.
//
// One thread has the turn, and only that one runs, from one point to the next: where it enqueues,
// asks or waits for work, and where it starts, joins, locks and so on. There the turn goes to one
// of those that are ready. A thread that has the turn and comes to no point, such as one that waits
// for a lock that does not take part, would keep all others waiting: after a while they no longer
// take turns, and the log says so.

#include <algorithm>
#include <thread>
#include <utility>

#include "ember/base/no_destructor.h"
#include "ember/driver/sim/seeded_executor.h"
#include "ember/driver/sim/sim_driver.h"
#include "ember/driver/simulation.h"

namespace ember::inline v0::driver::sim {
namespace {

constexpr std::chrono::seconds kSilence{5};
/// How often a thread that takes no turns looks whether what it waits for is there.
constexpr std::chrono::milliseconds kLookEvery{10};

/// Who the calling thread is, in which run.
struct Place {
  std::uint64_t run = 0;
  std::uint32_t number = 0;
};
thread_local constinit Place this_place;

}  // namespace

SeededExecutor::HostThread* SeededExecutor::this_host() {
  if (this_place.number == 0 || this_place.run != run_ || turns_over_) return nullptr;
  return &hosts_[this_place.number - 1];
}

std::uint32_t SeededExecutor::turn_number() {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  return this_host() != nullptr ? this_place.number : 0;
}

std::uint32_t SeededExecutor::start_turns() {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  if (turns_over_) return 0;
  if (this_host() == nullptr) {
    if (!hosts_.empty() || on_worker()) return 0;  // of a thread that takes no turns itself
    hosts_.push_back({});
    turn_ = 1;
    this_place = {run_, 1};
  }
  this_host()->starts = true;
  hosts_.push_back({});
  return static_cast<std::uint32_t>(hosts_.size());
}

void SeededExecutor::enter_turns(std::uint32_t number) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  this_place = {run_, number};
  if (HostThread* self = this_host()) await_own(*self);
}

void SeededExecutor::leave_turns(std::uint32_t number) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  if (this_place.number == number) {
    if (this_host() == nullptr) return;
    hosts_[number - 1].over = true;
    this_place = {};
    give_turn();
  } else if (number != 0 && number <= hosts_.size()) {
    hosts_[number - 1].over = true;
    if (HostThread* const self = this_host()) self->starts = false;
  }
}

bool SeededExecutor::another_ready(const HostThread& self) {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const HostThread& host) {
    return &host != &self && !host.over && (host.wait == nullptr || host.wait->ready());
  });
}

// That a thread goes on once it has started another one is no order of what they do: what counts is
// whether it does anything before it waits for that one's end.
bool SeededExecutor::turns_in_order() {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  const HostThread* const self = this_host();
  return self != nullptr && turn_ == this_place.number && !several_hosts_ && !turns_mixed_ &&
         !another_ready(*self);
}

void SeededExecutor::give_turn() {
  std::vector<Ready> ready;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const HostThread& host = hosts_[i];
    if (!host.over && (host.wait == nullptr || host.wait->ready()))
      ready.push_back({static_cast<std::uint32_t>(i + 1), host.turns + 1, "thread"});
  }
  if (ready.empty() && several_hosts_) {  // a thread may come that takes no turns
    turns_over_ = true;
    turned_.notify_all();
    return;
  }
  if (ready.empty()) {
    std::string text = "deadlock:";
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      if (hosts_[i].wait != nullptr)
        text += std::string(text.back() == ':' ? "" : ";") + " thread " + std::to_string(i + 1) +
                " " + hosts_[i].wait->text();
    end_process(text, replay_line_locked());
  }
  std::size_t chosen = 0;
  if (const Status status = decider_.choose_turn(ready, turn_, chosen); !status.ok())
    end_process(status.detail(), replay_line_locked());
  turn_ = ready[chosen].stream;
  ++hosts_[turn_ - 1].turns;
  turned_.notify_all();
}

void SeededExecutor::await_own(HostThread& self) {
  const std::uint32_t number = this_place.number;
  while (turn_ != number && !turns_over_ && this_place.run == run_) {
    const std::uint64_t before = points_seen_;
    if (turned_.wait_until(mutex_, Clock::now() + kSilence)) continue;
    if (points_seen_ != before || busy_ || turn_ == number) continue;
    turns_over_ = true;
    decider_.note_threads();
    turned_.notify_all();
    return;
  }
  if (this_host() == &self) self.wait = nullptr;
}

void SeededExecutor::pass_turn_locked() {
  ++points_seen_;
  HostThread* const self = this_host();
  if (self == nullptr || on_worker() || turn_ != this_place.number) return;
  if (!std::exchange(self->starts, false) && another_ready(*self)) turns_mixed_ = true;
  give_turn();
  await_own(*self);
}

void SeededExecutor::pass_turn() {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  pass_turn_locked();
}

void SeededExecutor::await_turn(TurnWait& wait) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  ++points_seen_;
  if (HostThread* const self = this_host(); self != nullptr && !on_worker()) {
    self->wait = &wait;
    if (wait.ready() && another_ready(*self)) turns_mixed_ = true;
    give_turn();
    await_own(*self);
  }
  watch_threads();
  while (!wait.ready()) (void)turned_.wait_until(mutex_, Clock::now() + kLookEvery);
  wait.taken();
}

void SeededExecutor::change_turns(void (*change)(void*), void* argument) {
  const Unseen deciding;
  const MutexLock lock(mutex_);
  watch_threads();
  change(argument);
  turned_.notify_all();
}

}  // namespace ember::inline v0::driver::sim

namespace ember::inline v0::driver {
namespace {

/// Where no seed decides. Under its lock none begins to.
struct Plain {
  Mutex mutex;
  Condition changed;
};
Plain& plain() {
  static NoDestructor<Plain> made;
  return *made;
}

}  // namespace

void sim::begin_turns(void (*publish)(SimDriver&), SimDriver& driver) {
  const MutexLock lock(plain().mutex);
  publish(driver);
  plain().changed.notify_all();
}

std::uint32_t start_turns() {
  sim::SeededExecutor* const seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->start_turns() : 0;
}

void enter_turns(std::uint32_t number) {
  if (number != 0) sim::seeded_executor()->enter_turns(number);
}

void leave_turns(std::uint32_t number) {
  if (number != 0) sim::seeded_executor()->leave_turns(number);
}

void pass_turn() {
  if (sim::SeededExecutor* const seeded = sim::seeded_executor()) seeded->pass_turn();
}

void await_turn(TurnWait& wait) {
  if (sim::SeededExecutor* const seeded = sim::seeded_executor()) return seeded->await_turn(wait);
  {
    const MutexLock lock(plain().mutex);
    while (sim::seeded_executor() == nullptr && !wait.ready()) plain().changed.wait(plain().mutex);
    if (sim::seeded_executor() == nullptr) return wait.taken();
  }
  // Devices were made meanwhile, and a seed decides.
  sim::seeded_executor()->await_turn(wait);
}

void change_turns(void (*change)(void*), void* argument) {
  if (sim::SeededExecutor* const seeded = sim::seeded_executor())
    return seeded->change_turns(change, argument);
  {
    const MutexLock lock(plain().mutex);
    if (sim::seeded_executor() == nullptr) {
      change(argument);
      plain().changed.notify_all();
      return;
    }
  }
  sim::seeded_executor()->change_turns(change, argument);
}

bool turns_in_order() {
  sim::SeededExecutor* const seeded = sim::seeded_executor();
  return seeded != nullptr && seeded->turns_in_order();
}

std::uint32_t turn_number() {
  sim::SeededExecutor* const seeded = sim::seeded_executor();
  return seeded != nullptr ? seeded->turn_number() : 0;
}

}  // namespace ember::inline v0::driver
