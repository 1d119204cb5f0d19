// What belongs to a thread and goes with it: the one way in which this library cleans up after
// threads.
#pragma once

#include <atomic>
#include <utility>

namespace ember::inline v0 {

/// Calls `end` when the calling thread ends, the last one first. False, and nothing will be called,
/// if the thread has come past that: destructors of its own and of static objects may run later.
bool at_thread_exit(void (*end)() noexcept);

/// A T for each thread, made at its first use and gone with the thread. Whoever asks later still,
/// in a destructor, gets one that stays.
template <class T>
class PerThread {
 public:
  static T& get() {
    T* const here = mine;
    return here != nullptr ? *here : make();
  }

 private:
  struct Late {
    T object;
    Late* next = nullptr;
  };

  static T& make() {
    if (at_thread_exit([]() noexcept { delete std::exchange(mine, nullptr); })) {
      mine = new T;
    } else {
      Late* const made = new Late;
      made->next = late.load(std::memory_order_relaxed);
      while (!late.compare_exchange_weak(made->next, made, std::memory_order_release,
                                         std::memory_order_relaxed)) {
      }
      mine = &made->object;
    }
    return *mine;
  }

  static inline thread_local constinit T* mine = nullptr;
  static inline std::atomic<Late*> late{nullptr};  // nothing that is there is lost: leak checkers
};

}  // namespace ember::inline v0
