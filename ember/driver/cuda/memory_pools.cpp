#include "ember/driver/cuda/memory_pools.h"

#include <dlfcn.h>

namespace ember::inline v0::driver::cuda {
namespace {

struct Found {
  PoolCalls calls;
  const char* missing = nullptr;
};

Found look_up() {
  Found found;
  // It is open since load_api(), and stays so.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#define EMBER_CUDA_RESOLVE(name)                                                          \
  found.calls.name = reinterpret_cast<decltype(found.calls.name)>(dlsym(library, #name)); \
  if (found.calls.name == nullptr) found.missing = #name;
  EMBER_CUDA_POOL_CALLS(EMBER_CUDA_RESOLVE)
#undef EMBER_CUDA_RESOLVE
  return found;
}

}  // namespace

Status find_pool_calls(const PoolCalls*& out) {
  static const Found found = look_up();
  if (found.missing != nullptr)
    return Status(Code::not_supported, std::string("libcuda.so.1 has no ") + found.missing);
  out = &found.calls;
  return {};
}

}  // namespace ember::inline v0::driver::cuda
