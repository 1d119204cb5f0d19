// The two kernels, each with a host implementation (simulated devices) and a CUDA implementation
// (real ones).
#pragma once

#include <cstdint>

#include "ember/driver/kernel.h"

namespace overlap {

/// What the kernels find out about one chunk, in device memory. Zero it before launching them.
struct ChunkResult {
  std::uint32_t histogram[256];
  std::uint32_t crc;
};

/// Arguments of both. `data` is aligned to 16 bytes.
struct ChunkArgs {
  const std::uint8_t* data;
  std::uint32_t bytes;
  ChunkResult* result;
};

/// Counts the chunk's byte values.
extern const ember::driver::Kernel histogram_kernel;
/// Computes the chunk's CRC-32.
extern const ember::driver::Kernel crc_kernel;

}  // namespace overlap
