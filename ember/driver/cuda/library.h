// Libraries of NVIDIA's that are large or may be missing: opened by name at their first use.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda {

struct Library {
  void* handle = nullptr;  ///< for dlsym(); stays open
  Status status;           ///< says where it was looked for if there is none
};

/// Where a library is looked for, and what to say where it is not found.
struct LibraryNames {
  const char* what;                  ///< "matrix products need cuBLASLt"
  const char* version;               ///< what lacks functions that are needed: "cuBLASLt 12"
  const char* variable;              ///< the environment variable that can name it
  std::optional<std::string> named;  ///< its value
  std::initializer_list<const char*> files;  ///< "libcublasLt.so.13", the best one first
};

/// Opens the first that can be opened and for which `complete(handle)` is true: the named one
/// alone, or else what the loader finds (or the process has), then where toolkits are installed.
/// Blocks for up to a second. Code::not_supported if there is none.
Library open_library(const LibraryNames& names, bool (*complete)(void* handle));

/// The file of the library, which is not opened: the named one if that is a path, or else the first
/// that is in LD_LIBRARY_PATH, in the system's folders or where toolkits are installed. Empty if it
/// is in none of them; the loader may know others.
std::string find_library(const LibraryNames& names);

}  // namespace ember::inline v0::driver::cuda
