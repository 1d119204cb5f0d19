// How a CUDA implementation starts its kernel. For .cu files of this object.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <type_traits>

#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/functions.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::cuda {

/// How many threads run a kernel.
struct Grid {
  dim3 blocks = 1;
  dim3 threads = 1;  ///< per block
  unsigned shared_bytes = 0;

  std::string text() const {
    const auto volume = [](const dim3& size) {
      return std::to_string(size.x) + " x " + std::to_string(size.y) + " x " +
             std::to_string(size.z);
    };
    return volume(blocks) + " blocks of " + volume(threads) + " threads with " +
           std::to_string(shared_bytes) + " bytes of shared memory";
  }
};

/// Makes a kernel part of a launch. Every kernel of this object comes through here, so that a
/// launch may be something else than a stream.
inline Status enqueue(const CudaLaunch& on, CUfunction function, const Grid& grid,
                      void** arguments) noexcept {
  const CUresult result = api.cuLaunchKernel(function, grid.blocks.x, grid.blocks.y, grid.blocks.z,
                                             grid.threads.x, grid.threads.y, grid.threads.z,
                                             grid.shared_bytes, on.stream(), arguments, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return failure(result, grid.text());
}

/// The same for setting memory to zero.
inline Status zero(const CudaLaunch& on, void* data, std::size_t bytes) noexcept {
  const CUresult result =
      api.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(data), 0, bytes, on.stream());
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return failure(result, "setting scratch memory to zero");
}

/// Where addresses lie in the parameters of a kernel.
template <class... Parameters>
inline constexpr std::array<AddressPlaces, sizeof...(Parameters)> kParameterAddresses = {
    layout::addresses_in<Parameters>()...};

/// kKernel<<<grid>>>(arguments...) in a launch. The arguments must have exactly the types of the
/// kernel's parameters; they are copied.
///
/// It goes past cudart because `<<<>>>` looks the kernel and the context up in every launch.
template <auto kKernel, class... Arguments>
Status start(const CudaLaunch& on, const Grid& grid, const Arguments&... arguments) noexcept {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>,
                "the arguments must have exactly the types of the kernel's parameters");
  static_assert((layout::addresses_in<Arguments>().known() && ...),
                "say where addresses lie in a parameter: EMBER_ARGUMENTS, or kAddresses");
  static constinit Functions functions;
  CUfunction function = nullptr;
  EMBER_TRY(functions.get(reinterpret_cast<const void*>(kKernel), kParameterAddresses<Arguments...>,
                          on.device(), function));
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  return enqueue(on, function, grid, pointers);
}

}  // namespace ember::inline v0::driver::cuda
