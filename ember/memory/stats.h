// What happened in an allocator, and what follows from it for the counters.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ember/memory/counters.h"

namespace ember::memory {

/// Net change of the free blocks whose segment is partly in use, over one operation.
struct SplitChange {
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
};

/// One change of state of a caching allocator. Every change passes through
/// CachingAllocator::emit(), and everything that counts, reports or remembers listens there.
struct AllocEvent {
  enum class Kind : std::uint8_t {
    allocated,          ///< a block was handed out
    free_requested,     ///< its user freed it
    free_completed,     ///< ... and no stream uses it any longer
    stream_recorded,    ///< another stream was noted for a block
    cache_flushed,      ///< blocks came back from a thread's cache to the free lists
    segment_allocated,  ///< memory came from the device
    segment_freed,      ///< ... and went back
    retried,            ///< the device is asked again after everything free was given back
    synchronized_all,   ///< all recorded streams were waited for
    out_of_memory,      ///< an allocation failed; bytes: the segment that it would have taken
  };
  Kind kind;
  bool small = false;  ///< which pool
  const void* stream = nullptr;
  const void* address = nullptr;
  std::size_t bytes = 0;
  std::size_t requested = 0;
  SplitChange split{};
};

/// What one block, or several together, add to the counters while in use.
struct Usage {
  std::int64_t blocks = 0, bytes = 0, requested = 0;

  Usage& operator+=(const Usage& other) noexcept {
    blocks += other.blocks, bytes += other.bytes, requested += other.requested;
    return *this;
  }
  Usage& operator-=(const Usage& other) noexcept {
    blocks -= other.blocks, bytes -= other.bytes, requested -= other.requested;
    return *this;
  }
  bool covers(const Usage& other) const noexcept {
    return blocks >= other.blocks && bytes >= other.bytes && requested >= other.requested;
  }
};

enum Pool : std::uint8_t { kAll, kSmall, kLarge, kPools };
constexpr Pool pool_of(bool small) noexcept { return small ? kSmall : kLarge; }

/// Usage per pool; `kAll` is not the sum of the others where it is a limit.
using PoolUsage = std::array<Usage, kPools>;

/// The counters of one device. Belongs to the allocator's lock; single values can be read without.
///
/// While credit is lent to threads' caches, the current values of what those caches change
/// (allocation, active and requested) are upper bounds: see Note [Peak credits] in thread_cache.h.
class Stats {
 public:
  /// In place, so that where the kind is known only its counters remain.
  void apply(const AllocEvent& event) noexcept {
    const auto bytes = static_cast<std::int64_t>(event.bytes);
    const auto requested = static_cast<std::int64_t>(event.requested);
    switch (event.kind) {
      case AllocEvent::Kind::allocated:
        grow(event.small, allocation, 1);
        grow(event.small, allocated_bytes, bytes);
        grow(event.small, active, 1);
        grow(event.small, active_bytes, bytes);
        grow(event.small, requested_bytes, requested);
        break;
      case AllocEvent::Kind::free_requested:
        shrink(event.small, allocation, 1);
        shrink(event.small, allocated_bytes, bytes);
        break;
      case AllocEvent::Kind::free_completed:
        shrink(event.small, active, 1);
        shrink(event.small, active_bytes, bytes);
        shrink(event.small, requested_bytes, requested);
        break;
      default: apply_rare(event);
    }
    if (event.split.blocks != 0) change(event.small, inactive_split, event.split.blocks);
    if (event.split.bytes != 0) change(event.small, inactive_split_bytes, event.split.bytes);
  }

  /// Whether one more block of that usage leaves all peaks as they are.
  bool within_peaks(bool small, const Usage& usage) const noexcept;
  /// One of `shares` parts of the usage that fits below all peaks after `next`; zero if nothing
  /// does.
  PoolUsage share_of_room(int shares, bool small, const Usage& next) const noexcept;
  /// Counts usage that has not happened yet as if it had; and the reverse.
  void lend(const PoolUsage& credit) noexcept;
  void take_back(const PoolUsage& credit) noexcept;
  /// Notes allocations that were paid from credit in the sums of increases.
  void add_increases(const PoolUsage& gained) noexcept;

  void reset_peaks() noexcept;
  /// The device was reset: nothing is in use or reserved any longer.
  void clear_current() noexcept;
  cuda::MemoryCounters counters() const noexcept;

  std::int64_t allocated() const noexcept {
    return at(allocated_bytes, kAll).current.load(kRelaxed);
  }
  std::int64_t max_allocated() const noexcept {
    return at(allocated_bytes, kAll).peak.load(kRelaxed);
  }
  std::int64_t reserved() const noexcept { return at(reserved_bytes, kAll).current.load(kRelaxed); }
  std::int64_t max_reserved() const noexcept {
    return at(reserved_bytes, kAll).peak.load(kRelaxed);
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // The first five are what caches of threads change without the allocator's lock.
  enum Group {
    allocation,
    allocated_bytes,
    active,
    active_bytes,
    requested_bytes,
    kLendable,
    segment = kLendable,
    reserved_bytes,
    inactive_split,
    inactive_split_bytes,
    kGroups
  };

  // Written under the lock only, so that plain loads and stores are enough.
  struct Tally {
    std::atomic<std::int64_t> current{0}, peak{0};
    std::int64_t increased = 0;  // of a pool; for the whole device it is the sum

    void grow(std::int64_t by) noexcept {
      const std::int64_t now = current.load(kRelaxed) + by;
      current.store(now, kRelaxed);
      if (now > peak.load(kRelaxed)) peak.store(now, kRelaxed);
    }
    void shift(std::int64_t change) noexcept {
      current.store(current.load(kRelaxed) + change, kRelaxed);
    }
    std::int64_t headroom() const noexcept { return peak.load(kRelaxed) - current.load(kRelaxed); }
  };

  Tally& at(Group group, Pool pool) noexcept { return tallies_[pool][group]; }
  const Tally& at(Group group, Pool pool) const noexcept { return tallies_[pool][group]; }
  void grow(bool small, Group group, std::int64_t by) noexcept {
    at(group, kAll).grow(by);
    Tally& pool = at(group, pool_of(small));
    pool.grow(by);
    pool.increased += by;
  }
  void shrink(bool small, Group group, std::int64_t by) noexcept {
    at(group, kAll).shift(-by);
    at(group, pool_of(small)).shift(-by);
  }
  void change(bool small, Group group, std::int64_t by) noexcept {
    if (by > 0)
      grow(small, group, by);
    else
      shrink(small, group, -by);
  }
  void apply_rare(const AllocEvent& event) noexcept;
  Usage headroom(Pool pool) const noexcept;
  cuda::PoolCounters read(Group group) const noexcept;

  std::array<std::array<Tally, kGroups>, kPools> tallies_;
  std::int64_t retries_ = 0, ooms_ = 0, syncs_ = 0, device_allocs_ = 0, device_frees_ = 0;
};

}  // namespace ember::memory
