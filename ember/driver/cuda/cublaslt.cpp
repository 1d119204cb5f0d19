#include "ember/driver/cuda/cublaslt.h"

#include <dlfcn.h>

#include "ember/base/env.h"
#include "ember/base/no_destructor.h"
#include "ember/driver/cuda/library.h"

namespace ember::inline v0::driver::cuda {
namespace {

bool resolve_all(void* library, Lt& out) {
  bool complete = true;
#define EMBER_CUBLASLT_RESOLVE(name)                                     \
  out.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  complete &= out.name != nullptr;
  EMBER_CUBLASLT_CALLS(EMBER_CUBLASLT_RESOLVE)
#undef EMBER_CUBLASLT_RESOLVE
  return complete;
}

LoadedLt load_lt() {
  const Library library = open_library({.what = "matrix products need cuBLASLt",
                                        .version = "cuBLASLt 12",
                                        .variable = "EMBER_CUBLASLT",
                                        .named = env::get("EMBER_CUBLASLT"),
                                        .files = {"libcublasLt.so.13", "libcublasLt.so.12"}},
                                       [](void* handle) {
                                         Lt found;
                                         return resolve_all(handle, found);
                                       });
  LoadedLt loaded{{}, library.status};
  if (loaded.status.ok()) resolve_all(library.handle, loaded.lt);
  return loaded;
}

}  // namespace

const LoadedLt& lt() {
  static NoDestructor<LoadedLt> loaded(load_lt());
  return *loaded;
}

}  // namespace ember::inline v0::driver::cuda
