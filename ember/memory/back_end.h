// The small part behind each pool: what becomes of free memory, and where memory comes from.
//
// A BackEnd keeps free memory for later (caching.h), or gives it back at once (direct.h). A
// MemorySource allocates segments and takes them back: the device (segment_source.h), its pool in
// the order of streams (driver_source.h), a program's functions (user_memory.h).
//
// Any of the first goes with any of the second. Everything else is the same for all memory, and
// lies in front (device_allocator.h): the block table and its serials, other streams' uses,
// statistics, limits, history, resets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ember/memory/block.h"
#include "ember/memory/free_blocks.h"
#include "ember/memory/ledger.h"
#include "ember/memory/pool_id.h"
#include "ember/memory/segment_source.h"

namespace ember::inline v0::memory {

class BackEnd;
struct Settings;

/// How a pool serves: cuda::MemPoolOptions.
struct PoolOptions {
  bool use_on_oom = false, no_split = false;
};

/// What a chunk held when its pool fell asleep, in page-locked memory of the host.
struct SavedChunk {
  /// Bytes of the chunk from an offset on. In the host's memory they follow each other.
  struct Piece {
    std::size_t offset = 0, bytes = 0;
  };
  std::vector<Piece> pieces;
  void* host = nullptr;  ///< null: there are no pieces
};

/// Memory that only its own requests are served from. One is for all requests that name none;
/// private ones are for callers that must know where their memory lies.
struct Pool {
  struct Lists {
    FreeBlocks small, large;
    FreeBlocks& of(bool is_small) noexcept { return is_small ? small : large; }
  };

  using Options = PoolOptions;
  Pool(const cuda::MemPoolId& id_, BackEnd& back_end_, MemorySource& memory_,
       const Options& options_ = {})
      : id(id_), back_end(back_end_), memory(memory_), options(options_) {}
  /// Those of one stream, made at first use.
  Lists& lists_of(void* stream) {
    if (last_ == nullptr || last_stream_ != stream) {
      auto& lists = streams[stream];
      if (lists == nullptr) lists = std::make_unique<Lists>();
      last_ = lists.get();
      last_stream_ = stream;
    }
    return *last_;
  }
  void clear() noexcept {
    streams.clear();
    last_ = nullptr;
    segments = 0;
    asleep = false;
    saved.clear();
    lent.clear();
  }

  bool is_private() const noexcept { return id != cuda::MemPoolId(); }
  /// What is asked of the device for a block of that size.
  std::size_t segment_bytes(std::size_t size) const noexcept;

  const cuda::MemPoolId id;  ///< (0, 0): of requests that name none
  BackEnd& back_end;
  MemorySource& memory;
  Options options;
  int users = 1;             ///< none: its memory goes back as soon as it is free
  int holds = 0;             ///< allocations that are in progress
  int graphs = 0;            ///< that may use its free memory, too: it does not go back
  bool had_graphs = false;   ///< whose last replays may be in progress, on any stream
  std::size_t segments = 0;  ///< how many it has, also while one is being given back
  int growths = 0;           ///< times that the device is asked for memory at this moment
  int parking = 0;           ///< blocks on their way to where they wait for streams
  bool asleep = false;       ///< serves nothing: what it held is with the host, or on its way
  bool moving = false;       ///< falls asleep, or wakes, at this moment: nothing of it goes back
  std::map<std::uintptr_t, SavedChunk> saved;  ///< while it sleeps, by the chunk's address
  /// What other pools' allocations got of it (Options::use_on_oom), by position and serial; some of
  /// it has been freed since.
  std::vector<std::pair<std::uintptr_t, std::uint64_t>> lent;
  std::unordered_map<void*, std::unique_ptr<Lists>> streams;

