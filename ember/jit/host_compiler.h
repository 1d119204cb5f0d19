// The machine's C++ compiler, for kernels of CPU tensors and of simulated devices.
#pragma once

#include <string>
#include <vector>

namespace ember::inline v0::jit {

/// The compiler that CXX names, cut into words at white space; `c++` without it. No shell sees it.
struct HostCompiler {
  std::vector<std::string> words;
  std::string path;                  ///< of the program
  std::vector<std::string> options;  ///< what it is told of the processor
  std::string identity;  ///< differs when another compiler, or other options, would be used
};

/// Looks for the compiler and starts nothing. Error that names it, and CXX, if there is none.
/// `wide`: for a kernel without complex numbers, which may use vectors of 64 bytes where there are
/// some.
HostCompiler find_host_compiler(bool wide);

/// Compiles a text into a shared object, and returns its contents. Error with what the compiler
/// said, which names lines of the user's text, and begins with `what`. Blocks while it runs. What
/// it leaves in TMPDIR, or /tmp, is taken away.
std::string compile_for_host(const HostCompiler& compiler, const std::string& source,
                             const std::string& what);

/// Loads an object that compile_for_host() has made: from `path`, or if that is empty from a
/// temporary file with `contents`. The address of its entry, which stays until the process ends;
/// Error if it cannot be loaded.
void* load_for_host(const std::string& path, const std::string& contents);

/// The end of what a compiler said, if it is long; what a user's error has of it.
std::string shortened(const std::string& log);

}  // namespace ember::inline v0::jit
