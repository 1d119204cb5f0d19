#include "ember/fft/plan_cache_control.h"

#include <string>
#include <utility>

#include "ember/base/error.h"
#include "ember/fft/plans.h"

namespace ember::inline v0::cuda {
namespace {

void require_size(const char* what, std::int64_t most) {
  if (most < 0)
    throw Error(std::string("cuFFT plan cache ") + what + " must be non-negative, but got " +
                std::to_string(most));
}

template <class Drop>
void drop(int device, const Drop& which) {
  fft::PlanCache::Plans gone;
  which(fft::plan_cache_of(device), gone);
  fft::retire(device, std::move(gone), true);
}

}  // namespace

FftPlanCache::FftPlanCache(DeviceArg device) {
  const std::int64_t wanted = device.index();
  const int count = device_count();
  if (wanted < 0 || wanted >= count)
    throw Error("cufft_plan_cache: expected 0 <= device index < " + std::to_string(count) +
                ", but got device with index " + std::to_string(wanted));
  index_ = static_cast<int>(wanted);
}

int FftPlanCache::index() const { return DeviceArg(index_.value_or(current_device())).existing(); }

std::int64_t FftPlanCache::size() const { return fft::plan_cache_of(index()).size(); }
std::int64_t FftPlanCache::max_size() const { return fft::plan_cache_of(index()).max_size(); }
std::int64_t FftPlanCache::bytes() const {
  return static_cast<std::int64_t>(fft::plan_cache_of(index()).bytes());
}
std::int64_t FftPlanCache::max_bytes() const {
  return static_cast<std::int64_t>(fft::plan_cache_of(index()).max_bytes());
}

void FftPlanCache::set_max_size(std::int64_t most) const {
  require_size("size", most);
  drop(index(), [&](auto& cache, auto& gone) { cache.set_max_size(most, gone); });
}
void FftPlanCache::set_max_bytes(std::int64_t most) const {
  require_size("limit of bytes", most);
  drop(index(),
       [&](auto& cache, auto& gone) { cache.set_max_bytes(static_cast<std::size_t>(most), gone); });
}
void FftPlanCache::clear() const {
  drop(index(), [](auto& cache, auto& gone) { cache.clear(gone); });
}

}  // namespace ember::inline v0::cuda
