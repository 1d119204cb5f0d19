#include "ember/driver/cuda/nvml_api.h"

#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace ember::inline v0::driver::cuda::nvml {
namespace {

template <class Pointer>
bool resolve(void* library, const char* name, Pointer& out) {
  out = reinterpret_cast<Pointer>(dlsym(library, name));
  return out != nullptr;
}

/// The name of what is missing without which nothing works, or null.
const char* resolve_required(void* library, Calls& out) {
  if (!resolve(library, "nvmlInit_v2", out.init)) return "nvmlInit_v2";
  if (!resolve(library, "nvmlShutdown", out.shutdown)) return "nvmlShutdown";
  if (!resolve(library, "nvmlDeviceGetCount_v2", out.count)) return "nvmlDeviceGetCount_v2";
  if (!resolve(library, "nvmlDeviceGetHandleByIndex_v2", out.by_index))
    return "nvmlDeviceGetHandleByIndex_v2";
  if (!resolve(library, "nvmlDeviceGetUUID", out.uuid)) return "nvmlDeviceGetUUID";
  return nullptr;
}

void resolve_optional(void* library, Calls& out) {
  resolve(library, "nvmlErrorString", out.error_text);
  resolve(library, "nvmlDeviceGetMigMode", out.mig_mode);
  resolve(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", out.parent_of_mig);
  resolve(library, "nvmlDeviceGetHandleByUUID", out.by_uuid);
  resolve(library, "nvmlDeviceGetIndex", out.index);
  resolve(library, "nvmlDeviceGetUtilizationRates", out.utilization);
  resolve(library, "nvmlDeviceGetTemperature", out.temperature);
  resolve(library, "nvmlDeviceGetPowerUsage", out.power);
  resolve(library, "nvmlDeviceGetClockInfo", out.clock);
  resolve(library, "nvmlDeviceGetMemoryInfo", out.memory);
  if (!resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", out.processes_v2))
    resolve(library, "nvmlDeviceGetComputeRunningProcesses_v2", out.processes_v2);
  resolve(library, "nvmlDeviceGetComputeRunningProcesses", out.processes_v1);
}

Status open(Calls& out) {
  // Stays open: it is needed again for every count and every sensor.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    return Status(Code::not_initialized, std::string(kLibrary) + " cannot be opened: " +
                                             (error != nullptr ? error : "unknown error"));
  }
  if (const char* missing = resolve_required(library, out))
    return Status(Code::not_initialized, std::string(kLibrary) + " has no " + missing);
  resolve_optional(library, out);
  return {};
}

/// Never freed.
constinit std::atomic<const Calls*> loaded{nullptr};

}  // namespace

Status load(const Calls*& out) noexcept {
  const Calls* known = loaded.load(std::memory_order_acquire);
  if (known == nullptr) {
    auto made = std::make_unique<Calls>();
    EMBER_TRY(open(*made));
    if (loaded.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
      known = made.release();
  }
  out = known;
  return {};
}

}  // namespace ember::inline v0::driver::cuda::nvml
