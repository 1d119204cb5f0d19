#include "ember/runtime/threads.h"

#include <string>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/sanitizer.h"
#include "ember/driver/choice.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/device.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::sim {
namespace {

/// Calls it under the lock of all turns.
template <class Change>
void change(Change&& make) {
  driver::change_turns([](void* argument) { (*static_cast<Change*>(argument))(); }, &make);
}

/// A thread that was started before the devices were made would take no turns: where a seed will
/// decide, they are made now.
void make_seeded_devices() {
  if (cuda::driver_if_made() != nullptr || cuda::is_in_bad_fork()) return;
  driver::Schedule schedule;
  const Status status = cuda::detail::schedule_to_come(schedule);
  if (!status.ok()) throw ValueError(status.detail());
  if (schedule.seeded()) (void)cuda::active_driver();
}

}  // namespace

// ---- Threads

struct thread::State {
  bool over = false;  // under the lock of all turns
  std::uint32_t number = 0;
};

thread::thread(std::function<void()> body) {
  if (!body) throw ValueError("thread: got an empty function, expected a callable one");
  make_seeded_devices();
  state_ = std::make_shared<State>();
  state_->number = driver::start_turns();
  try {
    thread_ = std::thread([state = state_, does = std::move(body)]() mutable noexcept {
      driver::enter_turns(state->number);
      does();
      does = nullptr;  // what it holds goes in this thread's turn
      change([&] { state->over = true; });
      driver::leave_turns(state->number);
    });
  } catch (...) {
    driver::leave_turns(state_->number);
    throw;
  }
  driver::pass_turn();
}

thread& thread::operator=(thread&& other) noexcept {
  if (this == &other) return *this;
  if (joinable()) join();
  state_ = std::move(other.state_);
  thread_ = std::move(other.thread_);
  return *this;
}

thread::~thread() {
  if (joinable()) join();
}

void thread::join() {
  class End final : public driver::TurnWait {
   public:
    explicit End(const State& state) : state_(state) {}
    bool ready() const override { return state_.over; }
    std::string text() const override {
      return "waits for thread " + std::to_string(state_.number) + " to end";
    }

   private:
    const State& state_;
  };
  if (!joinable()) throw Error("join: there is no thread");
  End end(*state_);
  driver::await_turn(end);
  thread_.join();
}

void yield() { driver::pass_turn(); }

// ---- Mutexes

class mutex::Free final : public driver::TurnWait {
 public:
  explicit Free(mutex& of) : of_(of), number_(driver::turn_number()) {}
  bool ready() const override { return !of_.held_; }
  void taken() override {
    of_.held_ = true;
    of_.holder_ = number_;
    of_.holder_id_ = std::this_thread::get_id();
  }
  std::string text() const override {
    if (of_.holder_ == 0) return "waits for a mutex that a thread holds which takes no turns";
    return "waits for a mutex that " + (of_.holder_ == number_
                                            ? "it holds itself"
                                            : "thread " + std::to_string(of_.holder_) + " holds");
  }

 private:
  mutex& of_;
  const std::uint32_t number_;
};

bool mutex::release() noexcept {
  if (!held_ || holder_id_ != std::this_thread::get_id()) return false;
  held_ = false;
  return true;
}

void mutex::lock() {
  Free free(*this);
  driver::await_turn(free);
  happens_after(this);
}

bool mutex::try_lock() {
  driver::pass_turn();
  Free free(*this);
  bool taken = false;
  change([&] {
    taken = free.ready();
    if (taken) free.taken();
  });
  if (taken) happens_after(this);
  return taken;
}

void mutex::unlock() {
  bool released = false;
  happens_before(this);
  change([&] { released = release(); });
  if (!released) throw Error("unlock: the calling thread does not hold the mutex");
  driver::pass_turn();
}

// ---- Conditions

class condition::Notice final : public driver::TurnWait {
 public:
  bool ready() const override { return notified; }
  std::string text() const override { return "waits for a condition that nobody notifies"; }
  bool notified = false;
};

void condition::wait(std::unique_lock<mutex>& lock) {
  Notice notice;
  bool released = false;
  if (lock.owns_lock()) {
    happens_before(lock.mutex());
    change([&] {
      released = lock.mutex()->release();
      if (released) waiting_.push_back(&notice);
    });
  }
  if (!released) throw Error("wait: the calling thread does not hold the mutex");
  driver::await_turn(notice);
  lock.mutex()->lock();
}

void condition::notify_one() {
  change([&] {
    if (waiting_.empty()) return;
    waiting_.front()->notified = true;
    waiting_.pop_front();
  });
  driver::pass_turn();
}

void condition::notify_all() {
  change([&] {
    for (Notice* each : waiting_) each->notified = true;
    waiting_.clear();
  });
  driver::pass_turn();
}

}  // namespace ember::inline v0::sim
