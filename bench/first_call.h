// What a first call costs whose kernel is compiled: measured in processes of its own, since a
// process keeps what it has compiled.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/program.h"

namespace ember::bench {

/// The program's first argument in such a process; the others say which call it is. It prints
/// milliseconds.
inline constexpr const char* kOnce = "--once";

inline double in_a_process(const std::string& arguments) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "'" + self + "' " + kOnce + " " + arguments;
  FILE* const output = popen(command.c_str(), "r");
  double time = 0;
  const bool read = output != nullptr && std::fscanf(output, "%lf", &time) == 1;
  if (output == nullptr || pclose(output) != 0 || !read)
    throw std::runtime_error(command + " failed");
  return time;
}

/// A folder for what is compiled, which goes with all that is in it.
struct KernelCache {
  KernelCache() {
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no folder " + path);
    setenv("EMBER_KERNEL_CACHE_PATH", path.c_str(), 1);
    unsetenv("USE_PYTORCH_KERNEL_CACHE");
    setenv("CUDA_CACHE_DISABLE", "1", 1);  // NVRTC keeps what it has compiled, too
  }
  ~KernelCache() { std::filesystem::remove_all(path); }
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;
  /// Without what was compiled.
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      std::filesystem::remove_all(entry);
  }
  std::string path = "/tmp/ember-bench-XXXXXX";
};

}  // namespace ember::bench
