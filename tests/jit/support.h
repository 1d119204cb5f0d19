// What tests of kernels from a text share: variables of the environment, folders, and a compiler
// that says when it is started.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "ember/jit/jiterator.h"
#include "tests/ops/support.h"

namespace ember::test {

namespace jiterator = cuda::jiterator;

/// A variable of the environment, until the guard goes.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before;
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    if (value)
      setenv(name_, value->c_str(), 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// A new folder, which goes with all that is in it.
class Folder {
 public:
  Folder() {
    std::string made = testing::TempDir() + "ember-jit-test-XXXXXX";
    if (mkdtemp(made.data()) == nullptr) throw Error("no folder for a test: " + made);
    path_ = made;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// A program that notes each start, and then is another one.
class NotedCompiler {
 public:
  explicit NotedCompiler(const std::string& then = "exec c++ \"$@\"") {
    std::ofstream(path()) << "#!/bin/sh\necho started >> '" << (folder_ / "starts") << "'\n"
                          << then << "\n";
    chmod(path().c_str(), 0700);
  }
  std::string path() const { return folder_ / "compiler"; }
  int starts() const {
    std::ifstream file(folder_ / "starts");
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

 private:
  Folder folder_;
};

/// Whether kernels for `device` come from the machine's C++ compiler.
inline bool is_compiled_for_host(const Tensor& tensor) {
  return !tensor.is_cuda() || cuda::is_simulated();
}

}  // namespace ember::test
