#include "ember/driver/sim/fault_plan.h"

#include <string>

namespace ember::inline v0::driver::sim {
namespace {

using What = Fault::What;

/// What CUDA would answer, where nothing is wrong with the device itself.
Code code_of(What call) noexcept {
  switch (call) {
    case What::alloc:
    case What::pinned:
    case What::stream:
    case What::event: return Code::out_of_memory;
    default: return Code::launch_out_of_resources;
  }
}

const char* description(What call) noexcept {
  switch (call) {
    case What::alloc: return "allocation";
    case What::pinned: return "allocation of pinned memory";
    case What::stream: return "creation of a stream";
    case What::event: return "creation of an event";
    case What::launch: return "launch";
    case What::copy: return "copy";
    case What::peer: return "copy between devices";
    case What::fill: return "fill";
    default: return "host function";
  }
}

}  // namespace

void FaultPlan::set(const Faults& faults) {
  const MutexLock lock(mutex_);
  faults_ = faults;
  counts_ = {};
  operations_ = {};
  happened_ = 0;
  for (auto& lost : lost_) lost.store(false, std::memory_order_relaxed);
  armed_.store(!faults_.empty(), std::memory_order_release);
}

std::uint64_t FaultPlan::happened() const {
  const MutexLock lock(mutex_);
  return happened_;
}

Status FaultPlan::count(What call) noexcept {
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++counts_[static_cast<std::size_t>(call)];
  for (const Fault& fault : faults_) {
    if (fault.what != call || !meant(fault, number)) continue;
    ++happened_;
    return Status(code_of(call), std::string(description(call)) + " number " +
                                     std::to_string(number) + " fails on request (" +
                                     fault_name(call) + " in EMBER_SIM_FAULTS)");
  }
  return {};
}

Trouble FaultPlan::count_kernel() noexcept {
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++counts_[static_cast<std::size_t>(What::kernel)];
  Trouble trouble;
  for (const Fault& fault : faults_) {
    if (!meant(fault, number)) continue;
    if (fault.what == What::kernel)
      trouble.fails = true;
    else if (fault.what == What::slow)
      trouble.slow = fault.milliseconds;
    else if (fault.what == What::late)
      trouble.late = fault.milliseconds;
    else
      continue;
    ++happened_;
  }
  return trouble;
}

bool FaultPlan::count_operation(int device) noexcept {
  const MutexLock lock(mutex_);
  const std::uint64_t number = ++operations_[static_cast<std::size_t>(device)];
  for (const Fault& fault : faults_) {
    if (fault.what != What::lost || fault.device != device || fault.number != number) continue;
    ++happened_;
    lost_[static_cast<std::size_t>(device)].store(true, std::memory_order_release);
    return true;
  }
  return false;
}

bool FaultPlan::count_lie(int device, int peer) noexcept {
  const MutexLock lock(mutex_);
  for (const Fault& fault : faults_) {
    if (fault.what != What::liar) continue;
    if ((fault.device == device && fault.peer == peer) ||
        (fault.device == peer && fault.peer == device)) {
      ++happened_;
      return true;
    }
  }
  return false;
}

}  // namespace ember::inline v0::driver::sim
