#include "ember/driver/cuda/fft.h"

#include <cufftXt.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ember/base/env.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/cuda/api.h"
#include "ember/driver/cuda/capture.h"
#include "ember/driver/cuda/library.h"

namespace ember::inline v0::driver::cuda {
namespace {

// ---- The library

#define EMBER_CUFFT_CALLS(CALL) \
  CALL(cufftCreate)             \
  CALL(cufftDestroy)            \
  CALL(cufftSetAutoAllocation)  \
  CALL(cufftSetStream)          \
  CALL(cufftSetWorkArea)        \
  CALL(cufftXtMakePlanMany)     \
  CALL(cufftXtExec)

struct Fft {
#define EMBER_CUFFT_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_CUFFT_CALLS(EMBER_CUFFT_POINTER)
#undef EMBER_CUFFT_POINTER
};

struct LoadedFft {
  Fft fft;
  Status status;
};

bool resolve_all(void* library, Fft& out) {
  bool complete = true;
#define EMBER_CUFFT_RESOLVE(name)                                        \
  out.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  complete &= out.name != nullptr;
  EMBER_CUFFT_CALLS(EMBER_CUFFT_RESOLVE)
#undef EMBER_CUFFT_RESOLVE
  return complete;
}

LoadedFft load_fft() {
  const Library library = open_library({.what = "Fourier transforms need cuFFT",
                                        .version = "cuFFT 11",
                                        .variable = "EMBER_CUFFT",
                                        .named = env::get("EMBER_CUFFT"),
                                        .files = {"libcufft.so.12", "libcufft.so.11"}},
                                       [](void* handle) {
                                         Fft found;
                                         return resolve_all(handle, found);
                                       });
  LoadedFft loaded{{}, library.status};
  if (loaded.status.ok()) resolve_all(library.handle, loaded.fft);
  return loaded;
}

const LoadedFft& library() {
  static NoDestructor<LoadedFft> loaded(load_fft());
  return *loaded;
}

const char* name_of(cufftResult result) {
  switch (result) {
    case CUFFT_SUCCESS: return "CUFFT_SUCCESS";
    case CUFFT_INVALID_PLAN: return "CUFFT_INVALID_PLAN";
    case CUFFT_ALLOC_FAILED: return "CUFFT_ALLOC_FAILED";
    case CUFFT_INVALID_TYPE: return "CUFFT_INVALID_TYPE";
    case CUFFT_INVALID_VALUE: return "CUFFT_INVALID_VALUE";
    case CUFFT_INTERNAL_ERROR: return "CUFFT_INTERNAL_ERROR";
    case CUFFT_EXEC_FAILED: return "CUFFT_EXEC_FAILED";
    case CUFFT_SETUP_FAILED: return "CUFFT_SETUP_FAILED";
    case CUFFT_INVALID_SIZE: return "CUFFT_INVALID_SIZE";
    case CUFFT_UNALIGNED_DATA: return "CUFFT_UNALIGNED_DATA";
    case CUFFT_INVALID_DEVICE: return "CUFFT_INVALID_DEVICE";
    case CUFFT_NO_WORKSPACE: return "CUFFT_NO_WORKSPACE";
    case CUFFT_NOT_IMPLEMENTED: return "CUFFT_NOT_IMPLEMENTED";
    case CUFFT_NOT_SUPPORTED: return "CUFFT_NOT_SUPPORTED";
    default: return "an error that cuFFT 12 does not name";
  }
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  return api.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS ? free : 0;
}

/// Where there is less than this, what cuFFT calls an internal error is for want of memory: some of
/// what it makes (modules among it) says no more.
constexpr std::size_t kLittleMemory = std::size_t{64} << 20;

Status failure(cufftResult result, const CudaLaunch& on, const std::string& what) {
  // Faults of earlier work surface in whichever call comes next.
  const CUresult stream = api.cuStreamQuery(on.stream());
  if (stream != CUDA_SUCCESS && stream != CUDA_ERROR_NOT_READY) return cuda::failure(stream, what);
  Code code = Code::unknown;
  if (result == CUFFT_ALLOC_FAILED) code = Code::out_of_memory;
  if ((result == CUFFT_INTERNAL_ERROR || result == CUFFT_SETUP_FAILED) &&
      free_bytes() < kLittleMemory)
    code = Code::out_of_memory;
  if (result == CUFFT_NOT_SUPPORTED || result == CUFFT_NOT_IMPLEMENTED) code = Code::not_supported;
  if (result == CUFFT_INVALID_VALUE || result == CUFFT_INVALID_SIZE || result == CUFFT_INVALID_TYPE)
    code = Code::invalid_value;
  return Status(code, what + ": " + name_of(result));
}

// ---- Plans

/// The dimension of a batch that one call of the library goes over: the longest one.
int inner_batch(const FftGeometry& g) {
  int inner = 0;
  for (int d = 1; d < g.batch_dims; ++d)
    if (g.batch_sizes[d] > g.batch_sizes[inner]) inner = d;
  return inner;
}

/// A plan of cuFFT's. Stream and work area are the transform's own, so that threads take turns.
struct NativePlan {
  Mutex mutex;
  cufftHandle handle EMBER_GUARDED_BY(mutex) = 0;
  // What the handle was last given. Setting both again for each transform costs 0.2 us.
  CUstream stream EMBER_GUARDED_BY(mutex) = nullptr;
  void* work EMBER_GUARDED_BY(mutex) = nullptr;
};

/// Has the plan's next transform in `stream`, with `work` for its own.
cufftResult aim(NativePlan& plan, CUstream stream, void* work) EMBER_REQUIRES(plan.mutex) {
  const Fft& calls = library().fft;
  if (stream != plan.stream) {
    const cufftResult result = calls.cufftSetStream(plan.handle, stream);
    if (result != CUFFT_SUCCESS) return result;
    plan.stream = stream;
  }
  if (work != nullptr && work != plan.work) {
    const cufftResult result = calls.cufftSetWorkArea(plan.handle, work);
    if (result != CUFFT_SUCCESS) return result;
    plan.work = work;
  }
  return CUFFT_SUCCESS;
}

struct Types {
  cudaDataType real, complex;
};
Types types_of(const FftGeometry& g) {
  switch (g.real_bytes) {
    case 2: return {CUDA_R_16F, CUDA_C_16F};
    case 4: return {CUDA_R_32F, CUDA_C_32F};
    default: return {CUDA_R_64F, CUDA_C_64F};
  }
}

std::string describe(const FftGeometry& g) {
  std::string sizes;
  for (int d = 0; d < g.dims; ++d)
    sizes += (sizes.empty() ? "" : " x ") + std::to_string(g.sizes[d]);
  return std::to_string(g.transforms()) + " transforms of " + sizes;
}

/// The storage of one side, as cuFFT describes it: element (x0, x1, x2) lies at ((x0 * embed[1] +
/// x1) * embed[2] + x2) * stride.
struct Side {
  long long embed[kFftDims] = {};
  long long stride = 1;
  long long distance = 1;

