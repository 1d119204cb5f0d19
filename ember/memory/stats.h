// What happened in an allocator, and what follows from it for the counters.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ember/memory/counters.h"
#include "ember/memory/pool_id.h"

namespace ember::inline v0::memory {

/// Net change of the free blocks whose segment is partly in use, over one operation.
struct SplitChange {
  std::int64_t blocks = 0;
  std::int64_t bytes = 0;
};

/// One change of state of a device's memory. Every change passes through Ledger::emit(), and
/// everything that counts, reports or remembers listens there.
struct AllocEvent {
  enum class Kind : std::uint8_t {
    allocated,          ///< a block was handed out
    freed,              ///< its user freed it, and no other stream uses it: the next two at once
    free_requested,     ///< its user freed it
    free_completed,     ///< ... and no stream uses it any longer
    stream_recorded,    ///< another stream was noted for a block
    segment_allocated,  ///< memory came from the device
    segment_freed,      ///< ... and went back
    retried,            ///< the device is asked again after everything free was given back
    synchronized_all,   ///< all recorded streams were waited for
    out_of_memory,      ///< an allocation failed; bytes: the segment that it would have taken
  };
  Kind kind;
  bool small = false;  ///< which kind of segment
  const void* stream = nullptr;
  const void* address = nullptr;
  std::size_t bytes = 0;
  std::size_t requested = 0;
  int stream_device = -1;  ///< of a stream that was noted
  bool oversize = false;   ///< a segment that is too large to be split
  bool chunk = false;      ///< of a segment that grows, not a segment
  bool ordered = false;    ///< a segment that comes and goes in the order of its stream
  /// How many segments more there are with that memory: a chunk may join two pieces of a range.
  int segments = 1;
  cuda::MemPoolId pool{};
  std::uint32_t stack = 0;      ///< where a segment was asked for, while that is tracked
  std::size_t device_free = 0;  ///< out_of_memory: bytes
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
  friend Usage operator-(Usage left, const Usage& right) noexcept { return left -= right; }
  friend Usage operator-(const Usage& usage) noexcept { return Usage{} - usage; }
  /// One test of all three: the sign of the differences. (Nothing here comes near 2^63.)
  bool covers(const Usage& other) const noexcept {
    return ((blocks - other.blocks) | (bytes - other.bytes) | (requested - other.requested)) >= 0;
  }
  /// The smaller, or larger, of each.
  static Usage least(const Usage& a, const Usage& b) noexcept {
    return {std::min(a.blocks, b.blocks), std::min(a.bytes, b.bytes),
            std::min(a.requested, b.requested)};
  }
  static Usage most(const Usage& a, const Usage& b) noexcept {
    return {std::max(a.blocks, b.blocks), std::max(a.bytes, b.bytes),
            std::max(a.requested, b.requested)};
  }
};

/// The two kinds of segments that are counted apart, and both together.
enum Kinds : std::uint8_t { kAll, kSmall, kLarge, kKinds };
constexpr Kinds kind_of(bool small) noexcept { return small ? kSmall : kLarge; }

/// Usage by kind; `kAll` is not the sum of the others where it is a limit.
using UsageByKind = std::array<Usage, kKinds>;

/// The counters of one device. Belongs to the ledger's lock; single values can be read without.
///
/// An allocation changes five quantities, for the device and for one kind of segment, and each has
/// a peak. So what is kept is chosen to make that cheap: one level for what is active, of which
/// what waits for other streams is a part, and how high it may rise before any of the five peaks
/// must be raised.
///
/// While shards hold quota, the levels are upper bounds: see Note [Quota] in shards.h.
class Stats {
 public:
  /// One block: allocated, freed, free_requested or free_completed. In place and not by an
  /// AllocEvent, since nothing should be in memory only to be added up.
  [[gnu::always_inline]] void apply(AllocEvent::Kind kind, bool small,
                                    const Usage& usage) noexcept {
    const Kinds which = kind_of(small);
    switch (kind) {
      case AllocEvent::Kind::allocated:
        increased_[which] += usage;
        shift(which, usage);
        shift_allocated(usage.bytes);
        if (!ceiling_[kAll].covers(active_[kAll]) || !ceiling_[which].covers(active_[which]))
            [[unlikely]]
          raise_peaks();
        break;
      case AllocEvent::Kind::freed:
        shift(which, -usage);
        shift_allocated(-usage.bytes);
        break;
      case AllocEvent::Kind::free_requested:
        shift_allocated(-usage.bytes);
        wait(which, usage);
        break;
      case AllocEvent::Kind::free_completed:
        shift(which, -usage);
        wait(which, -usage);
        break;
      default: break;
    }
  }
  /// Everything else.
  void apply(const AllocEvent& event) noexcept;
  /// What an operation has done to the free blocks.
  [[gnu::always_inline]] void apply(bool small, const SplitChange& change) noexcept {
    if (change.blocks == 0 && change.bytes == 0) return;
    for (const Kinds which : {kAll, kind_of(small)}) {
      at(inactive_split, which).change(change.blocks);
      at(inactive_split_bytes, which).change(change.bytes);
    }
  }

