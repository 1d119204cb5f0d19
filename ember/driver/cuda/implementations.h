// The CUDA implementations of the kernels that the core knows by name (driver/kernels.h). Every .cu
// file brings a table of its own.
#pragma once

#include <cstdint>
#include <span>

#include "ember/driver/kernel.h"
#include "ember/driver/kernels.h"

namespace ember::inline v0::driver::cuda {

struct NamedImplementation {
  const char* name;
  CudaImplementation implementation;  ///< null is allowed: there is none
};

/// One file's implementations. Objects of static duration; making one adds it to those that
/// implementation() knows.
class Implementations {
 public:
  /// `arguments` is what these implementations take: arguments<Args...>(), as their kernels' table.
  Implementations(std::span<const NamedImplementation> implementations,
                  std::uint64_t arguments) noexcept;
  Implementations(const Implementations&) = delete;
  Implementations& operator=(const Implementations&) = delete;

 private:
  friend kernels::Found implementation(const char* kernel) noexcept;
  std::span<const NamedImplementation> implementations_;
  std::uint64_t arguments_;
  Implementations* next_;
};

/// Without an implementation when there is no kernel of this name. Thread-safe.
kernels::Found implementation(const char* kernel) noexcept;

}  // namespace ember::inline v0::driver::cuda
