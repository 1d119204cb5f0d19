// Who wants to know that memory is gone: graphs, whose replays go on using it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ember/memory/pool_id.h"

namespace ember::inline v0::memory {

/// Memory that was watched, and is gone.
struct GoneMemory {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  const char* how = "freed";  ///< or "unregistered", for page-locked memory of somebody else's
  std::uint64_t stack = 0;    ///< where: stack_text() in base/stack.h
};

/// Watches allocations until they are freed, each once. A block that is watched carries a flag, so
/// that the others cost nothing. Thread-safe; no allocation or free may follow from what it calls.
class FreeWatch {
 public:
  FreeWatch() = default;
  ~FreeWatch();
  FreeWatch(const FreeWatch&) = delete;
  FreeWatch& operator=(const FreeWatch&) = delete;

  /// What an address was found to be.
  enum class Found : std::uint8_t {
    unknown,  ///< no memory of an allocator's that is in use
    in_pool,  ///< device memory of that pool, which is not watched
    device,   ///< other device memory, watched from now on
  };
  /// Watches the allocation in use in which an address lies, unless it is of the pool, which keeps
  /// its memory.
  Found watch(const void* inside, const cuda::MemPoolId& except);
  /// Watches a range that no allocator knows, for tell_gone().
  void watch_range(const void* first, std::size_t bytes) { add(first, bytes); }

  /// How many of them are gone. One load.
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  /// The first of these, at most 64.
  std::vector<GoneMemory> gone() const;

  /// For allocators, under their lock, with the block's flag set: adds one.
  void add(const void* first, std::size_t bytes);

 private:
  friend void tell_gone(const GoneMemory& gone) noexcept;

  std::atomic<std::uint64_t> count_{0};
  std::vector<GoneMemory> gone_;  // guarded by the lock of all
};

/// Whether anything is watched: one load.
bool any_free_watched() noexcept;
/// For whoever gives memory up: those that watch some of it learn that it is gone. May be called
/// under an allocator's lock. Blocks for no longer than another such call.
void tell_gone(const GoneMemory& gone) noexcept;

}  // namespace ember::inline v0::memory
