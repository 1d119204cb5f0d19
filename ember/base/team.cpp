#include "ember/base/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/spin.h"

namespace ember::inline v0 {
namespace {

constexpr int kMostThreads = 1024;
/// How long helpers look for the next job before they sleep. Large work is often many jobs, one
/// after the other, and waking takes as long as one of them does.
constexpr std::chrono::microseconds kPatience{200};

/// One call's work, taken piece by piece by whoever is free. Lives on the caller's stack.
struct Job {
  std::int64_t pieces;
  void (*work)(const void*, std::int64_t);
  const void* context;
  std::atomic<int> seats;             ///< helpers that may still join
  std::atomic<std::int64_t> next{0};  ///< the first piece that nobody has taken

  bool has_work() const noexcept {
    return seats.load(std::memory_order_relaxed) > 0 &&
           next.load(std::memory_order_relaxed) < pieces;
  }
  bool join() noexcept { return seats.fetch_sub(1, std::memory_order_relaxed) > 0; }
  void run() noexcept {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;)
      work(context, i);
  }
};

/// Where a job is offered. A helper counts itself before it looks at the job, so that the caller
/// knows when nobody does any more.
class JobSlot {
 public:
  /// False if there is a job already.
  bool offer(Job& job) noexcept {
    Job* none = nullptr;
    return job_.compare_exchange_strong(none, &job);
  }
  /// To be called by who offered it, when there is nothing left to take.
  void withdraw() noexcept {
    job_.store(nullptr);
    while (inside_.load() != 0) std::this_thread::yield();  // they are at their last piece
  }
  bool has_work() noexcept {
    return job_.load() != nullptr &&
           with_job([](const Job* job) { return job != nullptr && job->has_work(); });
  }
  void help() noexcept {
    with_job([](Job* job) {
      if (job != nullptr && job->join()) job->run();
      return true;
    });
  }

 private:
  template <class Use>
  bool with_job(const Use& use) noexcept {
    inside_.fetch_add(1);
    const bool result = use(job_.load());
    inside_.fetch_sub(1);
    return result;
  }

  alignas(64) std::atomic<Job*> job_{nullptr};
  std::atomic<int> inside_{0};
};

class Team {
 public:
  void run(Job& job) noexcept {
    start_helpers(job.seats.load(std::memory_order_relaxed));
    JobSlot* const slot = offer(job);
    if (slot != nullptr && asleep_.load() > 0) {
      { const MutexLock lock(mutex_); }  // whoever is about to sleep has not looked yet, or does
      wanted_.notify_all();
    }
    job.run();
    if (slot != nullptr) slot->withdraw();
  }

 private:
  /// Null if so many jobs are under way that the helpers have enough to do.
  JobSlot* offer(Job& job) noexcept {
    for (JobSlot& slot : slots_)
      if (slot.offer(job)) return &slot;
    return nullptr;
  }

  /// Helpers are started at the first need of them and end with the process.
  void start_helpers(int wanted) noexcept {
    if (started_.load(std::memory_order_relaxed) >= wanted) return;
    const MutexLock lock(mutex_);
    try {
      for (int i = started_.load(std::memory_order_relaxed); i < wanted; ++i) {
        std::thread([this] { help(); }).detach();
        started_.store(i + 1, std::memory_order_relaxed);
      }
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are do the work.
    }
  }

  void help() noexcept {
    for (;;) {
      if (!spin_briefly([this] { return has_work(); }, kPatience)) {
        const MutexLock lock(mutex_);
        asleep_.fetch_add(1);
        while (!has_work()) wanted_.wait(mutex_);
        asleep_.fetch_sub(1);
      }
      for (JobSlot& slot : slots_)
        if (slot.has_work()) slot.help();
    }
  }

  bool has_work() noexcept {
    return std::any_of(slots_.begin(), slots_.end(), [](JobSlot& slot) { return slot.has_work(); });
  }

  std::array<JobSlot, 4> slots_;
  std::atomic<int> started_{0};
  std::atomic<int> asleep_{0};
  Mutex mutex_;
  Condition wanted_;
};

Team& team() {
  static NoDestructor<Team> made;
  return *made;
}

/// Set in the child of a fork: helpers did not come along, and what a team noted of them is wrong.
std::atomic<bool> alone{false};
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { alone.store(true, std::memory_order_relaxed); });

int processors() noexcept {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(CPU_COUNT(&allowed), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

int threads_at_first() noexcept {
  try {
    // OpenMP's variable may name a number for each level of nesting: the first one is meant.
    const std::string text = env::get("OMP_NUM_THREADS").value_or("");
    std::int64_t number = 0;
    for (const char digit : text.substr(0, text.find(','))) {
      if (digit < '0' || digit > '9' || number > kMostThreads) return processors();
      number = number * 10 + (digit - '0');
    }
    if (number > 0) return static_cast<int>(std::min<std::int64_t>(number, kMostThreads));
  } catch (const std::bad_alloc&) {
    // As if it were not set.
  }
  return processors();
}

std::atomic<int>& threads_now() noexcept {
  static std::atomic<int> threads{threads_at_first()};
  return threads;
}

}  // namespace

int get_num_threads() noexcept { return threads_now().load(std::memory_order_relaxed); }

void set_num_threads(int threads) {
  if (threads < 1)
    throw ValueError("set_num_threads: expected a positive number, got " + std::to_string(threads));
  threads_now().store(std::min(threads, kMostThreads), std::memory_order_relaxed);
}

void detail::share(std::int64_t pieces, int threads, void (*work)(const void*, std::int64_t),
                   const void* context) noexcept {
  const std::int64_t helpers = std::min<std::int64_t>(threads, pieces) - 1;
  Job job{pieces, work, context, {static_cast<int>(helpers)}};
  if (helpers <= 0 || alone.load(std::memory_order_relaxed)) return job.run();
  team().run(job);
}

}  // namespace ember::inline v0
