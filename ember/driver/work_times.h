// When one piece of work ran: what a recorder of timelines asks the seam for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "ember/base/ref.h"
#include "ember/base/sanitizer.h"

namespace ember::inline v0::driver {

/// A time on the machine's clock, as Driver::now() counts it.
inline std::int64_t clock_time(std::chrono::steady_clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// Begin and end of a kernel, copy, fill or host function, in nanoseconds on the clock of
/// Driver::now(). Written by whoever runs the work, or learns when it did (then perhaps more than
/// once, as more of it is known); read by any thread at any time.
class WorkTimes final : public RefCounted {
 public:
  enum class State : std::uint8_t {
    waiting,  ///< has not begun
    running,  ///< `begin` is known
    done,     ///< both are
    faulted,  ///< the same, and its device is in a fault since
    dropped,  ///< it will never run, because of a fault or a reset; or nobody could see when it did
  };
  struct Reading {
    State state = State::waiting;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  // Who looks at these learns nothing of the work by it, so the thread sanitizer is to see no order
  // here.

  void began(std::int64_t now) noexcept {
    const Unseen noting;
    begin_.store(now, std::memory_order_relaxed);
    state_.store(State::running, std::memory_order_release);
  }
  void ended(std::int64_t now, bool faulted) noexcept {
    const Unseen noting;
    end_.store(now, std::memory_order_relaxed);
    state_.store(faulted ? State::faulted : State::done, std::memory_order_release);
  }
  void dropped() noexcept {
    const Unseen noting;
    state_.store(State::dropped, std::memory_order_release);
  }
  Reading read() const noexcept {
    const Unseen looking;
    const State state = state_.load(std::memory_order_acquire);
    return {state, begin_.load(std::memory_order_relaxed), end_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<State> state_{State::waiting};
  std::atomic<std::int64_t> begin_{0};
  std::atomic<std::int64_t> end_{0};
};

}  // namespace ember::inline v0::driver
