#include "ember/driver/cuda/functions.h"

#include <cuda_runtime_api.h>

#include <string>

namespace ember::driver::cuda {
namespace {

/// All that know a name, so that a reset finds them.
std::atomic<Functions*> listed{nullptr};

}  // namespace

Status Functions::find(const void* symbol, std::size_t device, CUfunction& out) noexcept {
  cudaKernel_t kernel = nullptr;
  if (const cudaError_t error = cudaGetKernel(&kernel, symbol); error != cudaSuccess)
    return Status(static_cast<Code>(error),
                  std::string("looking it up: ") + cudaGetErrorString(error));
  if (device >= kDevices) {
    // The driver API takes a CUkernel wherever it takes a CUfunction, by this cast.
    out = reinterpret_cast<CUfunction>(kernel);
    return {};
  }
  if (const CUresult result = api.cuKernelGetFunction(&out, kernel); result != CUDA_SUCCESS)
    return failure(result, "looking it up");
  known_[device].store(out, std::memory_order_release);
  if (!listed_.exchange(true)) {
    next_ = listed.load(std::memory_order_relaxed);
    while (!listed.compare_exchange_weak(next_, this, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
  }
  return {};
}

void Functions::forget(int device) noexcept {
  const auto index = static_cast<std::size_t>(device);
  if (index >= kDevices) return;
  for (Functions* each = listed.load(std::memory_order_acquire); each != nullptr;
       each = each->next_)
    each->known_[index].store(nullptr, std::memory_order_relaxed);
}

}  // namespace ember::driver::cuda
