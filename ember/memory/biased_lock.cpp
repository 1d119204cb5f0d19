#include "ember/memory/biased_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"

namespace ember::memory {
namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

constinit thread_local bool exiting = false;

bool have_barrier() noexcept {
  static const bool have = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return have;
}

}  // namespace

thread_local constinit BiasedLock::Owner* BiasedLock::my_owner [[gnu::tls_model("initial-exec")]] =
    nullptr;

/// Gives threads their Owner, and takes it back when they end. Locks may still lean towards it
/// then: they lean towards the thread that has it next. That one comes after the last, since both
/// go through the mutex here.
class BiasedLock::Owners {
 public:
  /// Null for a thread that is about to end.
  static Owner* mine() {
    if (exiting || my_owner != nullptr) return my_owner;
    static thread_local AtThreadExit at_exit;
    (void)at_exit;
    List& list = unused();
    MutexLock lock(list.mutex);
    my_owner = list.first != nullptr ? std::exchange(list.first, list.first->next) : new Owner;
    return my_owner;
  }

 private:
  struct List {
    Mutex mutex;
    Owner* first EMBER_GUARDED_BY(mutex) = nullptr;
  };
  static List& unused() {
    static NoDestructor<List> list;
    return *list;
  }
  struct AtThreadExit {
    const pid_t process = getpid();
    ~AtThreadExit() {
      exiting = true;
      Owner* const owner = std::exchange(my_owner, nullptr);
      // Forked: the mutex may be that of a thread that is gone.
      if (owner == nullptr || getpid() != process) return;
      List& list = unused();
      MutexLock lock(list.mutex);
      owner->next = std::exchange(list.first, owner);
    }
  };
};

bool BiasedLock::take_back() noexcept {
  Owner* const owner = owner_.load(std::memory_order_relaxed);
  owner_.store(nullptr, std::memory_order_relaxed);
  // Registered when the lock began to lean, so it does not fail.
  (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  int spins = 0;
  for (; owner->inside.load(std::memory_order_acquire); ++spins) SpinLock::pause(spins);
  run_ = std::min(2 * run_, kLongestRun);
  return spins > 0;
}

void BiasedLock::begin_run() noexcept {
  last_ = &my_owner;
  until_biased_ = run_;
}

void BiasedLock::lean() noexcept {
  until_biased_ = run_;
  if (!have_barrier()) return;
  if (Owner* const owner = Owners::mine()) owner_.store(owner, std::memory_order_relaxed);
}

}  // namespace ember::memory