  /// Blocks that are too large to be split were handed out (1) or freed (-1).
  void oversize(std::int64_t change) noexcept { oversize_allocations_.change(change); }

  /// Whether one more block of that usage leaves all peaks as they are.
  bool within_peaks(bool small, const Usage& usage) const noexcept;
  /// One of `shares` parts of the usage that fits below all peaks after `next`; zero if nothing
  /// does.
  UsageByKind share_of_room(int shares, bool small, const Usage& next) const noexcept;
  /// Counts usage that has not happened yet as if it had; and the reverse.
  void grant(const UsageByKind& quota) noexcept;
  void recall(const UsageByKind& quota) noexcept;
  /// Adds allocations that were counted against a quota to the sums of increases.
  void add_increases(const UsageByKind& increases) noexcept;

  void reset_peaks() noexcept;
  /// Sums of increases and decreases, and counts of events, begin again at zero.
  void reset_accumulated() noexcept;
  /// The device was reset: nothing is in use or reserved any longer.
  void clear_current() noexcept;
  cuda::MemoryCounters counters() const noexcept;

  std::int64_t allocated() const noexcept { return allocated_.load(kRelaxed); }
  std::int64_t max_allocated() const noexcept { return max_allocated_.load(kRelaxed); }
  std::int64_t reserved() const noexcept { return reserved_.load(kRelaxed); }
  std::int64_t max_reserved() const noexcept { return max_reserved_.load(kRelaxed); }

 private:
  /// Since the beginning.
  cuda::MemoryCounters all_counters() const noexcept;

  static constexpr auto kRelaxed = std::memory_order_relaxed;
  enum Group { inactive_split, inactive_split_bytes, segment, reserved_bytes, kGroups };

  struct Tally {
    std::int64_t current = 0, peak = 0, increased = 0;

    // Without branches: which way they would go cannot be predicted.
    void change(std::int64_t by) noexcept {
      current += by;
      peak = std::max(peak, current);
      increased += std::max(by, std::int64_t{0});
    }
  };

  Tally& at(Group group, Kinds which) noexcept { return tallies_[which][group]; }
  const Tally& at(Group group, Kinds which) const noexcept { return tallies_[which][group]; }
  void shift(Kinds which, const Usage& usage) noexcept {
    active_[which] += usage;
    active_[kAll] += usage;
  }
  void shift_allocated(std::int64_t bytes) noexcept {
    // Written under the lock only, so that plain loads and stores are enough.
    allocated_.store(allocated_.load(kRelaxed) + bytes, kRelaxed);
  }
  void wait(Kinds which, const Usage& usage) noexcept;
  Usage in_use(Kinds which) const noexcept { return active_[which] - waiting_[which]; }
  void raise_peaks() noexcept;
  void find_ceilings() noexcept;
  void publish_reserved() noexcept;

  UsageByKind active_;     // blocks handed out, or freed and waiting for other streams
  UsageByKind ceiling_;    // what active_ may reach without raising a peak
  UsageByKind increased_;  // sum of all allocations; by kind, for the device it is their sum
  std::atomic<std::int64_t> allocated_{0};  // bytes of active_ that do not wait

  UsageByKind waiting_;  // of active_: freed, but other streams may still use it
  UsageByKind active_peak_, in_use_peak_;
  std::atomic<std::int64_t> max_allocated_{0}, reserved_{0}, max_reserved_{0};
  std::array<std::array<Tally, kGroups>, kKinds> tallies_{};
  Tally oversize_allocations_, oversize_segments_;
  cuda::MemoryCounters before_;  // of what is accumulated, from before it began again
  std::int64_t retries_ = 0, ooms_ = 0, syncs_ = 0, device_allocs_ = 0, device_frees_ = 0;
};

}  // namespace ember::inline v0::memory
