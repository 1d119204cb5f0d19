// Counters of the allocators, as plain values.
#pragma once

#include <cstdint>

namespace ember::inline v0::cuda {

/// One quantity over time: bytes, or a number of things.
struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;       ///< largest value so far, or since the peaks were reset
  std::int64_t allocated = 0;  ///< sum of all increases
  std::int64_t freed = 0;      ///< sum of all decreases

  friend bool operator==(const Counter&, const Counter&) = default;
};

/// A quantity for the whole device and for its two kinds of segments.
struct PoolCounters {
  Counter all, small_pool, large_pool;

  friend bool operator==(const PoolCounters&, const PoolCounters&) = default;
};

/// What the caching allocator of one device counts (chapter 9 of the documents).
struct MemoryCounters {
  PoolCounters allocation;      ///< blocks handed out and not yet freed
  PoolCounters segment;         ///< allocations from the device
  PoolCounters active;          ///< blocks handed out, or freed and waiting for other streams
  PoolCounters inactive_split;  ///< free blocks whose segment is partly in use

  PoolCounters allocated_bytes;  ///< of allocation; rounded sizes, as all of these but the last
  PoolCounters reserved_bytes;   ///< of segment
  PoolCounters active_bytes;
  PoolCounters inactive_split_bytes;
  PoolCounters requested_bytes;  ///< of active, before rounding

  Counter oversize_allocations;  ///< blocks in use that are too large to be split
  Counter oversize_segments;     ///< segments that are

  std::int64_t num_alloc_retries = 0;     ///< times that all cached memory was given back to retry
  std::int64_t num_ooms = 0;              ///< OutOfMemoryErrors
  std::int64_t num_sync_all_streams = 0;  ///< times that all recorded streams were waited for
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;
  /// Blocks of this size and more are never split; -1 if all are. A setting, not a count.
  std::int64_t max_split_size = -1;

  friend bool operator==(const MemoryCounters&, const MemoryCounters&) = default;
};

/// How long calls took, in microseconds.
struct Times {
  std::int64_t count = 0, total = 0, max = 0, min = 0;  ///< no call: zeros

  /// The mean; 0 without a call.
  std::int64_t avg() const noexcept { return count != 0 ? total / count : 0; }
  void add(std::int64_t microseconds) noexcept {
    min = count == 0 || microseconds < min ? microseconds : min;
    max = microseconds > max ? microseconds : max;
    total += microseconds;
    ++count;
  }

  friend bool operator==(const Times&, const Times&) = default;
};

/// What the pinned host allocator counts.
struct PinnedCounters {
  Counter allocations;              ///< segments: what was page-locked at once, in use or not
  Counter allocated_bytes;          ///< of allocations
  Counter active_requests;          ///< blocks handed out, or freed and waiting for streams
  Counter active_bytes;             ///< of active_requests; rounded sizes
  std::int64_t num_host_alloc = 0;  ///< calls of the driver that page-locked memory
  std::int64_t num_host_free = 0;
  Times host_alloc_time, host_free_time;  ///< of these calls

  friend bool operator==(const PinnedCounters&, const PinnedCounters&) = default;
};

}  // namespace ember::inline v0::cuda
