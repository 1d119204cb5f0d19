#include "ember/memory/event_log.h"

#include <algorithm>
#include <limits>
#include <new>

namespace ember::inline v0::memory {

void EventStore::keep(std::size_t most, std::uint32_t skipped) noexcept {
  const MutexLock lock(mutex_);
  most_.store(most, std::memory_order_relaxed);
  skipped_.store(skipped, std::memory_order_relaxed);
  drop_old();
  if (most == 0) spare_.clear();
}

void EventStore::forget(std::uint64_t stamp) noexcept {
  const MutexLock lock(mutex_);
  forgotten_ = std::max(forgotten_, stamp);
  drop_old();
  spare_.clear();
}

EventStore::Entries EventStore::exchange(std::size_t log, Entries full) noexcept {
  const MutexLock lock(mutex_);
  try {
    if (full != nullptr) {
      full_.emplace_back();
      full_.back() = {std::move(full), log};
      // Threads come here about in the order in which they filled theirs.
      for (std::size_t at = full_.size() - 1;
           at > first_ && full_[at - 1].last() > full_[at].last(); --at)
        std::swap(full_[at - 1], full_[at]);
      drop_old();
    }
    if (spare_.empty()) return std::make_unique<cuda::MemoryEvent[]>(kChunk);
    Entries entries = std::move(spare_.back());
    spare_.pop_back();
    return entries;
  } catch (const std::bad_alloc&) {
    return full;  // what could not be entered is lost, and its chunk is used again
  }
}

// Stamps grow within a log. So of each other log at most one chunk has entries both before and
// after the end of the chunk that ends first: all others hold later entries only.
void EventStore::drop_old() noexcept {
  constexpr std::size_t kPartly = (kLogs - 1) * kChunk;
  const std::size_t most = most_.load(std::memory_order_relaxed);
  for (; first_ < full_.size(); ++first_) {
    const std::size_t others = (full_.size() - first_ - 1) * kChunk;
    const bool too_old = others >= kPartly && others - kPartly >= most;
    if (most != 0 && !too_old && full_[first_].last() > forgotten_) break;
    Entries& old = full_[first_].entries;
    if (spare_.size() < kLogs)
      spare_.push_back(std::move(old));
    else
      old.reset();
  }
  if (first_ < full_.size() - first_) return;  // each is moved at most once, on average
  full_.erase(full_.begin(), full_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
}

void EventStore::collect(Runs& runs) {
  const MutexLock lock(mutex_);
  for (std::size_t at = first_; at < full_.size(); ++at)
    runs[full_[at].log].emplace_back(full_[at].entries.get(), kChunk);
}

std::uint64_t EventStore::forgotten() {
  const MutexLock lock(mutex_);
  return forgotten_;
}

std::size_t EventStore::chunks() {
  const MutexLock lock(mutex_);
  return full_.size() - first_ + spare_.size();
}

void merge_runs(const EventStore::Runs& runs, std::uint64_t forgotten, std::size_t most,
                std::vector<cuda::MemoryEvent>& out) {
  constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();
  struct Cursor {
    const std::vector<std::span<const cuda::MemoryEvent>>* run = nullptr;
    std::size_t chunk = 0, at = 0;
    std::uint64_t head() const noexcept {
      return chunk == run->size() ? kEnd : (*run)[chunk][at].sequence;
    }
  };
  std::vector<Cursor> cursors;
  std::size_t entries = 0;
  for (const auto& run : runs) {
    Cursor cursor{&run};
    for (const auto& chunk : run) entries += chunk.size();
    while (cursor.head() <= forgotten) {
      --entries;
      if (++cursor.at < run[cursor.chunk].size()) continue;
      cursor.at = 0;
      ++cursor.chunk;
    }
    if (cursor.head() != kEnd) cursors.push_back(cursor);
  }
  std::size_t skip = entries - std::min(entries, most);
  out.reserve(out.size() + entries - skip);
  while (!cursors.empty()) {
    // What comes next, and up to where it comes from the same log.
    Cursor* first = nullptr;
    std::uint64_t least = kEnd, bound = kEnd;
    for (Cursor& cursor : cursors) {
      const std::uint64_t head = cursor.head();
      if (head < least || first == nullptr) {
        bound = least;
        least = head;
        first = &cursor;
      } else {
        bound = std::min(bound, head);
      }
    }
    const auto& chunk = (*first->run)[first->chunk];
    const std::size_t begin = first->at;
    std::size_t end = begin + 1;
    while (end < chunk.size() && chunk[end].sequence < bound) ++end;
    const std::size_t skipped = std::min(skip, end - begin);
    skip -= skipped;
    out.insert(out.end(), chunk.begin() + static_cast<std::ptrdiff_t>(begin + skipped),
               chunk.begin() + static_cast<std::ptrdiff_t>(end));
    first->at = end;
    if (end < chunk.size()) continue;
    first->at = 0;
    if (++first->chunk == first->run->size())
      cursors.erase(cursors.begin() + (first - cursors.data()));
  }
}

}  // namespace ember::inline v0::memory
