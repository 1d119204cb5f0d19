#include "ember/driver/cuda/host_calls.h"

#include <chrono>
#include <utility>

#include "ember/driver/cuda/call_gate.h"
#include "ember/driver/cuda/capture.h"

namespace ember::inline v0::driver::cuda {

bool in_host_call() noexcept { return CallsOfThread::mine().in_host_function; }

CUresult HostCalls::enqueue(CUstream stream, void (*function)(void*), void (*destroy)(void*),
                            void* argument, Ref<WorkTimes> times) {
  std::list<Call> made(1);
  const auto call = made.begin();
  *call = {this, function, destroy, argument, call, std::move(times)};
  {
    const MutexLock lock(mutex_);
    if (fault_ != CUDA_SUCCESS) return fault_;
    waiting_.splice(waiting_.end(), made);
    ++enqueuing_;
  }
  const CUresult result = api.cuLaunchHostFunc(stream, &run, &*call);
  const MutexLock lock(mutex_);
  --enqueuing_;
  if (result != CUDA_SUCCESS) waiting_.erase(call);
  return result;
}

void HostCalls::run(void* argument) {
  auto* call = static_cast<Call*>(argument);
  HostCalls& owner = *call->owner;
  std::list<Call> taken;
  {
    const MutexLock lock(owner.mutex_);
    if (owner.fault_ != CUDA_SUCCESS) return;
    if (owner.resetting_) {
      owner.dropped_.splice(owner.dropped_.end(), owner.waiting_, call->self);
      owner.dropping_.store(true, std::memory_order_release);
      return;
    }
    taken.splice(taken.end(), owner.waiting_, call->self);
    ++owner.running_;
  }
  CallsOfThread& calls = CallsOfThread::mine();
  calls.in_host_function = true;
  const auto now = [] { return clock_time(std::chrono::steady_clock::now()); };
  if (call->times) call->times->began(now());
  call->function(call->argument);
  if (call->times) call->times->ended(now(), false);
  call->destroy(call->argument);
  calls.in_host_function = false;
  const MutexLock lock(owner.mutex_);
  --owner.running_;
  owner.idle_.notify_all();
}

CUresult HostCalls::capture(CUgraph graph, CUstream stream, void (*function)(void*),
                            void (*destroy)(void*), void* argument) {
  auto* const made = new Captured{this, function, destroy, argument};
  const auto end = [](void* call) {
    auto* const ended = static_cast<Captured*>(call);
    if (ended->destroy != nullptr) ended->destroy(ended->argument);
    delete ended;
  };
  if (const CUresult result = keep_for_graph(graph, made, end); result != CUDA_SUCCESS) {
    delete made;
    return result;
  }
  const CUresult result = api.cuLaunchHostFunc(stream, &run_captured, made);
  if (result != CUDA_SUCCESS) made->destroy = nullptr;  // the graph still has the record
  return result;
}

void HostCalls::run_captured(void* argument) {
  const Captured& call = *static_cast<Captured*>(argument);
  HostCalls& owner = *call.owner;
  {
    const MutexLock lock(owner.mutex_);
    if (owner.fault_ != CUDA_SUCCESS) return;
    if (owner.resetting_) return owner.dropping_.store(true, std::memory_order_release);
    ++owner.running_;
  }
  CallsOfThread& calls = CallsOfThread::mine();
  calls.in_host_function = true;
  call.function(call.argument);
  calls.in_host_function = false;
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
  dropping_.store(false, std::memory_order_release);
}

void HostCalls::enter_fault(CUresult fault) noexcept {
  const MutexLock lock(mutex_);
  fault_ = fault;
}

void HostCalls::destroy_dropped() noexcept {
  CallsOfThread& calls = CallsOfThread::mine();
  if (calls.in_host_function) return;
  std::list<Call> dropped;
  {
    const MutexLock lock(mutex_);
    // One that CUDA may yet refuse is its caller's.
    if (fault_ != CUDA_SUCCESS && enqueuing_ == 0) dropped_.splice(dropped_.end(), waiting_);
    dropped.swap(dropped_);
  }
  // As on CUDA's thread: the caller may hold locks, though none that a host function takes.
  calls.in_host_function = true;
  for (const Call& call : dropped) {
    if (call.times) call.times->dropped();
    call.destroy(call.argument);
  }
  calls.in_host_function = false;
  const MutexLock lock(mutex_);
  if (fault_ != CUDA_SUCCESS) over_.splice(over_.end(), dropped);
}

}  // namespace ember::inline v0::driver::cuda
