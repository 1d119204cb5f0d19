#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ember/base/export.h"

namespace ember::inline v0::driver {

/// What a device is. Plain values; read once per device and kept.
struct EMBER_API DeviceProperties {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  bool is_multi_gpu_board = false;
  bool is_integrated = false;
  bool simulated = false;
  int multi_processor_count = 0;
  std::size_t total_memory = 0;  ///< bytes
  int max_threads_per_multi_processor = 0;
  int max_threads_per_block = 0;
  int regs_per_multiprocessor = 0;
  int warp_size = 0;
  std::size_t L2_cache_size = 0;                     ///< bytes
  std::size_t shared_memory_per_block = 0;           ///< bytes
  std::size_t shared_memory_per_block_optin = 0;     ///< bytes
  std::size_t shared_memory_per_multiprocessor = 0;  ///< bytes
  int clock_rate = 0;                                ///< kHz
  int memory_clock_rate = 0;                         ///< kHz
  int memory_bus_width = 0;                          ///< bits
  int pci_domain_id = 0;
  int pci_bus_id = 0;
  int pci_device_id = 0;
  std::array<std::uint8_t, 16> uuid{};

  /// "550e8400-e29b-41d4-a716-446655440000": the 36 characters of the UUID.
  std::string uuid_text() const;
  /// `_CudaDeviceProperties(name='...', major=9, minor=0, total_memory=143771MB, ...)`
  std::string str() const;
};

}  // namespace ember::inline v0::driver
