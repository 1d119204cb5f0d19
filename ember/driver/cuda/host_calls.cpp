#include "ember/driver/cuda/host_calls.h"

#include "ember/driver/cuda/call_gate.h"

namespace ember::inline v0::driver::cuda {

bool in_host_call() noexcept { return CallsOfThread::mine().in_host_function; }

CUresult HostCalls::enqueue(CUstream stream, void (*function)(void*), void (*destroy)(void*),
                            void* argument) {
  std::list<Call> made(1);
  const auto call = made.begin();
  *call = {this, function, destroy, argument, call};
  {
    const MutexLock lock(mutex_);
    waiting_.splice(waiting_.end(), made);
  }
  const CUresult result = api.cuLaunchHostFunc(stream, &run, &*call);
  if (result != CUDA_SUCCESS) {
    const MutexLock lock(mutex_);
    waiting_.erase(call);
  }
  return result;
}

void HostCalls::run(void* argument) {
  auto* call = static_cast<Call*>(argument);
  HostCalls& owner = *call->owner;
  std::list<Call> taken;
  bool dropped = false;
  {
    const MutexLock lock(owner.mutex_);
    taken.splice(taken.end(), owner.waiting_, call->self);
    dropped = owner.resetting_;
    if (!dropped) ++owner.running_;
    if (dropped) owner.dropped_.splice(owner.dropped_.end(), taken);
  }
  if (dropped) return;
  CallsOfThread::mine().in_host_function = true;
  taken.front().function(taken.front().argument);
  taken.front().destroy(taken.front().argument);
  CallsOfThread::mine().in_host_function = false;
  const MutexLock lock(owner.mutex_);
  --owner.running_;
  owner.idle_.notify_all();
}

void HostCalls::begin_reset() noexcept {
  const MutexLock lock(mutex_);
  resetting_ = true;
  while (running_ > 0) idle_.wait(mutex_);
}

void HostCalls::end_reset(bool done) noexcept {
  const MutexLock lock(mutex_);
  if (done) dropped_.splice(dropped_.end(), waiting_);
  resetting_ = false;
}

void HostCalls::destroy_dropped() noexcept {
  std::list<Call> dropped;
  {
    const MutexLock lock(mutex_);
    dropped.swap(dropped_);
  }
  for (const Call& call : dropped) call.destroy(call.argument);
}

}  // namespace ember::inline v0::driver::cuda
