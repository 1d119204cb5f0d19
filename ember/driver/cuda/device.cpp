#include "ember/driver/cuda/device.h"

#include <type_traits>

#include "ember/base/env.h"
#include "ember/driver/cuda/text.h"

namespace ember::inline v0::driver::cuda {

bool Device::active() noexcept {
  if (context_.load(std::memory_order_acquire) != nullptr) return true;
  unsigned flags = 0;
  int active = 0;
  return api.cuDevicePrimaryCtxGetState(device_, &flags, &active) == CUDA_SUCCESS && active != 0;
}

Status Device::retain(CUcontext& out) noexcept {
  CUcontext context = context_.load(std::memory_order_acquire);
  if (context == nullptr) [[unlikely]] {
    MutexLock lock(mutex_);
    context = context_.load(std::memory_order_relaxed);
    if (context == nullptr) {
      if (const CUresult result = api.cuDevicePrimaryCtxRetain(&context, device_);
          result != CUDA_SUCCESS)
        return outcome(result, [&] { return "making the context of " + device_text(index_); });
      context_.store(context, std::memory_order_release);
    }
  }
  out = context;
  return {};
}

Status Device::change_current(CUcontext& came_with) noexcept {
  CUcontext wanted = nullptr;
  EMBER_TRY(retain(wanted));
  CUcontext current = nullptr;
  if (api.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == wanted) return {};
  // A context that was destroyed is nothing to come back to; only in a living one this succeeds.
  // Without any it is an error, which tools that watch the calls of a program would show.
  CUdevice device = 0;
  if (current != nullptr && api.cuCtxGetDevice(&device) != CUDA_SUCCESS) current = nullptr;
  EMBER_TRY(outcome(api.cuCtxSetCurrent(wanted),
                    [&] { return "making " + device_text(index_) + " current"; }));
  came_with = current;
  return {};
}

void Device::refused(RecentWork::Number number, Code code) noexcept {
  static const bool calls_block = env::flag("CUDA_LAUNCH_BLOCKING");
  if (!calls_block || !is_sticky(code)) recent_.retract(number);
}

Status Device::launch_failed(RecentWork::Number number, const char* kernel,
                             const Status& status) noexcept {
  refused(number, status.code());
  if (is_sticky(status.code())) return enter_fault(status.code());
  const std::string detail = status.detail();
  return Status(status.code(), "launching kernel '" + std::string(kernel) + "'" +
                                   (detail.empty() ? "" : ": " + detail));
}

// Without a context, which a fault takes away, nothing is done any more.
[[gnu::noinline]] void Device::hand_over(ContextGuard& guard) noexcept {
  if (make_current(guard).ok()) batches_.hand_over();
}

Status Device::refuse_in_host_call() noexcept {
  return Status(Code::not_permitted,
                "called from a host function, in which CUDA permits no calls and a wait would wait "
                "for itself");
}

Status Device::fault() noexcept {
  MutexLock lock(fault_mutex_);
  return fault_;
}

// Seen with two H200s and driver 580: a fault on one device ends the contexts of all devices of the
// process. So the one that reports it first need not be the one that has it.
Status Device::enter_fault(Code code) noexcept {
  std::string elsewhere;
  for (const auto& sibling : siblings_) {
    if (sibling.get() == this) continue;
    if (sibling->faulted()) {
      elsewhere = sibling->fault().detail();
      break;
    }
    if (const std::string work = sibling->recent_.text(); !work.empty())
      elsewhere += "; on " + device_text(sibling->index_) + ": " + work;
  }
  MutexLock lock(fault_mutex_);
  if (faulted()) return fault_;
  std::string detail;
  if (!elsewhere.empty() && elsewhere.front() != ';') {
    detail = device_text(index_) + " cannot be used after a " + elsewhere;
  } else {
    const std::string work = recent_.text();
    detail = "fault of asynchronous work on " + device_text(index_) +
             (work.empty() ? "; nothing that was queued here is unfinished"
                           : "; queued since the last synchronization, newest first: " + work) +
             launch_log_.text() + elsewhere;
  }
  fault_ = Status(code, detail);
  host_calls_.enter_fault(static_cast<CUresult>(code));
  faulted_.store(true, std::memory_order_release);
  return fault_;
}

Status Device::lost_to_reset() noexcept {
  return Status(Code::context_is_destroyed,
                "a reset of " + device_text(index_) + " has dropped work that should be done");
}

// Seen on an H200 with driver 580: after an illegal address the reset itself succeeds, and then no
// context can be made in this process any more (the retain answers 700), whatever is destroyed or
// released before. CUDA's documentation says so of every sticky error.
Status Device::may_reset() noexcept {
  if (!faulted()) return {};
  const Status kept = fault();
  return Status(kept.code(), kept.detail() +
                                 "; a reset cannot clear it: CUDA lets no process use "
                                 "a device again after such a fault, restart it");
}

Status Device::destroy_context() noexcept {
  EMBER_TRY(may_reset());  // a call in progress may have found a fault
  const CUcontext old = context_.exchange(nullptr, std::memory_order_acq_rel);
  if (old != nullptr || active()) {
    if (const CUresult result = api.cuDevicePrimaryCtxReset_v2(device_); result != CUDA_SUCCESS) {
      context_.store(old, std::memory_order_release);
      return outcome(result, [&] { return "resetting " + device_text(index_); });
    }
    // A reset ends the context for everybody, but our use of it stays counted until we release it.
    if (old != nullptr) api.cuDevicePrimaryCtxRelease_v2(device_);
    // Threads keep the dead context as their current one. If the next context has the same handle
    // they are right again, and otherwise make_current() sees the difference.
  }
  epoch_.fetch_add(1, std::memory_order_acq_rel);
  recent_.finished(recent_.newest());
  return {};
}

namespace {

struct IntProperty {
  CUdevice_attribute attribute;
  int DeviceProperties::*field;
};
constexpr IntProperty kIntProperties[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &DeviceProperties::major},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &DeviceProperties::minor},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &DeviceProperties::multi_processor_count},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
     &DeviceProperties::max_threads_per_multi_processor},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &DeviceProperties::max_threads_per_block},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
     &DeviceProperties::regs_per_multiprocessor},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &DeviceProperties::warp_size},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &DeviceProperties::clock_rate},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &DeviceProperties::memory_clock_rate},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &DeviceProperties::memory_bus_width},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &DeviceProperties::pci_domain_id},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &DeviceProperties::pci_bus_id},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &DeviceProperties::pci_device_id},
};

