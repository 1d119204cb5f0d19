#include "ember/driver/cuda/blas_handle.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/thread_exit.h"
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/library.h"
#include "ember/driver/gemm.h"

namespace ember::inline v0::driver::cuda {
namespace {

// ---- The library

// By the names that are exported: cublas_v2.h hides them behind macros.
#define EMBER_CUBLAS_CALLS(CALL) \
  CALL(cublasCreate_v2)          \
  CALL(cublasGetStatusName)      \
  CALL(cublasSetMathMode)        \
  CALL(cublasSetStream_v2)       \
  CALL(cublasSetWorkspace_v2)

struct Cublas {
#define EMBER_CUBLAS_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_CUBLAS_CALLS(EMBER_CUBLAS_POINTER)
#undef EMBER_CUBLAS_POINTER
};

Cublas resolve(void* library) {
  Cublas found;
#define EMBER_CUBLAS_RESOLVE(name) \
  found.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  EMBER_CUBLAS_CALLS(EMBER_CUBLAS_RESOLVE)
#undef EMBER_CUBLAS_RESOLVE
  return found;
}

bool is_complete(void* library) {
  bool complete = true;
#define EMBER_CUBLAS_CHECK(name) complete &= dlsym(library, #name) != nullptr;
  EMBER_CUBLAS_CALLS(EMBER_CUBLAS_CHECK)
#undef EMBER_CUBLAS_CHECK
  return complete;
}

struct Loaded {
  Cublas calls;
  Status status;
};

Loaded load() {
  const Library library = open_library({.what = "a cuBLAS handle needs cuBLAS",
                                        .version = "cuBLAS 12",
                                        .variable = "EMBER_CUBLAS",
                                        .named = env::get("EMBER_CUBLAS"),
                                        .files = {"libcublas.so.13", "libcublas.so.12"}},
                                       &is_complete);
  if (!library.status.ok()) return {{}, library.status};
  return {resolve(library.handle), {}};
}

const Loaded& cublas() {
  static NoDestructor<Loaded> loaded(load());
  return *loaded;
}

// ---- The handles

struct Handle {
  cublasHandle_t native = nullptr;
  std::uint32_t epoch = 0;  // of its device: it belongs to the context
};

/// Handles of threads that have ended, by device. Making one takes milliseconds and tens of
/// megabytes.
struct Pool {
  Mutex mutex;
  std::unordered_map<int, std::vector<Handle>> idle EMBER_GUARDED_BY(mutex);
};

Pool& pool() {
  // Threads may end, and give theirs back, until the process does.
  static NoDestructor<Pool> made;
  return *made;
}

/// The calling thread's handles, by device. No two threads ever have the same one.
struct OwnHandles {
  std::unordered_map<int, Handle> by_device;

  ~OwnHandles() {
    Pool& shared = pool();
    const MutexLock lock(shared.mutex);
    for (const auto& [device, handle] : by_device)
      if (handle.native != nullptr) shared.idle[device].push_back(handle);
  }
};

cublasHandle_t take_idle(int device, std::uint32_t epoch) {
  Pool& shared = pool();
  const MutexLock lock(shared.mutex);
  std::vector<Handle>& idle = shared.idle[device];
  while (!idle.empty()) {
    const Handle handle = idle.back();
    idle.pop_back();
    // The memory of older ones went with their context; destroying them would touch it.
    if (handle.epoch == epoch) return handle.native;
  }
  return nullptr;
}

Status failure(cublasStatus_t status, const char* call) {
  Code code = Code::unknown;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = Code::out_of_memory;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    code = Code::not_supported;
  return Status(code, std::string(call) + ": " + cublas().calls.cublasGetStatusName(status));
}

Status find(const Device& device, cublasHandle_t& out) {
  Handle& own = PerThread<OwnHandles>::get().by_device[device.index()];
  if (own.native == nullptr || own.epoch != device.epoch()) {
    const RelaxedMode relaxed;
    cublasHandle_t taken = take_idle(device.index(), device.epoch());
    if (taken == nullptr)
      if (const cublasStatus_t status = cublas().calls.cublasCreate_v2(&taken);
          status != CUBLAS_STATUS_SUCCESS)
        return failure(status, "cublasCreate");
    own = {taken, device.epoch()};
  }
  out = own.native;
  return {};
}

cublasMath_t mode_of(std::uint8_t math) {
  int mode = (math & kTensorFloat32) != 0 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  // The handle knows one switch for both types.
  if ((math & (kExactHalfSums | kExactBFloatSums)) != 0)
    mode |= CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  return static_cast<cublasMath_t>(mode);
}

}  // namespace

Status blas_handle(Device& device, CUstream stream, std::uint8_t math, void* workspace,
                   std::size_t bytes, void*& out) noexcept {
  EMBER_TRY(cublas().status);
  const Cublas& calls = cublas().calls;
  cublasHandle_t handle = nullptr;
  EMBER_TRY(find(device, handle));
  // Every time: the user may have changed the handle meanwhile. The stream first, since setting it
  // takes the workspace away.
  if (const cublasStatus_t status = calls.cublasSetStream_v2(handle, stream);
      status != CUBLAS_STATUS_SUCCESS)
    return failure(status, "cublasSetStream");
  if (workspace != nullptr)
    if (const cublasStatus_t status = calls.cublasSetWorkspace_v2(handle, workspace, bytes);
        status != CUBLAS_STATUS_SUCCESS)
      return failure(status, "cublasSetWorkspace");
  if (const cublasStatus_t status = calls.cublasSetMathMode(handle, mode_of(math));
      status != CUBLAS_STATUS_SUCCESS)
    return failure(status, "cublasSetMathMode");
  out = handle;
  return {};
}

void forget_blas_handles(int device) noexcept {
  Pool& shared = pool();
  const MutexLock lock(shared.mutex);
  shared.idle.erase(device);
}

}  // namespace ember::inline v0::driver::cuda
