// One piece of a segment, and the pool that Block records come from.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "ember/memory/segment_source.h"
#include "ember/memory/size_policy.h"

namespace ember::inline v0::memory {

struct FreeBlocks;
struct Block;
struct Pool;
struct StreamUse;

/// Memory behind some of the addresses of a segment that grows.
struct SegmentChunk {
  std::size_t bytes = 0;
  bool asleep = false;   ///< what it held is with the host (sleep.cpp), and its memory went
  bool remains = false;  ///< of one asleep: its memory could not be given back
};

/// One allocation of the device's own, and the blocks that it is cut into; or a range of addresses
/// of which some have memory, in chunks: blocks without memory are `unmapped`.
struct Segment {
  std::uintptr_t address = 0;
  std::size_t size = 0;
  Pool* pool = nullptr;
  void* stream = nullptr;             ///< whose work may use it: native handle
  bool small = false;                 ///< holds small blocks
  bool oversize = false;              ///< was too large to be split when it was made
  bool sharable = true;               ///< its free blocks may wait in a shard: it is everybody's
  bool grows = false;                 ///< is a range of addresses
  FreeBlocks* free_blocks = nullptr;  ///< where its blocks go when free; null if they never wait
  Block* first = nullptr;   ///< the others follow by Block::next, in the order of addresses
  std::uint32_t stack = 0;  ///< where it was asked for, while that is tracked
  std::map<std::uintptr_t, SegmentChunk> chunks;  ///< of one that grows, by address

  /// The chunk in which an address of one that grows lies; null if there is none.
  const SegmentChunk* chunk_at(std::uintptr_t position) const noexcept {
    const auto after = chunks.upper_bound(position);
    if (after == chunks.begin()) return nullptr;
    const auto& [start, chunk] = *std::prev(after);
    return position - start < chunk.bytes ? &chunk : nullptr;
  }
  /// Whether an address of one that grows has memory of the device.
  bool maps(std::uintptr_t position) const noexcept {
    const SegmentChunk* const chunk = chunk_at(position);
    return chunk != nullptr && !chunk->asleep;
  }
  bool asleep_at(std::uintptr_t position) const noexcept {
    const SegmentChunk* const chunk = chunk_at(position);
    return chunk != nullptr && chunk->asleep;
  }
  /// How many chunks touch these bytes from outside: 0 to 2.
  int chunks_beside(std::uintptr_t start, std::size_t bytes) const noexcept {
    const bool before = start != address && maps(start - 1);
    return static_cast<int>(before) + static_cast<int>(maps(start + bytes));
  }
  std::size_t bytes_held() const noexcept {
    if (!grows) return size;
    std::size_t held = 0;
    for (const auto& [start, chunk] : chunks)
      if (!chunk.asleep) held += chunk.bytes;
    return held;
  }
  /// How many bytes could be given back if these were free: whole chunks, or all or nothing.
  std::size_t returnable(std::uintptr_t start, std::size_t bytes) const noexcept {
    if (!grows) return bytes == size ? bytes : 0;
    std::size_t whole = 0;
    for (auto chunk = chunks.lower_bound(start);
         chunk != chunks.end() && chunk->first + chunk->second.bytes <= start + bytes; ++chunk)
      if (!chunk->second.asleep) whole += chunk->second.bytes;
    return whole;
  }
};

inline RawMemory raw_memory_of(const Segment& segment, int device, std::uint32_t epoch) noexcept {
  return {device, epoch, segment.stream, segment.size, reinterpret_cast<void*>(segment.address)};
}

/// One use of a block, as it began. A reset of the device ends it at any moment, and then the
/// record may already describe another's memory: so a thread that allocates keeps these, and reads
/// no record.
struct BlockUse {
  Block* block = nullptr;  ///< null: no memory was asked for
  void* address = nullptr;
  std::uint64_t serial = 0;
};

/// The state says what guards everything but the tag: the ledger's lock for blocks that are free,
/// their user for blocks in use, and the thread that claimed a block until it is free or parked.
/// `previous`, `next` and `segment` are always guarded by the ledger's lock.
struct alignas(64) Block {
  enum State : std::uintptr_t {
    unused,     ///< this record describes nothing
    free,       ///< in its free list
    allocated,  ///< handed out
    claimed,    ///< that a thread has claimed: on its way through an allocation or a free
    sharded,    ///< free, kept in a shard (shards.h)
    parked,     ///< freed, but other streams may still use it (stream_uses.h)
    releasing,  ///< its segment, or chunk, is being given back, or is next
    unmapped,   ///< addresses without memory
  };

  /// Address and state in one word (addresses are multiples of 512), and for a block in use the low
  /// bits of its serial, and whether other streams were noted.
  std::atomic<std::uintptr_t> tag{0};
  std::size_t size = 0;
  std::atomic<std::size_t> requested{0};  ///< atomic for snapshots of blocks in use
  /// Which use of this record it is, whatever it describes: never the same twice.
  std::atomic<std::uint64_t> serial{0};
  /// Null once a reset of the device has taken it from under a block that was claimed or parked.
  Segment* segment = nullptr;
  StreamUse* use = nullptr;  ///< other streams that it was used on; the ledger's lock guards it
  Block* link = nullptr;     ///< next in a shard or in the pool of records
  Block* left = nullptr;     ///< children in the free list's tree
  Block* right = nullptr;
  Block** holder = nullptr;   ///< the link of that tree that leads here
  Block* previous = nullptr;  ///< neighbours in the segment
  Block* next = nullptr;
  /// Of a free block: how many searches there had been when it was freed, while garbage is
  /// collected. Of one in use: the stamp of its allocation's entry (event_log.h), if it has one.
  std::uint64_t since = 0;
  bool oversize = false;  ///< counted among the allocations that are too large to be split
  bool at_end = false;    ///< of a free one: in which list it is (free_blocks.h)
  bool watched = false;   ///< whoever frees it tells (free_watch.h); the ledger's lock guards it
  /// Who made the allocation, while that is tracked (tracking.h): of the use with that serial, and
  /// of no other. The ledger's lock guards it.
  struct Origin {
    std::uint16_t tag = 0;
    std::uint32_t stack = 0;
    std::uint64_t serial = 0;
  } origin;

