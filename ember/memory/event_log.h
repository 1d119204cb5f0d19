// The entries of one device's history, as several threads write them at once.
//
// Note [Order of entries]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Each log has one lock, which its writers hold anyway: the ledger's, or a shard's. So no entry
// costs a lock, or a line of the cache, that threads share. What the whole device's order is comes
// out when somebody looks. For that every entry has a stamp:
//
//   - It is the time (in nanoseconds) at which the operation began, but later than the log's last
//     stamp. Within a log, stamps grow.
//   - A free's is later than that of its allocation, which the block keeps (Block::since), whatever
//     the clock says and whichever log has it.
//   - A log that gets memory from another one (the ledger from a shard, which is the only way) is
//     raised to the other's last stamp. So what becomes of memory that was freed comes after that
//     free.
//   - Whoever looks raises all logs to the last stamp that was seen. So an entry's place in the
//     order is the same for ever, and is what its number says.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/history.h"

namespace ember::inline v0::memory {

/// Full chunks of entries, and what the logs of one device are to keep. Thread-safe. While entries
/// are in a log or here, MemoryEvent::sequence is their stamp.
class EventStore {
 public:
  static constexpr std::size_t kChunk = 256;  ///< entries
  static constexpr std::size_t kLogs = 17;
  using Entries = std::unique_ptr<cuda::MemoryEvent[]>;
  /// Of each log what is kept, oldest first.
  using Runs = std::array<std::vector<std::span<const cuda::MemoryEvent>>, kLogs>;

  EventStore() { spare_.reserve(kLogs); }
  bool has_entry(std::size_t action) const noexcept {
    return (skipped_.load(std::memory_order_relaxed) >> action & 1) == 0;
  }
  std::size_t most() const noexcept { return most_.load(std::memory_order_relaxed); }

  /// From now on: at most so many entries; a bit for each action that gets none.
  void keep(std::size_t most, std::uint32_t skipped) noexcept;
  /// Nothing up to this stamp is wanted any longer.
  void forget(std::uint64_t stamp) noexcept;
  /// Takes a log's full chunk (null: there was none) for an empty one; null if there is no memory.
  /// Gives up what is certainly too old: so the memory is that of the most entries that are kept,
  /// and of two chunks for each log, however many entries there were.
  Entries exchange(std::size_t log, Entries full) noexcept;
  /// Adds the full chunks. They stay as long as no log writes.
  void collect(Runs& runs);
  std::uint64_t forgotten();
  /// How many there are, in use or to be used again.
  std::size_t chunks();

 private:
  struct Full {
    Entries entries;
    std::size_t log = 0;
    std::uint64_t last() const noexcept { return entries[kChunk - 1].sequence; }
  };
  void drop_old() noexcept EMBER_REQUIRES(mutex_);

  std::atomic<std::size_t> most_{0};
  std::atomic<std::uint32_t> skipped_{0};
  alignas(64) Mutex mutex_;  // after the locks of logs
  // In the order of their last entries.
  std::vector<Full> full_ EMBER_GUARDED_BY(mutex_);
  std::size_t first_ EMBER_GUARDED_BY(mutex_) = 0;  // those before it are gone
  std::vector<Entries> spare_ EMBER_GUARDED_BY(mutex_);
  std::uint64_t forgotten_ EMBER_GUARDED_BY(mutex_) = 0;
};

/// Entries in the order of their stamps. Not thread-safe.
class EventLog {
 public:
  /// Before anything else. `number`: which log of the store it is.
  void open(EventStore& store, std::size_t number) noexcept {
    store_ = &store;
    number_ = number;
  }

  /// Keeps it, at that time or, where the log is further, or `after` is, later; returns its stamp.
  /// 0 for an action that gets no entry. Without memory for it, it is only counted.
  std::uint64_t add(cuda::MemoryEvent::Action action, cuda::MemoryEvent event,
                    std::uint64_t time_ns, std::uint64_t after = 0) noexcept {
    const auto number = static_cast<std::uint8_t>(action);
    if (!store_->has_entry(number)) return 0;
    last_ = std::max({time_ns, after + 1, last_ + 1});
    ++total_;
    if (store_->most() == 0) return last_;
    if (entries_ == nullptr && (entries_ = store_->exchange(number_, nullptr)) == nullptr)
      return last_;
    event.sequence = last_;
    event.time_us = time_ns / 1000 & ((std::uint64_t{1} << 56) - 1);
    event.kind = number;
    entries_[count_++] = event;
    if (count_ == EventStore::kChunk) {
      count_ = 0;
      entries_ = store_->exchange(number_, std::move(entries_));
    }
    return last_;
  }

  /// Stamps from now on are later than that.
  void raise(std::uint64_t stamp) noexcept { last_ = std::max(last_, stamp); }
  std::uint64_t last() const noexcept { return last_; }
  /// How many there were, kept or not.
  std::uint64_t total() const noexcept { return total_; }
  void forget() noexcept {
    entries_.reset();
    count_ = 0;
  }
  /// What is not in the store yet. To be called after EventStore::collect().
  void collect(EventStore::Runs& runs) const {
    if (count_ != 0) runs[number_].emplace_back(entries_.get(), count_);
  }

 private:
  EventStore* store_ = nullptr;
  std::size_t number_ = 0;
  EventStore::Entries entries_;
  std::size_t count_ = 0;
  std::uint64_t last_ = 0, total_ = 0;
};

/// The last `most` entries of all runs that are later than `forgotten`, in the order of their
/// stamps, of those of equal ones the lower log's first: added to `out`.
void merge_runs(const EventStore::Runs& runs, std::uint64_t forgotten, std::size_t most,
                std::vector<cuda::MemoryEvent>& out);

}  // namespace ember::inline v0::memory
