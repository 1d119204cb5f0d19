// How a CUDA column starts its kernel. For .cu files of this object.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/functions.h"
#include "ember/driver/kernel.h"

namespace ember::driver::cuda {

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

/// kKernel<<<grid>>>(arguments...) on the launch's stream. The arguments must have exactly the
/// types of the kernel's parameters; they are copied.
///
/// It goes past cudart because `<<<>>>` looks the kernel and the context up in every launch.
template <auto kKernel, class... Arguments>
Status start(const CudaLaunch& on, const Grid& grid, const Arguments&... arguments) noexcept {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>,
                "the arguments must have exactly the types of the kernel's parameters");
  static constinit Functions functions;
  CUfunction function = nullptr;
  EMBER_TRY(functions.get(reinterpret_cast<const void*>(kKernel), on.device, function));
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  const CUresult result = api.cuLaunchKernel(function, grid.blocks.x, grid.blocks.y, grid.blocks.z,
                                             grid.threads.x, grid.threads.y, grid.threads.z,
                                             grid.shared_bytes, on.stream, pointers, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return failure(result, grid.text());
}

}  // namespace ember::driver::cuda
