// How a CUDA column starts its kernel. For .cu files of this object.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <string>
#include <type_traits>

#include "ember/driver/cuda/api.h"
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

/// The driver's name for a kernel that nvcc compiled into this object, looked up once. It belongs
/// to no context (CUDA loads the code into each context that launches it), so it serves all devices
/// and outlives their resets.
template <auto kKernel>
Status kernel_function(CUfunction& out) noexcept {
  static std::atomic<CUfunction> known{nullptr};
  CUfunction function = known.load(std::memory_order_acquire);
  if (function == nullptr) [[unlikely]] {
    cudaKernel_t found = nullptr;
    const cudaError_t error = cudaGetKernel(&found, reinterpret_cast<const void*>(kKernel));
    if (error != cudaSuccess)
      return Status(static_cast<Code>(error),
                    std::string("looking it up: ") + cudaGetErrorString(error));
    // The driver API takes a CUkernel wherever it takes a CUfunction, by this cast.
    function = reinterpret_cast<CUfunction>(found);
    known.store(function, std::memory_order_release);
  }
  out = function;
  return {};
}

/// kKernel<<<grid>>>(arguments...) on the launch's stream. The arguments must have exactly the
/// types of the kernel's parameters; they are copied.
///
/// It goes past cudart because `<<<>>>` looks the kernel and the context up in every launch.
template <auto kKernel, class... Arguments>
Status start(const CudaLaunch& on, const Grid& grid, const Arguments&... arguments) noexcept {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>,
                "the arguments must have exactly the types of the kernel's parameters");
  CUfunction function = nullptr;
  EMBER_TRY(kernel_function<kKernel>(function));
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  const CUresult result = api.cuLaunchKernel(function, grid.blocks.x, grid.blocks.y, grid.blocks.z,
                                             grid.threads.x, grid.threads.y, grid.threads.z,
                                             grid.shared_bytes, on.stream, pointers, nullptr);
  if (result == CUDA_SUCCESS) [[likely]]
    return {};
  return failure(result, grid.text());
}

}  // namespace ember::driver::cuda
