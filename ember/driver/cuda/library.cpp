#include "ember/driver/cuda/library.h"

#include <dlfcn.h>

#include <vector>

namespace ember::inline v0::driver::cuda {
namespace {

std::vector<std::string> places_of(const LibraryNames& names) {
  if (names.named && !names.named->empty()) return {*names.named};
  std::vector<std::string> places;
  for (const char* file : names.files)
    for (const char* folder :
         {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/",
          EMBER_CUDA_LIBRARY_DIR "/"})
      places.push_back(std::string(folder) + file);
  return places;
}

/// "libcublasLt.so.13 or .12"
std::string files_of(const LibraryNames& names) {
  std::string text;
  for (const char* file : names.files) {
    const std::string name = file;
    text += text.empty() ? name : " or " + name.substr(name.rfind('.'));
  }
  return text;
}

}  // namespace

Library open_library(const LibraryNames& names, bool (*complete)(void* handle)) {
  std::string tried;
  for (const std::string& place : places_of(names)) {
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* error = dlerror();
      const std::string text = error != nullptr ? error : place;
      tried += (tried.empty() ? "" : "; ") + text;
      continue;
    }
    if (complete(handle)) return {handle, Status()};
    tried += (tried.empty() ? "" : "; ") + place + ": lacks functions of " + names.version;
  }
  return {nullptr, Status(Code::not_supported,
                          std::string(names.what) + " (" + files_of(names) +
                              "), which could not be opened: " + tried +
                              ". Install it, add its folder to LD_LIBRARY_PATH, or name it in " +
                              names.variable)};
}

}  // namespace ember::inline v0::driver::cuda
