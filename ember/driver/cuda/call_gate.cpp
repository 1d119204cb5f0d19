#include "ember/driver/cuda/call_gate.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "ember/base/thread_exit.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// All there ever were; entries stay.
constinit std::atomic<CallsOfThread*> all{nullptr};

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

constinit Mutex CallGate::closing;
const bool CallGate::barrier_by_kernel = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

thread_local constinit CallsOfThread* CallsOfThread::this_thread = nullptr;

CallsOfThread& CallsOfThread::make() {
  CallsOfThread* mine = nullptr;
  for (CallsOfThread* each = all.load(); each != nullptr && mine == nullptr; each = each->next)
    if (bool used = false; each->used.compare_exchange_strong(used, true)) mine = each;
  if (mine == nullptr) {
    mine = new CallsOfThread;
    mine->next = all.load();
    while (!all.compare_exchange_weak(mine->next, mine)) {
    }
  }
  this_thread = mine;
  // Destructors of the thread's that come after that make an entry that stays taken.
  at_thread_exit([]() noexcept {
    CallsOfThread* const left = std::exchange(this_thread, nullptr);
    left->in_batch = false;
    left->used.store(false);
  });
  return *mine;
}

// Outer calls keep the thread inside other gates meanwhile. None of those is closed before this one
// opens.
void CallGate::wait_until_open(CallsOfThread& calls) noexcept {
  const std::uint64_t inside = calls.devices.load(std::memory_order_relaxed);
  do {
    calls.devices.store(inside & ~bit_);
    {
      const MutexLock lock(mutex_);
      while (closed_.load()) opened_.wait(mutex_);
    }
    calls.devices.exchange(inside);
  } while (closed_.load());
}

void CallGate::close() noexcept {
  closed_.store(true);
  if (barrier_by_kernel) (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);  // cannot fail now
  // A call may be waiting for the device's work, which takes its time.
  constexpr int kYields = 1000;
  for (CallsOfThread* each = all.load(); each != nullptr; each = each->next)
    for (int looks = 0; (each->devices.load() & bit_) != 0; ++looks)
      if (looks < kYields)
        sched_yield();
      else
        usleep(100);
}

void CallGate::open() noexcept {
  const MutexLock lock(mutex_);
  closed_.store(false);
  opened_.notify_all();
}

}  // namespace ember::inline v0::driver::cuda
