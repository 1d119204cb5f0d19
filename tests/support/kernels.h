// Kernels for tests, each with a host implementation and (where nvcc was there) a CUDA
// implementation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ember/driver/kernel.h"

namespace ember::test {

/// Tells that it runs, then spins until `flags->open` is set. Both flags are in pinned memory.
struct GateFlags {
  int running = 0;
  int open = 0;
};
struct GateArgs {
  GateFlags* flags;
};
extern const driver::Kernel gate_kernel;

/// data[i] = data[i] * factor + summand, for every i < count.
struct AffineArgs {
  std::uint32_t* data;
  std::size_t count;
  std::uint32_t factor;
  std::uint32_t summand;
};
extern const driver::Kernel affine_kernel;

/// Appends `tag` to a log in device memory: log[0] counts, entries follow. There is room for
/// `entries` of them.
struct LogArgs {
  std::uint32_t* log;
  std::uint32_t tag;
  std::uint32_t entries = 7;
};
extern const driver::Kernel log_kernel;

/// Keeps the whole device busy for about `microseconds`, then appends `tag` to a log.
struct BusyArgs {
  std::uint32_t* log;
  std::uint32_t tag;
  std::uint32_t microseconds;
  std::uint32_t entries = 7;
};
extern const driver::Kernel busy_kernel;

/// target[i] = source[i]: unlike a copy it needs peer access between devices.
struct MoveArgs {
  std::uint32_t* target;
  const std::uint32_t* source;
  std::size_t count;
};
extern const driver::Kernel move_kernel;

/// Writes to an address where no memory is.
struct BadAccessArgs {
  std::uint32_t* address;
};
extern const driver::Kernel bad_access_kernel;

/// Does nothing, and takes no arguments to speak of.
struct NopArgs {
  int unused = 0;
};
extern const driver::Kernel nop_kernel;

}  // namespace ember::test
