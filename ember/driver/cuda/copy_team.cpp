#include "ember/driver/cuda/copy_team.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"

namespace ember::driver::cuda {
namespace {

/// More gain nothing: then the memory is the limit.
constexpr unsigned kMostHelpers = 7;
constexpr std::size_t kPiece = std::size_t{256} << 10;

/// One copy, taken piece by piece by whoever is free. Lives on the caller's stack.
struct Job {
  std::byte* target;
  const std::byte* source;
  std::size_t bytes;
  std::atomic<std::size_t> next{0};  ///< the first byte that nobody has taken
  std::atomic<int> inside{0};        ///< helpers that may still look at the job

  void work() noexcept {
    for (std::size_t at; (at = next.fetch_add(kPiece, std::memory_order_relaxed)) < bytes;)
      std::memcpy(target + at, source + at, std::min(kPiece, bytes - at));
  }
};

class Team {
 public:
  void run(Job& job) noexcept {
    {
      const MutexLock lock(mutex_);
      hire();
      jobs_.push_back(&job);
    }
    wanted_.notify_all();
    job.work();
    {
      const MutexLock lock(mutex_);
      jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    }
    // Nobody joins any more; those inside are at their last piece.
    while (job.inside.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  }

 private:
  /// Helpers are started at the first need and end with the process.
  void hire() EMBER_REQUIRES(mutex_) {
    if (hired_) return;
    hired_ = true;
    const unsigned helpers = std::min(kMostHelpers, std::thread::hardware_concurrency() / 2);
    try {
      for (unsigned i = 0; i < helpers; ++i) std::thread([this] { help(); }).detach();
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are do the work.
    }
  }

  void help() noexcept {
    for (;;) {
      Job* job = nullptr;
      {
        const MutexLock lock(mutex_);
        while ((job = unfinished()) == nullptr) wanted_.wait(mutex_);
        job->inside.fetch_add(1, std::memory_order_relaxed);
      }
      job->work();
      job->inside.fetch_sub(1, std::memory_order_release);
    }
  }

  Job* unfinished() const EMBER_REQUIRES(mutex_) {
    for (Job* job : jobs_)
      if (job->next.load(std::memory_order_relaxed) < job->bytes) return job;
    return nullptr;
  }

  Mutex mutex_;
  Condition wanted_;
  bool hired_ EMBER_GUARDED_BY(mutex_) = false;
  std::deque<Job*> jobs_ EMBER_GUARDED_BY(mutex_);
};

}  // namespace

bool copy_team_pays() noexcept {
  static const bool pays = std::thread::hardware_concurrency() >= 4;
  return pays;
}

void copy_by_team(void* target, const void* source, std::size_t bytes) noexcept {
  static NoDestructor<Team> team;
  Job job{static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes};
  team->run(job);
}

}  // namespace ember::driver::cuda
