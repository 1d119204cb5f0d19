#include "ember/driver/cuda/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ember/base/env.h"

namespace ember::inline v0::driver::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

/// The oldest driver that serves: 12.1 has all of the table and takes launches with more than 4 KiB
/// of arguments, and code that a toolkit compiled runs on drivers of the toolkit's own major
/// version and later ones.
constexpr int kOldestDriver = std::max(12010, CUDA_VERSION / 1000 * 1000);

template <class Pointer>
bool resolve(void* library, const char* name, Pointer& out) {
  out = reinterpret_cast<Pointer>(dlsym(library, name));
  return out != nullptr;
}

Status lacks(const char* name) {
  return Status(Code::insufficient_driver, std::string(kLibrary) + " has no " + name);
}

/// Asked before anything else: an older libcuda may lack some of the table.
Status check_version(void* library) {
  decltype(&::cuDriverGetVersion) get_version = nullptr;
  if (!resolve(library, "cuDriverGetVersion", get_version)) return lacks("cuDriverGetVersion");
  int version = 0;
  const CUresult result = get_version(&version);
  if (result == CUDA_ERROR_STUB_LIBRARY)
    return Status(Code::no_device,
                  std::string(kLibrary) + " is a stub for linking, not an NVIDIA driver");
  if (result != CUDA_SUCCESS) return Status(to_code(result), "cuDriverGetVersion failed");
  if (version < kOldestDriver)
    return Status(Code::insufficient_driver, "found version " + std::to_string(version) +
                                                 ", at least " + std::to_string(kOldestDriver) +
                                                 " is needed");
  return {};
}

/// The thread that ends the process, once one does.
pthread_t leaving{};
std::atomic<bool> process_ends{false};  // written after `leaving`

void note_the_end() {
  leaving = pthread_self();
  process_ends = true;
}

/// CUDA ends with the process, and says so to whoever calls it afterwards. The thread that destroys
/// the static objects is told; any other stays where it is, as in any other wait, since an
/// exception would end the process by a signal.
void stay_if_the_process_ends(CUresult result) {
  if (result != CUDA_ERROR_DEINITIALIZED || !process_ends ||
      pthread_equal(leaving, pthread_self()) != 0)
    return;
  for (;;) pause();
}

Status initialise() {
  const CUresult result = api.cuInit(0);
  if (result == CUDA_SUCCESS) {
    // Exit handlers run backwards, so this one comes before CUDA's own.
    std::atexit(&note_the_end);
    return {};
  }
  if (result != CUDA_ERROR_NO_DEVICE) return failure(result, "cuInit failed");
  const auto visible = env::get("CUDA_VISIBLE_DEVICES");
  return Status(Code::no_device, "the NVIDIA driver finds no device; CUDA_VISIBLE_DEVICES is " +
                                     (visible ? "'" + *visible + "'" : std::string("not set")));
}

}  // namespace

constinit Api api;

Status load_api() {
  // Never closed: like the driver that is made from it, it lives until the process ends.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    return Status(Code::no_device, std::string(kLibrary) + " cannot be opened: " +
                                       (error != nullptr ? error : "unknown error"));
  }
  EMBER_TRY(check_version(library));
#define EMBER_CUDA_RESOLVE(name) \
  if (!resolve(library, #name, api.name)) return lacks(#name);
  EMBER_CUDA_CALLS(EMBER_CUDA_RESOLVE)
#undef EMBER_CUDA_RESOLVE
  if (!resolve(library, "cuStreamGetCaptureInfo_v2", api.cuStreamGetCaptureInfo_v2))
    return lacks("cuStreamGetCaptureInfo_v2");
  (void)resolve(library, "cuFuncGetName", api.cuFuncGetName);
  (void)resolve(library, "cuFuncGetParamInfo", api.cuFuncGetParamInfo);
  (void)resolve(library, "cuGraphNodeGetDependencies_v2", api.cuGraphNodeGetDependencies_v2);
  return initialise();
}

Status failure(CUresult result, std::string what) {
  stay_if_the_process_ends(result);
  const Code code = to_code(result);
  if (std::strcmp(code_text(code), code_text(static_cast<Code>(-1))) == 0) {
    const char* name = nullptr;
    const char* text = nullptr;
    if (api.cuGetErrorName(result, &name) == CUDA_SUCCESS &&
        api.cuGetErrorString(result, &text) == CUDA_SUCCESS)
      what += std::string(": ") + text + " (" + name + ")";
  }
  return Status(code, std::move(what));
}

}  // namespace ember::inline v0::driver::cuda
