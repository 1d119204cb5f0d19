// The CUDA implementations of the kernels that the core knows by name (driver/kernels.h). Every .cu
// file brings a table of its own.
#pragma once

#include <span>

#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::cuda {

struct NamedImplementation {
  const char* name;
  CudaImplementation implementation;  ///< null is allowed: there is none
};

/// One file's implementations. Objects of static duration; making one adds it to those that
/// implementation() knows.
class Implementations {
 public:
  explicit Implementations(std::span<const NamedImplementation> implementations) noexcept;
  Implementations(const Implementations&) = delete;
  Implementations& operator=(const Implementations&) = delete;

 private:
  friend CudaImplementation implementation(const char* kernel) noexcept;
  std::span<const NamedImplementation> implementations_;
  Implementations* next_;
};

/// Null when there is no kernel of this name. Thread-safe.
CudaImplementation implementation(const char* kernel) noexcept;

}  // namespace ember::inline v0::driver::cuda
