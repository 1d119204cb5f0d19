#include "ember/driver/cuda/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "ember/base/env.h"

namespace ember::inline v0::driver::cuda {
namespace {

constexpr const char* kToolkits[] = {
    "/usr/local/cuda/lib64/", "/usr/local/cuda/targets/x86_64-linux/lib/",
    "/usr/local/cuda/extras/CUPTI/lib64/", EMBER_CUDA_LIBRARY_DIR "/"};
constexpr const char* kSystem[] = {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/", "/usr/lib/"};

bool is_named(const LibraryNames& names) { return names.named && !names.named->empty(); }

std::vector<std::string> places_of(const LibraryNames& names) {
  if (is_named(names)) return {*names.named};
  std::vector<std::string> places;
  for (const char* file : names.files) {
    places.emplace_back(file);
    for (const char* folder : kToolkits) places.push_back(std::string(folder) + file);
  }
  return places;
}

/// The folders in LD_LIBRARY_PATH, each with a "/" behind it.
std::vector<std::string> folders_of_the_loader() {
  const std::string all = env::get("LD_LIBRARY_PATH").value_or("");
  std::vector<std::string> folders;
  for (std::size_t from = 0; from < all.size();) {
    const std::size_t end = std::min(all.find_first_of(":;", from), all.size());
    if (end > from) folders.push_back(all.substr(from, end - from) + "/");
    from = end + 1;
  }
  return folders;
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

std::string find_library(const LibraryNames& names) {
  if (is_named(names)) return names.named->find('/') != std::string::npos ? *names.named : "";
  std::vector<std::string> folders = folders_of_the_loader();
  folders.insert(folders.end(), std::begin(kSystem), std::end(kSystem));
  folders.insert(folders.end(), std::begin(kToolkits), std::end(kToolkits));
  for (const char* file : names.files)
    for (const std::string& folder : folders)
      if (std::string path = folder + file; access(path.c_str(), R_OK) == 0) return path;
  return "";
}

}  // namespace ember::inline v0::driver::cuda
