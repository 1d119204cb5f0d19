// Compiled kernels on disk, for other processes of the same user.
#pragma once

#include <string>
#include <string_view>

#include "ember/base/status.h"

namespace ember::inline v0::jit {

/// A folder of entries, each a file named by what it was made of. It is the user's own and closed
/// to others (base/private_folder.h). An entry is written under another name, and gets its own by
/// rename(), so that others see none or all of it; behind its contents stands their checksum.
/// Any number of processes may use one folder.
class DiskCache {
 public:
  /// None: nothing is found, and nothing kept.
  DiskCache() = default;
  /// The folder that the environment names: EMBER_KERNEL_CACHE_PATH, else `ember` in
  /// PYTORCH_KERNEL_CACHE_PATH, else `ember/kernels` in XDG_CACHE_HOME or in ~/.cache; it is made
  /// if need be. None with USE_PYTORCH_KERNEL_CACHE=0, and where none can be made.
  /// Code::not_permitted, naming the folder, if it is somebody else's, or open to others.
  static Status open(DiskCache& out);

  explicit operator bool() const noexcept { return !folder_.empty(); }
  std::string path(std::string_view name) const;
  /// Whether there is a whole entry of the name. What is damaged counts as none.
  /// Code::not_permitted, naming the file, if it is somebody else's, or others may write to it.
  Status find(std::string_view name, std::string& contents, bool& found) const;
  /// Keeps an entry. False if that fails, as where the disk is full; nothing is left then.
  bool keep(std::string_view name, std::string_view contents) const;

 private:
  std::string folder_;
};

}  // namespace ember::inline v0::jit
