#pragma once

#include <chrono>
#include <thread>

namespace ember::inline v0 {

/// Tells the processor that this is a loop that waits.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// What going to sleep and being woken takes: some 5 us where processors are the machine's own, 30
/// to 50 in a virtual one, whose host has to be asked to let an idle processor run again.
inline constexpr std::chrono::microseconds kSleepAndWake{50};

/// Looks for `ready()` as long as `patience` lasts. False when it did not come true; then it is
/// time to sleep.
template <class Ready>
bool spin_briefly(const Ready& ready, std::chrono::microseconds patience = kSleepAndWake) noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr int kLooksPerClock = 16;
  const auto until = Clock::now() + patience;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (ready()) return true;
      cpu_relax();
    }
    std::this_thread::yield();  // whoever makes it ready may need this very core
  } while (Clock::now() < until);
  return false;
}

}  // namespace ember::inline v0
