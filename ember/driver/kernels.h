// The kernels that ship with the core. Their CUDA implementations live in the CUDA object and are
// bound to them when it is opened, before anything can be launched.
#pragma once

#include <cstdint>
#include <span>

#include "ember/base/export.h"
#include "ember/base/status.h"
#include "ember/driver/arguments.h"
#include "ember/driver/kernel.h"

namespace ember::inline v0::driver::kernels {

/// Spins for a number of clock cycles (on simulated devices: at 1 GHz, so nanoseconds).
struct SleepArgs {
  std::uint64_t cycles = 0;
};
EMBER_ARGUMENTS(SleepArgs, EMBER_FIELD(cycles))
EMBER_API extern Kernel sleep;

/// What the CUDA object has under the name of a kernel.
struct Found {
  CudaImplementation implementation;  ///< null: it has none
  std::uint64_t arguments = 0;        ///< what the implementation takes
};

/// A table of kernels that have CUDA implementations of the same names. Tables are objects of
/// static duration; making one adds it to those that are bound when the CUDA object is opened. One
/// made later, by a library that was loaded afterwards, stays without CUDA implementations.
class EMBER_API Table {
 public:
  /// `arguments` is what these kernels take: arguments<Args...>().
  Table(std::span<Kernel> all, std::uint64_t arguments) noexcept;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

 private:
  friend Status check(Found (*find)(const char* name));
  friend void bind(Found (*find)(const char* name)) noexcept;
  std::span<Kernel> kernels_;
  std::uint64_t arguments_;
  Table* next_;
};

/// Fails if an implementation that `find` knows takes other arguments than the kernel of its name.
Status check(Found (*find)(const char* name));
/// Gives every kernel of every table its CUDA implementation.
void bind(Found (*find)(const char* name)) noexcept;

}  // namespace ember::inline v0::driver::kernels