struct SizeProperty {
  CUdevice_attribute attribute;
  std::size_t DeviceProperties::*field;
};
constexpr SizeProperty kSizeProperties[] = {
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &DeviceProperties::L2_cache_size},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &DeviceProperties::shared_memory_per_block},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     &DeviceProperties::shared_memory_per_block_optin},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
     &DeviceProperties::shared_memory_per_multiprocessor},
};

struct BoolProperty {
  CUdevice_attribute attribute;
  bool DeviceProperties::*field;
};
constexpr BoolProperty kBoolProperties[] = {
    {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, &DeviceProperties::is_multi_gpu_board},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, &DeviceProperties::is_integrated},
};

template <class Row, std::size_t kRows>
CUresult read_attributes(CUdevice device, const Row (&rows)[kRows], DeviceProperties& out) {
  for (const Row& row : rows) {
    int value = 0;
    const CUresult result = api.cuDeviceGetAttribute(&value, row.attribute, device);
    if (result != CUDA_SUCCESS) return result;
    auto& field = out.*row.field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  }
  return CUDA_SUCCESS;
}

CUresult read_uuid(CUdevice device, std::array<std::uint8_t, 16>& out) {
  CUuuid uuid{};
  const CUresult result = api.cuDeviceGetUuid_v2(&uuid, device);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(uuid.bytes[i]);
  return result;
}

CUresult read_properties(CUdevice device, DeviceProperties& out) {
  char name[256] = {};
  CUresult result = api.cuDeviceGetName(name, sizeof(name), device);
  if (result == CUDA_SUCCESS) result = api.cuDeviceTotalMem_v2(&out.total_memory, device);
  if (result == CUDA_SUCCESS) result = read_uuid(device, out.uuid);
  if (result == CUDA_SUCCESS) result = read_attributes(device, kIntProperties, out);
  if (result == CUDA_SUCCESS) result = read_attributes(device, kSizeProperties, out);
  if (result == CUDA_SUCCESS) result = read_attributes(device, kBoolProperties, out);
  out.name = name;
  return result;
}

}  // namespace

// Needs no context, so it wakes no device and answers in a fault too.
Status Device::properties(DeviceProperties& out) noexcept {
  DeviceProperties read;
  if (const CUresult result = read_properties(device_, read); result != CUDA_SUCCESS)
    return failure(result, "reading the properties of " + device_text(index_));
  out = std::move(read);
  return {};
}

Status Device::uuid(std::array<std::uint8_t, 16>& out) noexcept {
  if (const CUresult result = read_uuid(device_, out); result != CUDA_SUCCESS)
    return failure(result, "reading the UUID of " + device_text(index_));
  return {};
}

}  // namespace ember::inline v0::driver::cuda