  Side(const FftGeometry& g, bool input) {
    const std::int64_t* strides = input ? g.in_strides : g.out_strides;
    const std::int64_t* batch = input ? g.in_batch_strides : g.out_batch_strides;
    const bool is_half = g.kind == (input ? FftKind::c2r : FftKind::r2c);
    const int last = g.dims - 1;
    stride = strides[last];
    for (int d = last; d > 0; --d) embed[d] = strides[d - 1] / strides[d];
    // Not looked at but for its not being null.
    embed[0] = g.dims == 1 && is_half ? g.sizes[0] / 2 + 1 : g.sizes[0];
    if (g.batch_dims > 0) distance = batch[inner_batch(g)];
  }
};

cufftResult make(const FftGeometry& g, cufftHandle handle, std::size_t& work) {
  const Fft& calls = library().fft;
  // The work area is the caller's: from the caching allocator, and for each transform its own.
  if (const cufftResult result = calls.cufftSetAutoAllocation(handle, 0); result != CUFFT_SUCCESS)
    return result;
  long long sizes[kFftDims] = {};
  std::copy(g.sizes, g.sizes + g.dims, sizes);
  Side in(g, true);
  Side out(g, false);
  const Types types = types_of(g);
  const long long batch = g.batch_dims > 0 ? g.batch_sizes[inner_batch(g)] : 1;
  return calls.cufftXtMakePlanMany(
      handle, g.dims, sizes, in.embed, in.stride, in.distance,
      g.kind == FftKind::r2c ? types.real : types.complex, out.embed, out.stride, out.distance,
      g.kind == FftKind::c2r ? types.real : types.complex, batch, &work, types.complex);
}

}  // namespace

Status make_fft_plan(const FftGeometry& geometry, const CudaLaunch& on,
                     FftPlanState& state) noexcept {
  EMBER_TRY(Status(library().status));
  const Fft& calls = library().fft;
  const std::size_t before = free_bytes();
  auto plan = std::make_unique<NativePlan>();
  std::size_t work = 0;
  {
    const MutexLock lock(plan->mutex);
    cufftResult result = calls.cufftCreate(&plan->handle);
    if (result != CUFFT_SUCCESS) return failure(result, on, "cufftCreate");
    result = make(geometry, plan->handle, work);
    if (result != CUFFT_SUCCESS) {
      // What it says of the failure may depend on what it holds.
      Status status = failure(result, on, "making a plan of " + describe(geometry));
      (void)calls.cufftDestroy(plan->handle);
      return status;
    }
  }
  const std::size_t after = free_bytes();
  state.native = plan.release();
  state.work_bytes = work;
  if (before > after) state.table_bytes = before - after;
  state.scales = false;
  return {};
}

Status destroy_fft_plan(FftPlanState& state) noexcept {
  const std::unique_ptr<NativePlan> plan(static_cast<NativePlan*>(state.native));
  state.native = nullptr;
  if (plan == nullptr) return {};
  const MutexLock lock(plan->mutex);
  const cufftResult result = library().fft.cufftDestroy(plan->handle);
  return result == CUFFT_SUCCESS ? Status() : Status(Code::unknown, name_of(result));
}

Status transform(const FftArgs& args, const CudaLaunch& on) noexcept {
  const Fft& calls = library().fft;
  const FftGeometry& g = args.geometry;
  auto& plan = *static_cast<NativePlan*>(static_cast<FftPlanState*>(args.plan)->native);
  const std::int64_t complex_bytes = g.complex_bytes();
  const std::int64_t in_bytes = g.kind == FftKind::r2c ? complex_bytes / 2 : complex_bytes;
  const std::int64_t out_bytes = g.kind == FftKind::c2r ? complex_bytes / 2 : complex_bytes;
  const int direction = args.forward ? CUFFT_FORWARD : CUFFT_INVERSE;
  const int inner = inner_batch(g);
  const std::int64_t count = g.batch_dims > 0 ? g.transforms() / g.batch_sizes[inner] : 1;

  // In a capture too, where the library may load what it launches.
  const RelaxedMode relaxed(captures_here.load(std::memory_order_relaxed) != 0);
  const MutexLock lock(plan.mutex);
  cufftResult result = aim(plan, on.stream(), args.work);
  // One call for the longest dimension of the batch, the others one index at a time.
  for (std::int64_t i = 0; i < count && result == CUFFT_SUCCESS; ++i) {
    std::int64_t rest = i;
    std::int64_t in = 0;
    std::int64_t out = 0;
    for (int d = g.batch_dims - 1; d >= 0; --d) {
      if (d == inner) continue;
      const std::int64_t index = rest % g.batch_sizes[d];
      rest /= g.batch_sizes[d];
      in += index * g.in_batch_strides[d];
      out += index * g.out_batch_strides[d];
    }
    result = calls.cufftXtExec(plan.handle, static_cast<std::byte*>(args.in) + in * in_bytes,
                               static_cast<std::byte*>(args.out) + out * out_bytes, direction);
  }
  if (result == CUFFT_SUCCESS) [[likely]]
    return {};
  return failure(result, on, describe(g));
}

}  // namespace ember::inline v0::driver::cuda
