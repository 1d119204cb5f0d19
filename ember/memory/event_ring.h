// The last entries of one device's history.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "ember/memory/history.h"

namespace ember::inline v0::memory {

/// Entries lie in chunks, which are used again once all of their entries are too old: so the memory
/// is that of the most entries that are kept, and a chunk, however many there were. Not
/// thread-safe: it belongs to the ledger's lock.
class EventRing {
 public:
  static constexpr std::size_t kChunk = 1024;

  /// Keeps at most so many from now on.
  void keep(std::size_t most) {
    most_ = most;
    while (count_ > most_) drop_oldest();
  }
  void clear() noexcept {
    chunks_.clear();
    spare_.reset();
    first_ = count_ = 0;
  }
  std::size_t size() const noexcept { return count_; }
  /// How many there were, kept or not.
  std::uint64_t total() const noexcept { return total_; }
  std::size_t chunks() const noexcept { return chunks_.size() + (spare_ != nullptr ? 1 : 0); }

  /// Numbers it, and keeps it; without memory for it, it is only counted.
  void add(cuda::MemoryEvent event) noexcept {
    event.sequence = total_++;
    if (most_ == 0) return;
    if (count_ == most_) drop_oldest();
    const std::size_t at = first_ + count_;
    if (at / kChunk == chunks_.size()) {
      try {
        if (spare_ == nullptr) spare_ = std::make_unique<cuda::MemoryEvent[]>(kChunk);
        chunks_.push_back(std::move(spare_));
      } catch (const std::bad_alloc&) {
        return;
      }
    }
    chunks_[at / kChunk][at % kChunk] = event;
    ++count_;
  }

  /// Oldest first.
  void copy_to(std::vector<cuda::MemoryEvent>& out) const {
    out.reserve(out.size() + count_);
    for (std::size_t at = first_; at < first_ + count_;) {
      const cuda::MemoryEvent* const chunk = chunks_[at / kChunk].get();
      const std::size_t begin = at % kChunk;
      const std::size_t end = std::min(kChunk, begin + (first_ + count_ - at));
      out.insert(out.end(), chunk + begin, chunk + end);
      at += end - begin;
    }
  }

 private:
  void drop_oldest() noexcept {
    --count_;
    if (++first_ < kChunk) return;
    first_ = 0;
    spare_ = std::move(chunks_.front());
    chunks_.pop_front();
  }

  std::deque<std::unique_ptr<cuda::MemoryEvent[]>> chunks_;
  std::unique_ptr<cuda::MemoryEvent[]> spare_;
  std::size_t first_ = 0;  // in the first chunk
  std::size_t count_ = 0, most_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace ember::inline v0::memory
