#include "ember/memory/thread_cache.h"

#include <algorithm>
#include <utility>

namespace ember::memory {

std::size_t ThreadCache::home(const void* stream, std::size_t size) noexcept {
  const std::uint64_t key = (reinterpret_cast<std::uintptr_t>(stream) >> 4) ^ (size / kMinBlock);
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 57);
}

ThreadCache::Shelf* ThreadCache::find(const void* stream, std::size_t size) noexcept {
  static_assert(kShelves == 128, "home() yields 7 bits");
  const std::size_t first = home(stream, size);
  for (std::size_t i = 0; i < kProbes; ++i) {
    Shelf& shelf = shelves_[(first + i) % kShelves];
    if (shelf.size == size && shelf.stream == stream) return &shelf;
  }
  return nullptr;
}

ThreadCache::Shelf* ThreadCache::find_room(void* stream, std::size_t size) noexcept {
  if (Shelf* shelf = find(stream, size)) return shelf;
  const std::size_t first = home(stream, size);
  for (std::size_t i = 0; i < kProbes; ++i) {
    Shelf& shelf = shelves_[(first + i) % kShelves];
    if (shelf.first != nullptr) continue;
    shelf.stream = stream;
    shelf.size = size;
    return &shelf;
  }
  return nullptr;
}

Block* ThreadCache::pop(Shelf& shelf) noexcept {
  Block* block = shelf.first;
  shelf.first = block->link;
  --shelf.count;
  --blocks_;
  bytes_ -= block->size;
  return block;
}

void ThreadCache::push(Shelf& shelf, Block* block) noexcept {
  block->link = shelf.first;
  shelf.first = block;
  ++shelf.count;
  ++blocks_;
  bytes_ += block->size;
}

std::size_t ThreadCache::room_for(std::size_t size) const noexcept {
  if (blocks_ >= kMaxBlocks || bytes_ >= kMaxBytes) return 0;
  return std::min(kMaxBlocks - blocks_, (kMaxBytes - bytes_) / size);
}

ThreadCache::Taken ThreadCache::take(void* stream, std::size_t size, std::size_t requested) {
  SpinGuard lock(mutex_);
  used_ = true;
  Shelf* shelf = find(stream, size);
  if (shelf == nullptr || shelf->first == nullptr) return {};
  Block* block = pop(*shelf);
  block->requested.store(requested, std::memory_order_relaxed);
  block->begin_use();
  return {block, spend(size, requested)};
}

bool ThreadCache::spend(std::size_t size, std::size_t requested) noexcept {
  const Usage usage{1, static_cast<std::int64_t>(size), static_cast<std::int64_t>(requested)};
  const Pool pool = pool_of(is_small(size));
  if (!credit_[kAll].covers(usage) || !credit_[pool].covers(usage)) return false;
  for (const Pool p : {kAll, pool}) {
    credit_[p] -= usage;
    gained_[p] += usage;
  }
  return true;
}

ThreadCache::Put ThreadCache::keep(Block* block) noexcept {
  if (block->size > kMaxBlockBytes || block->use != nullptr) return Put::refused;
  if (blocks_ >= kMaxBlocks || bytes_ + block->size > kMaxBytes) return Put::full;
  Shelf* shelf = find_room(block->stream, block->size);
  if (shelf == nullptr) return Put::full;
  const Usage usage{1, static_cast<std::int64_t>(block->size),
                    static_cast<std::int64_t>(block->requested_bytes())};
  credit_[kAll] += usage;
  credit_[pool_of(is_small(block->size))] += usage;
  push(*shelf, block);
  return Put::kept;
}

void ThreadCache::lend_half(ThreadCache& borrower) noexcept
    EMBER_THREAD_NOTE(no_thread_safety_analysis) {
  for (const Pool pool : {kAll, kSmall, kLarge}) {
    Usage& spare = credit_[pool];
    const Usage half{spare.blocks / 2, spare.bytes / 2, spare.requested / 2};
    spare -= half;
    borrower.credit_[pool] += half;
  }
}

void ThreadCache::go_on() noexcept {
  operations_left_ = session_length_;
  session_length_ = std::min(2 * session_length_, kLongSession);
}

void ThreadCache::begin_session(std::atomic<int>& active) noexcept {
  go_on();
  SpinGuard lock(mutex_);
  used_ = true;
  if (!session_.exchange(true, std::memory_order_relaxed))
    active.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace ember::memory
