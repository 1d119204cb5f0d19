// Kernels that were compiled while the program runs (driver/compiled.h).
#include "ember/driver/cuda/compiled.h"

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <new>

#include "ember/base/mutex.h"
#include "ember/driver/compiled.h"
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/implementations.h"
#include "ember/driver/cuda/launch.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// What is kept of a kernel's code: for all devices, and for as long as the process lives.
struct Loaded {
  static constexpr std::size_t kDevices = 16;  ///< on further ones each launch looks it up

  CUkernel kernel = nullptr;
  // Its functions, as class Functions has them of this object's own kernels, and why.
  std::array<std::atomic<CUfunction>, kDevices> functions{};
  Loaded* next = nullptr;

  Status function_on(int device, CUfunction& out) noexcept {
    const auto index = static_cast<std::size_t>(device);
    out = index < kDevices ? functions[index].load(std::memory_order_acquire) : nullptr;
    return out != nullptr ? Status() : find(index, out);
  }
  Status find(std::size_t device, CUfunction& out) noexcept;
};

struct AllLoaded {
  Mutex mutex;
  Loaded* first EMBER_GUARDED_BY(mutex) = nullptr;
};
constinit AllLoaded all_loaded;

// Asked for under the lock, so that a function is not kept that a reset has just taken away.
Status Loaded::find(std::size_t device, CUfunction& out) noexcept {
  const RelaxedMode relaxed;  // it may load code
  const MutexLock lock(all_loaded.mutex);
  if (const CUresult result = api.cuKernelGetFunction(&out, kernel); result != CUDA_SUCCESS)
    return failure(result, "looking it up");
  if (device < kDevices) functions[device].store(out, std::memory_order_release);
  return {};
}

/// Loads the code at its first launch.
Status load(const DeviceCode& code, CUkernel& out) {
  CUlibrary library = nullptr;
  CUresult result =
      api.cuLibraryLoadData(&library, code.image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) result = api.cuLibraryGetKernel(&out, library, kCompiledEntry);
  return result == CUDA_SUCCESS ? Status() : failure(result, "loading a compiled kernel");
}

/// Two threads may load it twice; the first one's is kept.
[[gnu::noinline]] Status load_once(DeviceCode& code, Loaded*& out) {
  std::unique_ptr<Loaded> made(new (std::nothrow) Loaded);
  if (made == nullptr) return Status(Code::out_of_memory, "loading a compiled kernel");
  EMBER_TRY(load(code, made->kernel));
  void* other = nullptr;
  const MutexLock lock(all_loaded.mutex);  // a reset finds it as soon as others do
  if (std::atomic_ref<void*>(code.native)
          .compare_exchange_strong(other, made.get(), std::memory_order_acq_rel))
    out = made.release();
  else
    out = static_cast<Loaded*>(other);
  if (other != nullptr) return {};
  out->next = all_loaded.first;
  all_loaded.first = out;
  return {};
}

Status compiled_implementation(const Params& params, const CudaLaunch& on) {
  const auto& header = params.as<CompiledHeader>();
  const std::int64_t blocks = (header.count + header.per_block - 1) / header.per_block;
  if (blocks > std::numeric_limits<std::int32_t>::max())
    return Status(Code::invalid_value,
                  std::to_string(header.count) + " elements are too many for one launch");
  DeviceCode& code = on.context<CompiledContext>().device_code();
  auto* loaded =
      static_cast<Loaded*>(std::atomic_ref<void*>(code.native).load(std::memory_order_acquire));
  if (loaded == nullptr) [[unlikely]]
    EMBER_TRY(load_once(code, loaded));
  CUfunction function = nullptr;
  EMBER_TRY(loaded->function_on(on.device(), function));
  // The arguments are one struct, whose size the driver knows from the kernel.
  void* arguments[] = {const_cast<void*>(params.data()), nullptr};
  return enqueue(on, function, Grid{dim3(static_cast<unsigned>(blocks)), dim3(header.threads)},
                 arguments);
}

constexpr NamedImplementation kImplementations[] = {
    {"compiled", &compiled_implementation},
};
const Implementations table(kImplementations, arguments<CompiledHeader>());

}  // namespace

void forget_compiled(int device) noexcept {
  const auto index = static_cast<std::size_t>(device);
  if (index >= Loaded::kDevices) return;
  const MutexLock lock(all_loaded.mutex);
  for (Loaded* each = all_loaded.first; each != nullptr; each = each->next)
    each->functions[index].store(nullptr, std::memory_order_relaxed);
}

}  // namespace ember::inline v0::driver::cuda
