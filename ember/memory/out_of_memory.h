// Running out of memory: what is known of it, what is made of that, and who is told or asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ember/driver/telemetry.h"
#include "ember/memory/out_of_memory_report.h"

namespace ember::inline v0::memory {

/// What held the memory when an allocation failed: the report, and what only the text says.
struct OutOfMemory {
  cuda::OutOfMemoryReport report;
  std::uint32_t self = 0;                     ///< this process
  std::vector<driver::GpuProcess> processes;  ///< who holds memory of the device, if known
  std::string refusal;                        ///< who has none left, if it is not the device
  bool ordered = false;                       ///< asked of cudaMallocAsync
  bool grows = false;                         ///< asked for a segment that grows

  struct Cached {
    const void* stream = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Cached> cached;       ///< free bytes of the pool per stream, where there are some
  std::int64_t pending_blocks = 0;  ///< freed, but still used by other streams
  /// Once what is pending was waited for: the bytes of segments that could be given back, and
  /// whether a block would fit.
  std::size_t pending_releasable = 0;
  bool pending_fits = false;
  /// The same once processes have given back what only they use.
  std::size_t leased_releasable = 0;
  bool leased_fits = false;
};

/// What the figures come to: `missing`, `elsewhere`, `context` and the verdict.
void judge(OutOfMemory& what);

/// Calls the observers of cuda::attach_out_of_memory_observer. Hold no lock.
void tell_out_of_memory(const OutOfMemory& what);

/// The documents' text (chapter 12) but for its advice, then what held the memory and what would
/// help. One line, but for cudaMallocAsync.
std::string out_of_memory_text(const OutOfMemory& what);

/// For requests of 2^60 bytes and more: throws OutOfMemoryError. A value with the highest bit set
/// is named as the negative number too that it may have been.
[[noreturn]] void fail_too_large(int device, std::size_t bytes);

/// The callbacks, in the order in which they are to be asked. None on a thread that a callback is
/// running on.
using Callback = std::shared_ptr<const cuda::OutOfMemoryCallback>;
std::vector<Callback> callbacks_to_ask();
/// What the callback says.
bool ask(const Callback& callback, const OutOfMemory& what);

/// A block that another process has, or is to get.
struct LeasedBlock {
  std::uintptr_t address = 0;
  std::int32_t process = 0;  ///< one of those that have it; 0: it is on its way to one
  bool only = true;          ///< it is in use only because of that
};
/// Says which blocks of a device those are. Set by who knows; called without a lock.
using LeasedBlocks = std::vector<LeasedBlock> (*)(int device);
/// Looks after what other processes give back. First, with `seen` zero, after all that has come;
/// after that it waits, for so many milliseconds at most, for more. False if there is nothing new.
using AwaitLeases = bool (*)(std::uint64_t& seen, int milliseconds);
void set_leases(LeasedBlocks blocks, AwaitLeases await) noexcept;
bool await_leases(std::uint64_t& seen, int milliseconds);
/// In the order of addresses.
std::vector<LeasedBlock> leased_blocks(int device);

}  // namespace ember::inline v0::memory
