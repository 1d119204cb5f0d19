#include "ember/driver/cuda/copy_team.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/spin.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// More gain nothing: then the memory is the limit.
constexpr unsigned kMostHelpers = 7;
constexpr std::size_t kPiece = std::size_t{256} << 10;
/// How long helpers look for the next job before they sleep. A large copy is many jobs, and waking
/// takes as long as one of them does.
constexpr std::chrono::microseconds kPatience{200};

/// One copy, taken piece by piece by whoever is free. Lives on the caller's stack.
struct Job {
  std::byte* target;
  const std::byte* source;
  std::size_t bytes;
  std::atomic<std::size_t> next{0};  ///< the first byte that nobody has taken

  bool finished() const noexcept { return next.load(std::memory_order_relaxed) >= bytes; }
  void work() noexcept {
    for (std::size_t at; (at = next.fetch_add(kPiece, std::memory_order_relaxed)) < bytes;)
      std::memcpy(target + at, source + at, std::min(kPiece, bytes - at));
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
    return job_.load() != nullptr && with_job([](Job* job) { return job && !job->finished(); });
  }
  void help() noexcept {
    with_job([](Job* job) {
      if (job != nullptr) job->work();
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
    start_helpers();
    JobSlot* const slot = offer(job);
    if (slot != nullptr && asleep_.load() > 0) {
      { const MutexLock lock(mutex_); }  // whoever is about to sleep has not looked yet, or does
      wanted_.notify_all();
    }
    job.work();
    if (slot != nullptr) slot->withdraw();
  }

 private:
  /// Null if so many copies are under way that the helpers have enough to do.
  JobSlot* offer(Job& job) noexcept {
    for (JobSlot& slot : slots_)
      if (slot.offer(job)) return &slot;
    return nullptr;
  }

  /// Helpers are started at the first need and end with the process.
  void start_helpers() noexcept {
    if (started_.load(std::memory_order_relaxed) || started_.exchange(true)) return;
    const unsigned helpers = std::min(kMostHelpers, std::thread::hardware_concurrency() / 2);
    try {
      for (unsigned i = 0; i < helpers; ++i) std::thread([this] { help(); }).detach();
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
  std::atomic<bool> started_{false};
  std::atomic<int> asleep_{0};
  Mutex mutex_;
  Condition wanted_;
};

}  // namespace

bool copy_team_is_faster() noexcept {
  static const bool faster = std::thread::hardware_concurrency() >= 4;
  return faster;
}

void copy_by_team(void* target, const void* source, std::size_t bytes) noexcept {
  static NoDestructor<Team> team;
  Job job{static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes, {}};
  team->run(job);
}

}  // namespace ember::inline v0::driver::cuda