  std::uintptr_t position() const noexcept {
    return tag.load(std::memory_order_relaxed) & ~std::uintptr_t{kMinBlock - 1};
  }
  void* address() const noexcept { return reinterpret_cast<void*>(position()); }
  State state() const noexcept {
    return static_cast<State>(tag.load(std::memory_order_relaxed) & kStates);
  }
  void set(std::uintptr_t position, State state) noexcept {
    tag.store(position | state, std::memory_order_release);
  }
  void set(State state) noexcept { set(position(), state); }
  /// Hands the claimed block out: from here on it is `allocated`, under a new serial.
  BlockUse begin_use(std::size_t bytes) noexcept {
    requested.store(bytes, std::memory_order_relaxed);
    const std::uint64_t number = serial.load(std::memory_order_relaxed) + 1;
    serial.store(number, std::memory_order_relaxed);
    const std::uintptr_t at = position();
    tag.store(in_use(at, number), std::memory_order_release);
    return {this, reinterpret_cast<void*>(at), number};
  }
  Origin origin_of_use() const noexcept {
    return origin.serial == serial.load(std::memory_order_relaxed) ? origin : Origin();
  }
  std::size_t requested_bytes() const noexcept { return requested.load(std::memory_order_relaxed); }
  bool is_split() const noexcept { return previous != nullptr || next != nullptr; }

  /// Takes the block from its user: from here on it is `claimed`. Succeeds for exactly
  /// one caller per allocation, and only if the record still describes `position`: so the caller
  /// may have found the record without any lock, and a pointer freed twice or never allocated
  /// cannot do harm.
  bool claim(std::uintptr_t position) noexcept {
    std::uintptr_t expected = tag.load(std::memory_order_relaxed);
    while ((expected & ~(kSerials | kNoted)) == (position | allocated))
      if (exchange(expected, position | (expected & kNoted) | claimed)) return true;
    return false;
  }
  /// The same for one use only: refused if that has ended, though the block may be in use again.
  /// (The tag holds five bits of the serial, so that nothing can come between the comparison and
  /// the claim but 32 uses at once.)
  bool claim(std::uintptr_t position, std::uint64_t number) noexcept {
    if (serial.load(std::memory_order_relaxed) != number) return false;
    std::uintptr_t expected = in_use(position, number);
    if (exchange(expected, position | claimed)) [[likely]]
      return true;
    return expected == (in_use(position, number) | kNoted) &&
           exchange(expected, position | kNoted | claimed);
  }

  /// Marks a block in use: whoever claims it has to look at `use`, under the ledger's lock. False
  /// if somebody has claimed it.
  bool note_streams() noexcept {
    std::uintptr_t expected = tag.load(std::memory_order_relaxed);
    while ((expected & kStates) == allocated)
      if (exchange(expected, expected | kNoted)) return true;
    return false;
  }
  /// For who has claimed it.
  bool streams_noted() const noexcept {
    return (tag.load(std::memory_order_relaxed) & kNoted) != 0;
  }

 private:
  static constexpr std::uintptr_t kStates = 7, kNoted = 8;
  static constexpr std::uintptr_t kSerials = (kMinBlock - 1) & ~(kStates | kNoted);
  static std::uintptr_t in_use(std::uintptr_t position, std::uint64_t number) noexcept {
    return position | ((number * (2 * kNoted)) & kSerials) | allocated;
  }
  /// `expected` becomes what is there if that is something else.
  bool exchange(std::uintptr_t& expected, std::uintptr_t wanted) noexcept {
    return tag.compare_exchange_strong(expected, wanted, std::memory_order_acquire,
                                       std::memory_order_relaxed);
  }
};

/// Records come from slabs and go back to a list: no heap allocation once warm. The memory stays
/// readable for the pool's life, so that a stale Block* can be looked at (see Block::claim). Not
/// thread-safe.
class BlockPool {
 public:
  Block* take() {
    if (unused_ == nullptr) grow();
    Block* block = unused_;
    unused_ = block->link;
    block->link = nullptr;
    return block;
  }
  void give_back(Block* block) noexcept {
    block->set(0, Block::unused);
    block->oversize = false;
    block->watched = false;
    block->segment = nullptr;
    block->previous = block->next = nullptr;
    block->link = unused_;
    unused_ = block;
  }

 private:
  static constexpr std::size_t kSlab = 128;
  void grow() {
    slabs_.push_back(std::make_unique<Block[]>(kSlab));
    for (std::size_t i = kSlab; i-- > 0;) give_back(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Block[]>> slabs_;
  Block* unused_ = nullptr;
};

}  // namespace ember::inline v0::memory
