// What programs see of the plans of Fourier transforms. Chapter 21 of the documents. (PyTorch:
// torch.backends.cuda.cufft_plan_cache)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ember/base/export.h"
#include "ember/runtime/device.h"

namespace ember::inline v0::cuda {

/// The plans that a device keeps for transforms, so that one of a kind, dtype, size and strides
/// that was there before finds its plan. The one that was least recently used goes first. A plan
/// that was dropped lives until work that was enqueued with it is done. Thread-safe; real and
/// simulated devices keep the same count. A reset of the device drops all plans.
class EMBER_API FftPlanCache {
 public:
  /// Of a device; without one, of the device that is current when a member is called. Error
  /// `cufft_plan_cache: expected 0 <= device index < 2, but got device with index 2`. Initialises.
  FftPlanCache() noexcept = default;
  explicit FftPlanCache(DeviceArg device);

  /// How many plans there are. Does not block.
  std::int64_t size() const;
  /// How many there may be: 4096 at first, 0 for none. Lowering it drops plans, and blocks until
  /// their work is done. Error `cuFFT plan cache size must be non-negative, but got -1`.
  std::int64_t max_size() const;
  void set_max_size(std::int64_t most) const;
  /// About what the tables of these plans take, which is not part of any statistics: on real
  /// devices, what there was less of after each was made.
  std::int64_t bytes() const;
  /// How much of that there may be: 0, as at first, for no limit. As with max_size().
  std::int64_t max_bytes() const;
  void set_max_bytes(std::int64_t most) const;
  /// Drops all plans; blocks until their work is done.
  void clear() const;

 private:
  int index() const;
  std::optional<int> index_;
};

}  // namespace ember::inline v0::cuda
