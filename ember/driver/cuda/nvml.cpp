// Which of the machine's GPUs are visible, counted without CUDA.
#include "ember/driver/cuda/nvml.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/driver/choice.h"
#include "ember/driver/cuda/nvml_api.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// Nothing when any device cannot be asked, or is cut into MIG instances: which of those CUDA shows
/// is CUDA's affair.
std::optional<std::vector<std::string>> uuids(const nvml::Calls& calls) {
  unsigned count = 0;
  if (calls.count(&count) != nvml::kSuccess) return {};
  std::vector<std::string> found;
  for (unsigned index = 0; index < count; ++index) {
    nvml::Gpu gpu = nullptr;
    char uuid[96] = {};  // NVML's own limit
    if (calls.by_index(index, &gpu) != nvml::kSuccess ||
        calls.uuid(gpu, uuid, sizeof(uuid)) != nvml::kSuccess)
      return {};
    unsigned mig = 0;
    unsigned pending = 0;
    // An error means that the device knows no MIG, as does a library from before there was any.
    if (calls.mig_mode != nullptr && calls.mig_mode(gpu, &mig, &pending) == nvml::kSuccess &&
        mig != 0)
      return {};
    found.emplace_back(uuid);
  }
  return found;
}

/// What NVML said the first time: a machine's devices stay, and asking takes it a tenth of a
/// second. Never freed. No lock, which the child of a fork might find taken.
constinit std::atomic<const std::vector<std::string>*> known{nullptr};

const std::vector<std::string>* ask() {
  const nvml::Calls* calls = nullptr;
  if (!nvml::load(calls).ok() || calls->init() != nvml::kSuccess) return nullptr;
  auto found = uuids(*calls);
  calls->shutdown();
  if (!found) return nullptr;
  auto made = std::make_unique<const std::vector<std::string>>(std::move(*found));
  const std::vector<std::string>* earlier = nullptr;
  return known.compare_exchange_strong(earlier, made.get()) ? made.release() : earlier;
}

}  // namespace

bool devices_are_known() noexcept { return known.load() != nullptr; }

const std::vector<std::string>* uuids_without_cuda() noexcept {
  const std::vector<std::string>* devices = known.load();
  return devices != nullptr ? devices : ask();
}

int count_without_cuda() noexcept {
  const auto visible = env::get("CUDA_VISIBLE_DEVICES");
  if (visible && visible->find("MIG-") != std::string::npos) return -1;
  const std::vector<std::string>* devices = uuids_without_cuda();
  return devices == nullptr ? -1 : static_cast<int>(visible_devices(visible, *devices).size());
}

}  // namespace ember::inline v0::driver::cuda
