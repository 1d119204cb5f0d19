// CUDA's names for the kernels of this object, per device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "ember/driver/arguments.h"
#include "ember/driver/cuda/api.h"

namespace ember::inline v0::driver::cuda {

/// The names of one kernel, and what its parameters hold. CUDA offers one for all devices as well,
/// but then looks its own for the device up in every launch: among the hundreds of kernels here
/// that is a tenth of the launch. Objects of static duration. Thread-safe.
class Functions {
 public:
  constexpr Functions() = default;
  Functions(const Functions&) = delete;
  Functions& operator=(const Functions&) = delete;

  /// The kernel that nvcc compiled as `symbol`, on a device whose context is current; looked up
  /// once, until the device is reset. `parameters`: where addresses lie in each, in static memory.
  Status get(const void* symbol, std::span<const AddressPlaces> parameters, int device,
             CUfunction& out) noexcept {
    const auto index = static_cast<std::size_t>(device);
    out = index < kDevices ? known_[index].load(std::memory_order_acquire) : nullptr;
    if (out != nullptr) [[likely]]
      return {};
    return find(symbol, parameters, index, out);
  }

  /// After a reset, which took all names on the device away.
  static void forget(int device) noexcept;
  /// The parameters of a kernel that get() gave; none of others.
  static std::span<const AddressPlaces> parameters_of(CUfunction function) noexcept;

 private:
  static constexpr std::size_t kDevices = 16;  ///< on further ones each launch looks the kernel up

  Status find(const void* symbol, std::span<const AddressPlaces> parameters, std::size_t device,
              CUfunction& out) noexcept;

  std::array<std::atomic<CUfunction>, kDevices> known_{};
  // Of those that know a name, so that a reset finds them; written under the mutex of the list.
  bool listed_ = false;
  std::span<const AddressPlaces> parameters_;
  Functions* next_ = nullptr;
};

}  // namespace ember::inline v0::driver::cuda
