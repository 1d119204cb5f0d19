// What the examples print of devices that copy and compute at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "examples/support/intervals.h"

namespace example {

/// What one device did.
struct DeviceWork {
  int device = 0;
  std::uint64_t bytes = 0;  ///< copied
  Timeline copying;         ///< in milliseconds
  Timeline computing;
};

/// A line for each device: bytes, time copying, time computing, time of both at once.
void print_work(const std::vector<DeviceWork>& work);
/// How much of the copying was hidden behind computing, of all devices together.
void print_overlap(const std::vector<DeviceWork>& work);
/// A line for each of the first `used` devices: memory in use, its peak, and what is held.
void print_memory(int used);

}  // namespace example
