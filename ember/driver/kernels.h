// The kernels that ship with the core. Their CUDA implementations live in the CUDA object and are
// bound to them when it is opened, before anything can be launched.
#pragma once

#include <cstdint>
#include <span>

#include "ember/base/export.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::kernels {

/// Spins for a number of clock cycles (on simulated devices: at 1 GHz, so nanoseconds).
struct SleepArgs {
  std::uint64_t cycles = 0;
};
EMBER_API extern Kernel sleep;

/// A table of kernels that have CUDA implementations of the same names. Tables are objects of
/// static duration; making one adds it to those that are bound when the CUDA object is opened. One
/// made later, by a library that was loaded afterwards, stays without CUDA implementations.
class EMBER_API Table {
 public:
  explicit Table(std::span<Kernel> all) noexcept;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

 private:
  friend void bind(CudaImplementation (*implementation)(const char* name)) noexcept;
  std::span<Kernel> kernels_;
  Table* next_;
};

/// Gives every kernel of every table its CUDA implementation.
void bind(CudaImplementation (*implementation)(const char* name)) noexcept;

}  // namespace ember::inline v0::driver::kernels
