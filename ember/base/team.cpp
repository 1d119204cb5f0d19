#include "ember/base/team.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <string>
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
  int seats;                          ///< helpers that may still join; the team's lock guards it
  std::atomic<std::int64_t> next{0};  ///< the first piece that nobody has taken
  std::atomic<int> helpers{0};        ///< that have joined and not left

  void run() noexcept {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;)
      work(context, i);
  }
};

/// A caller waits for the helpers of its own job only. So where work shares work in turn, nobody
/// waits for whom it keeps waiting.
class Team {
 public:
  void run(Job& job) noexcept {
    const bool offered = offer(job);
    job.run();
    if (!offered) return;
    withdraw(job);
    // They are at their last piece.
    while (job.helpers.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  /// False if so many jobs are under way that the helpers have enough to do.
  bool offer(Job& job) noexcept EMBER_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    start_helpers(job.seats);
    Job** const place = std::find(jobs_.begin(), jobs_.end(), nullptr);
    if (place == jobs_.end()) return false;
    *place = &job;
    offered_.fetch_add(1, std::memory_order_relaxed);
    if (asleep_ > 0) wanted_.notify_all();
    return true;
  }
  void withdraw(Job& job) noexcept EMBER_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    *std::find(jobs_.begin(), jobs_.end(), &job) = nullptr;
    offered_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Helpers are started at the first need of them and end with the process.
  void start_helpers(int wanted) noexcept EMBER_REQUIRES(mutex_) {
    try {
      for (; started_ < std::min(wanted, most_); ++started_)
        std::thread([this] { help(); }).detach();
    } catch (const std::exception&) {
      most_ = started_;  // no more threads to be had: those that there are do the work
    }
  }

  void help() noexcept {
    for (;;) {
      Job* job = nullptr;
      const auto joined = [&] { return (job = join_any()) != nullptr; };
      if (!spin_briefly(joined, kPatience)) {
        const MutexLock lock(mutex_);
        ++asleep_;
        while ((job = join()) == nullptr) wanted_.wait(mutex_);
        --asleep_;
      }
      job->run();
      job->helpers.fetch_sub(1, std::memory_order_release);  // the caller may be gone after this
    }
  }

  Job* join_any() noexcept EMBER_EXCLUDES(mutex_) {
    if (offered_.load(std::memory_order_relaxed) == 0) return nullptr;
    const MutexLock lock(mutex_);
    return join();
  }
  /// A job in which there is something to do and a seat; null if there is none.
  Job* join() noexcept EMBER_REQUIRES(mutex_) {
    for (Job* const job : jobs_) {
      if (job == nullptr || job->seats == 0 ||
          job->next.load(std::memory_order_relaxed) >= job->pieces)
        continue;
      --job->seats;
      job->helpers.fetch_add(1, std::memory_order_relaxed);
      return job;
    }
    return nullptr;
  }

  Mutex mutex_;
  Condition wanted_;
  std::array<Job*, 8> jobs_ EMBER_GUARDED_BY(mutex_){};
  int started_ EMBER_GUARDED_BY(mutex_) = 0;
  int most_ EMBER_GUARDED_BY(mutex_) = kMostThreads;
  int asleep_ EMBER_GUARDED_BY(mutex_) = 0;
  std::atomic<int> offered_{0};  ///< jobs, for those who look without the lock
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
  Job job{pieces, work, context, static_cast<int>(helpers)};
  if (helpers <= 0 || alone.load(std::memory_order_relaxed)) return job.run();
  team().run(job);
}

}  // namespace ember::inline v0
