// What the thread sanitizer sees of streams where a seed decides.
//
// Tasks of such a run are run one at a time by the host's threads. The sanitizer would take that
// for their order, and see no missing wait. So in builds for it each stream has a thread of its own
// (SeenThread), which runs the tasks while the host's thread waits: still one at a time, and in the
// order that the seed chose. Handing over is out of the sanitizer's sight. What it sees is the
// order that the program makes: that a task was enqueued before it ran, what it waited for, and who
// waited for it (SeenOrder). So it finds two accesses that nothing orders, whatever came first.
//
// The sanitizer has fibres, which are such a thread without the thread. Tasks cannot run on one: on
// the host's stack, and with the host's thread-local variables, two streams would have memory in
// common that they do not share, and every kernel with an array of its own would be a race. What a
// stream has waited for is a fibre: nothing runs there.
//
// In all other builds these are empty, and a task is a call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <thread>

#include "ember/base/mutex.h"
#include "ember/base/sanitizer.h"
#include "ember/base/status.h"

#if defined(EMBER_SANITIZED_THREADS)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif

namespace ember::inline v0::driver::sim {

/// The order of one stream's tasks, by their numbers in it. Each task has two clocks of the
/// sanitizer's: who enqueued it, and what is done when it is. Tasks that are so many apart share
/// theirs: who waits for one that is long done may seem to have waited for a later one.
class SeenOrder {
 public:
#if defined(EMBER_SANITIZED_THREADS)
  /// By who enqueues the task, before it can run.
  void submitted(std::uint64_t number) noexcept { happens_before(at(begin_, number)); }
  /// By who runs it: before, and after that.
  void began(std::uint64_t number) noexcept { happens_after(at(begin_, number)); }
  void ended(std::uint64_t number) noexcept { happens_before(at(end_, number)); }
  /// By who has waited for it, or asked and heard that it is done.
  void seen(std::uint64_t number) const noexcept { happens_after(at(end_, number)); }

  /// The task is a wait for these points, and over. By whatever thread.
  template <class Points>
  void passed(std::uint64_t number, const Points& points) noexcept {
    const Unseen passing;
    const MutexLock lock(mutex_);
    void* const caller = enter();
    happens_after(at(end_, number - 1));
    happens_after(at(begin_, number));
    for (const auto& point : points) point.timeline->order().seen(point.value);
    happens_before(at(end_, number));
    happens_before(at(begin_, number + 1));
    leave(caller);
  }
  /// What is enqueued behind task `tail` comes after the point, which is reached: there is no task
  /// that waits for it.
  template <class Point>
  void follows(std::uint64_t tail, const Point& point) noexcept {
    const Unseen following;
    const MutexLock lock(mutex_);
    void* const caller = enter();
    point.timeline->order().seen(point.value);
    happens_before(at(end_, tail));  // an event that is recorded now
    happens_before(at(begin_, tail + 1));
    leave(caller);
  }

 private:
  static constexpr std::size_t kKept = 1024;
  static constexpr unsigned kNoOrder = 1;  // of switching itself
  using Clocks = std::array<std::uint64_t, kKept>;

  static const void* at(const Clocks& clocks, std::uint64_t number) noexcept {
    return &clocks[number % kKept];
  }

  // Inlined: what a function is entered on, it must be left on. What is ordered is not what the
  // calling thread has done, but what this stream has waited for.
  [[gnu::always_inline]] void* enter() noexcept {
    void* const caller = __tsan_get_current_fiber();
    const bool is_new = waited_ == nullptr;
    if (is_new) waited_ = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(waited_, kNoOrder);
    if (is_new) {  // for ever: it reads points
      AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
      AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    return caller;
  }
  [[gnu::always_inline]] static void leave(void* caller) noexcept {
    __tsan_switch_to_fiber(caller, kNoOrder);
  }

  Clocks begin_{};  // only their addresses are used
  Clocks end_{};
  Mutex mutex_;
  void* waited_ = nullptr;  // the fibre, made with the first wait
#else
  void submitted(std::uint64_t) noexcept {}
  void began(std::uint64_t) noexcept {}
  void ended(std::uint64_t) noexcept {}
  void seen(std::uint64_t) const noexcept {}
  template <class Points>
  void passed(std::uint64_t, const Points&) noexcept {}
  template <class Point>
  void follows(std::uint64_t, const Point&) noexcept {}
#endif
};

/// Who runs a stream's tasks: a thread that lives as long as the process.
class SeenThread {
 public:
#if defined(EMBER_SANITIZED_THREADS)
  /// Before the first task is enqueued, by who does that.
  Status start() {
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error& error) {
      return Status(Code::launch_out_of_resources,
                    std::string("no thread for a simulated stream: ") + error.what());
    }
    return {};
  }
  /// Calls work(argument) there, and returns when that has. Orders nothing: what the two sides tell
  /// each other they have to write and read unseen.
  void run(void (*work)(void*), void* argument) noexcept {
    const Unseen handing_over;
    const MutexLock lock(mutex_);
    work_ = work;
    argument_ = argument;
    changed_.notify_one();
    while (work_ != nullptr) changed_.wait(mutex_);
  }

 private:
  void work() noexcept {
    while (true) {
      void (*next)(void*) = nullptr;
      void* argument = nullptr;
      {
        const Unseen waiting;
        const MutexLock lock(mutex_);
        while (work_ == nullptr) changed_.wait(mutex_);
        next = work_;
        argument = argument_;
      }
      next(argument);
      const Unseen handing_back;
      const MutexLock lock(mutex_);
      work_ = nullptr;
      changed_.notify_one();
    }
  }

  Mutex mutex_;
  Condition changed_;
  void (*work_)(void*) = nullptr;
  void* argument_ = nullptr;
#else
  Status start() noexcept { return {}; }
  void run(void (*work)(void*), void* argument) noexcept { work(argument); }
#endif
};

}  // namespace ember::inline v0::driver::sim
