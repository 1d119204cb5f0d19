#include "ember/driver/cuda/functions.h"

#include <cuda_runtime_api.h>

#include <string>

#include "ember/base/mutex.h"
#include "ember/driver/cuda/capture.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// All that know a name.
struct List {
  Mutex mutex;
  Functions* first EMBER_GUARDED_BY(mutex) = nullptr;
};
constinit List list;

}  // namespace

Status Functions::find(const void* symbol, std::span<const AddressPlaces> parameters,
                       std::size_t device, CUfunction& out) noexcept {
  const RelaxedMode relaxed;  // it may load code
  cudaKernel_t kernel = nullptr;
  if (const cudaError_t error = cudaGetKernel(&kernel, symbol); error != cudaSuccess)
    return Status(static_cast<Code>(error),
                  std::string("looking it up: ") + cudaGetErrorString(error));
  if (device >= kDevices) {
    // The driver API takes a CUkernel wherever it takes a CUfunction, by this cast.
    out = reinterpret_cast<CUfunction>(kernel);
    return {};
  }
  // Asked for under the lock, so that a name is not kept that a reset has just taken away: whoever
  // comes after forget() is refused by CUDA, for the context is gone.
  const MutexLock lock(list.mutex);
  if (const CUresult result = api.cuKernelGetFunction(&out, kernel); result != CUDA_SUCCESS)
    return failure(result, "looking it up");
  known_[device].store(out, std::memory_order_release);
  if (!listed_) {
    listed_ = true;
    parameters_ = parameters;
    next_ = list.first;
    list.first = this;
  }
  return {};
}

void Functions::forget(int device) noexcept {
  const auto index = static_cast<std::size_t>(device);
  if (index >= kDevices) return;
  const MutexLock lock(list.mutex);
  for (Functions* each = list.first; each != nullptr; each = each->next_)
    each->known_[index].store(nullptr, std::memory_order_relaxed);
}

std::span<const AddressPlaces> Functions::parameters_of(CUfunction function) noexcept {
  const MutexLock lock(list.mutex);
  for (const Functions* each = list.first; each != nullptr; each = each->next_)
    for (const std::atomic<CUfunction>& known : each->known_)
      if (known.load(std::memory_order_relaxed) == function) return each->parameters_;
  return {};
}

}  // namespace ember::inline v0::driver::cuda