 private:
  Lists* last_ = nullptr;
  void* last_stream_ = nullptr;
};

/// What an allocation asks for.
struct Request {
  std::size_t size = 0;       ///< as BackEnd::block_bytes has it
  std::size_t requested = 0;  ///< as asked
  void* stream = nullptr;
  Pool* pool = nullptr;
  std::size_t chunks = 0;  ///< of a pool that wakes: the bytes of all that it needs
  /// Unless 0: by what is missing alone a segment is to grow, which has to be less than this.
  std::size_t below = 0;
};

/// Decides, and never calls the device: that is done in front, without the ledger's lock. All
/// blocks that come and go here are `claimed`.
class BackEnd {
 public:
  struct Caps {
    bool counts = true;  ///< its memory is in the counters, and under the limit
    bool keeps = true;   ///< free memory is kept, so that freeing makes no call of the device
  };
  virtual ~BackEnd() = default;
  virtual Caps caps() const noexcept = 0;

  /// The size of a block for a request of 1 to kTooLarge - 1 bytes, and what is asked of the device
  /// when there is none.
  virtual std::size_t block_bytes(std::size_t requested) const noexcept = 0;
  virtual std::size_t segment_bytes(std::size_t size) const noexcept = 0;

  /// Whether a segment of that size is never split.
  virtual bool oversize(std::size_t /*bytes*/) const noexcept { return false; }

  /// A free block for the request; null if there is none.
  virtual Block* take(Ledger& ledger, const Request& request) EMBER_REQUIRES(ledger.mutex) = 0;
  /// Makes the one block of a new segment fit the request that it was asked for.
  virtual void fit(Ledger& ledger, Block* whole, const Request& request)
      EMBER_REQUIRES(ledger.mutex) = 0;
  /// Keeps a block that nobody uses any longer; false: its segment is to be given back.
  virtual bool keep(Ledger& ledger, Block* block) EMBER_REQUIRES(ledger.mutex) = 0;

  /// Where a segment grows: `part` gets memory, as one chunk, and free blocks right before and
  /// behind it are claimed as well, since they become one with it.
  struct Growth {
    Block* before = nullptr;
    Block* part = nullptr;  ///< null: nowhere
    Block* after = nullptr;
  };
  /// For a request that no free block serves.
  virtual Growth begin_growth(Ledger&, const Request&) { return {}; }
  /// `part` has memory now: the block that it has become, claimed.
  virtual Block* end_growth(Ledger&, const Growth&) { return nullptr; }
  /// It has not: all is as it was before.
  virtual void cancel_growth(Ledger&, const Growth&) {}
  /// A claimed block of a segment that grows has no memory any more, or not yet. The block that it
  /// has become together with such neighbours.
  virtual Block* set_unmapped(Ledger&, Block* block) { return block; }

  /// Takes what could go back to the device out of the pool's lists, and adds it: the blocks of
  /// whole segments that nobody uses; of those that grow a block for each chunk, and of one without
  /// memory its only block.
  virtual void trim(Ledger& ledger, Pool& pool, std::vector<Block*>& out)
      EMBER_REQUIRES(ledger.mutex) = 0;
  /// Takes as many of the whole segments and chunks out that nobody has used for the longest time
  /// as have `bytes` together. Nothing unless the settings want garbage to be collected.
  virtual void collect(Ledger&, Pool&, std::size_t /*bytes*/, std::vector<Block*>&) {}
  /// Takes just enough whole segments out, of those of the request's stream that are too large to
  /// be split, for a request of that kind.
  virtual void release_oversize(Ledger&, const Request&, std::vector<Block*>&) {}
  /// A block that other streams still use was freed by its user.
  virtual void freed(Ledger&, Block*) {}
  /// From now on. `settings` lives for ever.
  virtual void apply(Ledger&, const Settings& /*settings*/) {}

  /// Before the lists are looked at from outside: all that is free is in them.
  virtual void settle(Ledger& ledger) EMBER_REQUIRES(ledger.mutex) = 0;
  /// All blocks are gone.
  virtual void forget() noexcept = 0;
};

inline std::size_t Pool::segment_bytes(std::size_t size) const noexcept {
  return options.no_split ? size : back_end.segment_bytes(size);
}

}  // namespace ember::inline v0::memory
