// Why an allocation failed, as figures, and callbacks that are asked for memory before it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ember/base/export.h"
#include "ember/memory/pool_id.h"

namespace ember::inline v0::cuda {

/// What would make the same call succeed.
enum class OutOfMemoryVerdict : std::uint8_t {
  larger_than_device,  ///< nothing: the device would not have it if it were empty
  over_limit,          ///< a higher limit (set_per_process_memory_fraction), and, where the request
                       ///< alone is beyond the limit and `free` is too little, more free memory
  private_pool,        ///< empty_cache(pool): a private pool holds enough that nobody uses. Behind
                       ///< `leased`: pools of graphs do (has_graphs), once these are reset
  pending,             ///< freed memory that other streams use and that could not be waited for
  fragmented,          ///< defragmentation: enough is free, in segments that blocks in use share
  leased,              ///< processes that have enough of this one's memory give it back
  elsewhere,           ///< what this allocator does not hold, in this process or others, is freed
  in_use,              ///< memory in use is freed: no single one of the above is enough
};
/// Its name as above. Does not block.
EMBER_API const char* to_string(OutOfMemoryVerdict verdict) noexcept;

/// Sizes are bytes. All figures of the allocator are of one moment.
struct OutOfMemoryReport {
  int device = 0;
  std::size_t requested = 0;         ///< what was asked for
  std::size_t segment = 0;           ///< what was asked of the device for that
  MemPoolId pool;                    ///< that it was asked of
  const void* stream = nullptr;      ///< for whose work: native handle
  std::size_t total = 0;             ///< of the device
  std::size_t free = 0;              ///< of the device, for anybody
  std::optional<std::size_t> limit;  ///< of this process, if one was set
  std::size_t allocated = 0;         ///< in use
  std::size_t reserved = 0;          ///< held of the device
  /// How much more had to be free of the device, or below the limit.
  std::size_t missing = 0;
  /// The largest free block that the request could have used: of its stream and pool.
  std::size_t largest_free_block = 0;

  // What is held and not in use, by the reason for which it was not given:
  std::size_t fragmented = 0;     ///< free pieces of segments that are partly in use
  std::size_t private_pools = 0;  ///< free in private pools that are needed, whole segments or not
  std::size_t pending = 0;        ///< freed, but other streams still use it
  std::size_t cached = 0;         ///< whole free segments that could not be given back

  /// A private pool that is needed.
  struct PoolBytes {
    MemPoolId id;
    std::size_t reserved = 0;
    std::size_t free = 0;
    /// Whole segments that nobody uses, which empty_cache(id) gives back; of a pool with graphs
    /// once these are reset, with what their captures still use.
    std::size_t releasable = 0;
    bool has_graphs = false;  ///< graphs were captured with it, or one is being
  };
  std::vector<PoolBytes> pools;

  /// In use only because a process has it that it was sent to; what several have counts for one.
  struct Leased {
    std::int32_t process = 0;
    std::size_t bytes = 0;
  };
  std::vector<Leased> leased;

  /// Held of the device by other than this allocator: total - free - reserved - context.
  std::size_t elsewhere = 0;
  /// What this process holds beside the allocator, such as CUDA's context, if the driver tells.
  std::optional<std::size_t> context;

  /// The thread must not wait for the device (a host function), so nothing was given back.
  bool could_not_wait = false;

  OutOfMemoryVerdict verdict = OutOfMemoryVerdict::in_use;
  /// How much the verdict is about: for larger_than_device the size of the segment, for over_limit
  /// how much it is too low, for elsewhere and in_use what is missing, else what is held for the
  /// reason that it names.
  std::size_t verdict_bytes = 0;
  /// With private_pool: the one that holds most.
  MemPoolId verdict_pool;
};

/// Asked before OutOfMemoryError is thrown, once all else was tried. True: something was freed, so
/// try again.
using OutOfMemoryCallback = std::function<bool(const OutOfMemoryReport& report)>;

/// Adds a callback. Callbacks are asked in the order in which they were added, each once for an
/// allocation and until one has helped, on the thread that allocates and without a lock of the
/// allocator's: one may free, empty caches and ask for counters. What it allocates itself fails
/// without asking callbacks. What one throws is thrown in place of OutOfMemoryError. Returns what
/// to remove it by. ValueError for an empty function. Thread-safe; does not block or initialise.
EMBER_API std::uint64_t add_out_of_memory_callback(OutOfMemoryCallback callback);
/// False if there is none by that number. A call on another thread may still be in progress.
EMBER_API bool remove_out_of_memory_callback(std::uint64_t number);

}  // namespace ember::inline v0::cuda
