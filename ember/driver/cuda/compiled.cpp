// Kernels that were compiled while the program runs (driver/compiled.h).
#include "ember/driver/compiled.h"

#include <atomic>
#include <limits>

#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// Loads the code at its first launch: for all devices, and for as long as the process lives. Two
/// threads may load it twice; the first one's is kept.
Status load(const DeviceCode& code, CUkernel& out) {
  CUlibrary library = nullptr;
  CUresult result =
      api.cuLibraryLoadData(&library, code.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) result = api.cuLibraryGetKernel(&out, library, kCompiledEntry);
  return result == CUDA_SUCCESS ? Status() : failure(result, "loading a compiled kernel");
}

Status kernel_of(DeviceCode& code, CUkernel& out) {
  const std::atomic_ref<void*> known(code.native);
  out = static_cast<CUkernel>(known.load(std::memory_order_acquire));
  if (out != nullptr) return {};
  EMBER_TRY(load(code, out));
  void* other = nullptr;
  if (!known.compare_exchange_strong(other, out, std::memory_order_acq_rel))
    out = static_cast<CUkernel>(other);
  return {};
}

Status compiled_implementation(const Params& params, const CudaLaunch& on) {
  const auto& header = params.as<CompiledHeader>();
  const std::int64_t blocks = (header.count + header.per_block - 1) / header.per_block;
  if (blocks > std::numeric_limits<std::int32_t>::max())
    return Status(Code::invalid_value,
                  std::to_string(header.count) + " elements are too many for one launch");
  CUkernel kernel = nullptr;
  EMBER_TRY(kernel_of(on.context<CompiledContext>().device_code(), kernel));
  // Asked for in every launch: a reset of the device takes the function away, but not the kernel.
  CUfunction function = nullptr;
  if (const CUresult result = api.cuKernelGetFunction(&function, kernel); result != CUDA_SUCCESS)
    return failure(result, "looking it up");
  // The arguments are one struct, whose size the driver knows from the kernel.
  void* arguments[] = {const_cast<void*>(params.data()), nullptr};
  return enqueue(on, function, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kCompiledThreads)},
                 arguments);
}

constexpr NamedImplementation kImplementations[] = {
    {"compiled", &compiled_implementation},
};
const Implementations table(kImplementations, arguments<CompiledHeader>());

}  // namespace
}  // namespace ember::inline v0::driver::cuda
