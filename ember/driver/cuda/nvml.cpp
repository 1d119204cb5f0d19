#include "ember/driver/cuda/nvml.h"

#include <dlfcn.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/driver/choice.h"

namespace ember::inline v0::driver::cuda {
namespace {

// What is needed of nvml.h, which is not part of every toolkit. The library keeps these stable: a
// changed function gets a new name, like those that end in _v2.
using NvmlResult = int;
constexpr NvmlResult kNvmlSuccess = 0;
using NvmlDevice = struct nvmlDevice_st*;

struct Nvml {
  NvmlResult (*init)() = nullptr;
  NvmlResult (*shutdown)() = nullptr;
  NvmlResult (*count)(unsigned*) = nullptr;
  NvmlResult (*device)(unsigned index, NvmlDevice*) = nullptr;
  NvmlResult (*uuid)(NvmlDevice, char*, unsigned size) = nullptr;
  NvmlResult (*mig_mode)(NvmlDevice, unsigned* current, unsigned* pending) = nullptr;
};

template <class Pointer>
bool resolve(void* library, const char* name, Pointer& out) {
  out = reinterpret_cast<Pointer>(dlsym(library, name));
  return out != nullptr;
}

bool load(Nvml& out) {
  // Stays open: opening it again for a later count then costs nothing.
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && resolve(library, "nvmlInit_v2", out.init) &&
         resolve(library, "nvmlShutdown", out.shutdown) &&
         resolve(library, "nvmlDeviceGetCount_v2", out.count) &&
         resolve(library, "nvmlDeviceGetHandleByIndex_v2", out.device) &&
         resolve(library, "nvmlDeviceGetUUID", out.uuid) &&
         resolve(library, "nvmlDeviceGetMigMode", out.mig_mode);
}

/// Nothing when any device cannot be asked, or is cut into MIG instances: which of those CUDA shows
/// is CUDA's affair.
std::optional<std::vector<std::string>> uuids(const Nvml& nvml) {
  unsigned count = 0;
  if (nvml.count(&count) != kNvmlSuccess) return {};
  std::vector<std::string> found;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice device = nullptr;
    char uuid[96] = {};  // NVML's own limit
    if (nvml.device(index, &device) != kNvmlSuccess ||
        nvml.uuid(device, uuid, sizeof(uuid)) != kNvmlSuccess)
      return {};
    unsigned mig = 0;
    unsigned pending = 0;
    // An error means that the device knows no MIG.
    if (nvml.mig_mode(device, &mig, &pending) == kNvmlSuccess && mig != 0) return {};
    found.emplace_back(uuid);
  }
  return found;
}

/// What NVML said the first time: a machine's devices stay, and asking takes it a tenth of a
/// second. Never freed. No lock, which the child of a fork might find taken.
constinit std::atomic<const std::vector<std::string>*> known{nullptr};

const std::vector<std::string>* ask() {
  Nvml nvml;
  if (!load(nvml) || nvml.init() != kNvmlSuccess) return nullptr;
  auto found = uuids(nvml);
  nvml.shutdown();
  if (!found) return nullptr;
  auto made = std::make_unique<const std::vector<std::string>>(std::move(*found));
  const std::vector<std::string>* earlier = nullptr;
  return known.compare_exchange_strong(earlier, made.get()) ? made.release() : earlier;
}

}  // namespace

bool devices_are_known() noexcept { return known.load() != nullptr; }

int count_without_cuda() noexcept {
  const auto visible = env::get("CUDA_VISIBLE_DEVICES");
  if (visible && visible->find("MIG-") != std::string::npos) return -1;
  const std::vector<std::string>* devices = known.load();
  if (devices == nullptr) devices = ask();
  return devices == nullptr ? -1 : static_cast<int>(visible_devices(visible, *devices).size());
}

}  // namespace ember::inline v0::driver::cuda
