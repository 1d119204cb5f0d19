// Numbers in place of pointers: a handle that is foreign, stale or plain garbage is recognised
// instead of followed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "ember/base/mutex.h"

namespace ember::inline v0::driver::sim {

/// Objects by handle. Finding takes no lock. Objects are kept for ever and used again once
/// T::reusable() says so, so a pointer that was found stays valid memory even if the handle is
/// released in the meantime. Handles are even and never null; none comes twice before renew().
template <class T>
class HandleTable {
 public:
  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() {
    for (std::atomic<Chunk*>& chunk : chunks_) delete chunk.load();
  }

  /// A released object that is reusable and that `fits`, or a new one from `make()`; its handle in
  /// `native`. `prepare(object)` begins its new life before anybody can find it. Null when the
  /// table is full.
  template <class Fits, class Make, class Prepare>
  T* acquire(void*& native, const Fits& fits, const Make& make, const Prepare& prepare) {
    const MutexLock lock(mutex_);
    if (free_slots_.empty() && size_ == kChunks * kChunkSize) return nullptr;
    T* object = take_idle(fits);
    if (object == nullptr) {
      objects_.push_back(make());
      object = objects_.back().get();
    }
    prepare(*object);
    native = open(take_slot(), *object);
    return object;
  }

  /// The object of a live handle, or null.
  T* find(const void* native) const noexcept {
    const Place place = place_of(native);
    if (place.slot >= kChunks * kChunkSize) return nullptr;
    Chunk* chunk = chunks_[place.slot / kChunkSize].load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    Slot& slot = (*chunk)[place.slot % kChunkSize];
    const std::uint32_t live = slot.live.load(std::memory_order_acquire);
    return live == place.generation ? slot.object.load(std::memory_order_relaxed) : nullptr;
  }

  /// Ends a handle; null when it was not live.
  T* release(const void* native) {
    const MutexLock lock(mutex_);
    T* object = find(native);
    if (object == nullptr) return nullptr;
    const std::size_t slot = place_of(native).slot;
    at(slot).live.store(0, std::memory_order_release);
    idle_.push_back(object);
    free_slots_.push_back(slot);
    return object;
  }

  /// From now on handles come as in a new table, but for those that are live; handles that were
  /// released before may come again. Costs as much as was released since the last time, unless
  /// handles were live then that are released now.
  void renew() {
    const MutexLock lock(mutex_);
    const auto changed = free_slots_.begin() + static_cast<std::ptrdiff_t>(untouched_);
    for (auto slot = changed; slot != free_slots_.end(); ++slot) at(*slot).generation = 0;
    std::sort(changed, free_slots_.end(), std::greater<>());
    if (changed != free_slots_.begin() && changed != free_slots_.end() &&
        *std::prev(changed) < *changed)
      std::inplace_merge(free_slots_.begin(), changed, free_slots_.end(), std::greater<>());
    untouched_ = free_slots_.size();
  }

  /// Calls `each(native, object)` for every live handle.
  template <class Each>
  void for_each(const Each& each) {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < size_; ++i)
      if (const std::uint32_t live = at(i).live.load(); live != 0)
        each(handle(i, live), *at(i).object.load());
  }

 private:
  static constexpr std::size_t kChunkSize = 256;
  static constexpr std::size_t kChunks = 4096;

  struct Slot {
    std::atomic<T*> object{nullptr};
    std::uint32_t generation = 0;
    std::atomic<std::uint32_t> live{0};  // the generation in use; zero when there is none
  };
  using Chunk = std::array<Slot, kChunkSize>;

  struct Place {
    std::size_t slot;
    std::uint32_t generation;
  };

  // Bits 1 to 31 of a handle hold the slot, bits 32 to 63 the generation (never zero).
  static void* handle(std::size_t slot, std::uint32_t generation) noexcept {
    const std::uint64_t bits = (std::uint64_t{generation} << 32) | (slot << 1);
    return reinterpret_cast<void*>(bits);  // NOLINT: a number, never followed
  }
  static Place place_of(const void* native) noexcept {
    const auto bits = reinterpret_cast<std::uint64_t>(native);
    if ((bits & 1) != 0 || bits >> 32 == 0) return {kChunks * kChunkSize, 0};
    return {(bits & 0xffffffff) >> 1, static_cast<std::uint32_t>(bits >> 32)};
  }

  Slot& at(std::size_t slot) {
    return (*chunks_[slot / kChunkSize].load(std::memory_order_relaxed))[slot % kChunkSize];
  }
  /// The last released object that fits and is reusable, or null.
  template <class Fits>
  T* take_idle(const Fits& fits) EMBER_REQUIRES(mutex_) {
    for (std::size_t i = idle_.size(); i-- > 0;) {
      T* candidate = idle_[i];
      if (!fits(*candidate) || !candidate->reusable()) continue;
      idle_[i] = idle_.back();
      idle_.pop_back();
      return candidate;
    }
    return nullptr;
  }
  /// The last released slot, or a new one; there must be room.
  std::size_t take_slot() EMBER_REQUIRES(mutex_) {
    if (!free_slots_.empty()) {
      const std::size_t slot = free_slots_.back();
      free_slots_.pop_back();
      untouched_ = std::min(untouched_, free_slots_.size());
      return slot;
    }
    std::atomic<Chunk*>& chunk = chunks_[size_ / kChunkSize];
    if (chunk.load(std::memory_order_relaxed) == nullptr)
      chunk.store(new Chunk, std::memory_order_release);
    return size_++;
  }
  void* open(std::size_t index, T& object) {
    Slot& slot = at(index);
    slot.object.store(&object, std::memory_order_relaxed);
    // Handles stay positive as 64-bit numbers, as real ones are.
    slot.generation = slot.generation % 0x7ffffffe + 1;
    slot.live.store(slot.generation, std::memory_order_release);
    return handle(index, slot.generation);
  }

  Mutex mutex_;
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::size_t size_ EMBER_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<T>> objects_ EMBER_GUARDED_BY(mutex_);  // all that were made
  std::vector<T*> idle_ EMBER_GUARDED_BY(mutex_);                     // those that were released
  std::vector<std::size_t> free_slots_ EMBER_GUARDED_BY(mutex_);
  std::size_t untouched_ EMBER_GUARDED_BY(mutex_) = 0;  // of these, at their begin, since renew()
};

}  // namespace ember::inline v0::driver::sim
