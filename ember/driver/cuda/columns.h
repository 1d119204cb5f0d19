// The CUDA columns of the kernels that the core knows by name (driver/kernels.h). Every .cu file
// brings a table of its own.
#pragma once

#include <span>

#include "ember/driver/kernel.h"

namespace ember::driver::cuda {

struct NamedColumn {
  const char* name;
  CudaColumn column;  ///< null is allowed: there is none
};

/// One file's columns. Objects of static duration; making one adds it to those that column() knows.
class Columns {
 public:
  explicit Columns(std::span<const NamedColumn> columns) noexcept;
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

 private:
  friend CudaColumn column(const char* kernel) noexcept;
  std::span<const NamedColumn> columns_;
  Columns* next_;
};

/// Null when there is no kernel of this name. Thread-safe.
CudaColumn column(const char* kernel) noexcept;

}  // namespace ember::driver::cuda
