// The text of OutOfMemoryError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ember/driver/handles.h"
#include "ember/driver/telemetry.h"

namespace ember::inline v0::memory {

/// What held the memory when an allocation failed. Sizes are bytes.
struct OutOfMemory {
  int device = 0;
  std::size_t segment = 0;    ///< what was asked of the device
  std::size_t requested = 0;  ///< what the user asked for
  driver::MemoryInfo info;
  std::uint32_t self = 0;                     ///< this process
  std::vector<driver::GpuProcess> processes;  ///< who holds memory of the device, if known
  std::optional<std::size_t> limit;           ///< of this process, if a fraction was set
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;

  // Beyond the documents' text:
  struct Cached {
    void* stream = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Cached> cached;       ///< free bytes per stream, only the streams that have some
  std::size_t largest_cached = 0;   ///< largest free block of the request's own stream and pool
  std::int64_t waiting_blocks = 0;  ///< freed, but still used by other streams
  std::int64_t waiting_bytes = 0;
  bool could_not_wait = false;  ///< cached memory was not given back: the thread must not wait
};

/// Calls the observers of cuda::attach_out_of_memory_observer. Hold no lock.
void tell_out_of_memory(const OutOfMemory& what);

/// One line: the documents' text (chapter 12) but for its advice, then what held the memory.
std::string out_of_memory_text(const OutOfMemory& what);

/// The text for requests of 2^60 bytes and more; a value with the highest bit set is named as the
/// negative number too that it may have been.
std::string too_large_text(std::size_t bytes);

}  // namespace ember::inline v0::memory
