// The allocator of one device: chapter 8 of the documents.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "ember/base/mutex.h"
#include "ember/memory/back_end.h"
#include "ember/memory/direct.h"
#include "ember/memory/events.h"
#include "ember/memory/free_watch.h"
#include "ember/memory/ledger.h"
#include "ember/memory/out_of_memory.h"
#include "ember/memory/routing.h"
#include "ember/memory/segment_source.h"
#include "ember/memory/settings.h"
#include "ember/memory/stream_uses.h"

namespace ember::inline v0::memory {

/// A segment and its blocks, as they were at one moment.
struct SegmentView {
  struct BlockView {
    std::uintptr_t address = 0;
    std::size_t size = 0;
    std::size_t requested = 0;
    Block::State state = Block::free;
    Block::Origin origin;  ///< nothing unless it was tracked
  };
  std::uintptr_t address = 0;
  std::size_t size = 0;
  bool small = false;
  void* stream = nullptr;
  cuda::MemPoolId pool;
  std::vector<BlockView> blocks;  // in the order of addresses
  std::uint32_t stack = 0;        // where it was asked for, if that was tracked
  bool grows = false;             // is all memory without a gap of a segment that grows
  bool asleep = false;            // is all that sleeps without a gap there: it has no memory
};

/// Thread-safe. What is the same for all memory is here: the steps of an allocation, other streams'
/// uses, limits and resets. What becomes of free memory is decided by the back end.
///
/// While the ledger's lock is held, the source is asked for nothing but its epoch, so several
/// threads may grow at once.
/// Two locks are held while the source waits: reclaim_, and the turn of uses_, in this order. A
/// thread that the source must not keep waiting (a host function) takes neither.
///
/// Resets need no call: the first thread that comes after a reset of the device finds its epoch
/// passed, and clears the ledger (renew). Blocks that threads have claimed at that moment, they
/// drop when they look again.
class DeviceAllocator {
 public:
  /// `source` and `events` must outlive the allocator, and so must `memory`: where segments come
  /// from, null for the device itself.
  DeviceAllocator(int device, SegmentSource& source, EventPool& events,
                  std::unique_ptr<BackEnd> back_end, MemorySource* memory = nullptr);
  /// Gives every segment back, whether in use or not. No other call may be in progress.
  ~DeviceAllocator();
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  /// A block of at least `bytes` for work on `stream`; none for zero bytes. Without a pool, from
  /// the one that route() has for the thread or the stream, else everybody's. May block while the
  /// device is asked for memory, and for work that uses freed memory when there is none left.
  /// Throws OutOfMemoryError, also where it would have to wait and must not; AcceleratorError when
  /// the device reports anything else; and what MemorySource::fail does.
  BlockUse allocate(std::size_t bytes, void* stream, Pool* pool = nullptr);

  /// Frees the block in use that begins at `address`; false if there is none. Never fails
  /// otherwise. Blocks only where the back end keeps nothing: until the device is done with it.
  /// (Where that must not be waited for, it is given back by a later call.)
  bool free(void* address) noexcept;
  /// The same for callers that kept the record and its serial; if that use has ended, it is
  /// refused.
  bool free(Block* block, void* address, std::uint64_t serial) noexcept;

  /// Notes that work on another stream uses the block in use that contains `inside`: it will not be
  /// reused until the work that is on that stream at free() is done. False, and nothing else, for
  /// memory that is not in use here.
  bool record_stream(const void* inside, const driver::StreamHandle& stream);

  /// If the block in use that contains `inside` is of another pool than that, its free is told to
  /// `watch`, which is added to its watchers (free_watch.h).
  FreeWatch::Found watch_free(const void* inside, const cuda::MemPoolId& except, FreeWatch& watch);

  /// Waits for blocks that other streams use, and gives all unsplit free segments back. Failed: the
  /// first error; everything that could be given back has been. not_permitted, without a wait, from
  /// a thread for which the source must not wait.
  Status empty_cache();
  /// The same for the segments of one pool only; nothing if there is none.
  Status empty_cache(const cuda::MemPoolId& pool);

  /// A pool of its own. It, its blocks in use and its free memory stay until release_pool().
  Pool* make_pool(const Pool::Options& options = {});
  /// The pool of that id, which is made if there is none. It stays until a release_pool() for each
  /// of these.
  /// `memory`: where its segments come from, null for where the others' do.
  Pool* retain_pool(const cuda::MemPoolId& id, const Pool::Options& options,
                    MemorySource* memory = nullptr);
  /// What is free in the pool goes back with the next empty_cache(), what is in use after it. The
  /// pool must not be named again.
  void release_pool(Pool* pool);
  /// retain_pool() for a graph, whose replays use what was free in the end, too: no free memory of
  /// the pool goes back until release_pool(id).
  Pool* retain_for_graph(const cuda::MemPoolId& id);
  /// The same by its id; false if no graph needs such a pool.
  bool release_pool(const cuda::MemPoolId& id);
  int users_of(const Pool& pool);

  /// See cuda::MemPool. The pool must be needed until they return.
  void offload(Pool& pool);
  void restore(Pool& pool);
  bool is_asleep(const Pool& pool);
  /// Whether an address lies in memory that sleeps.
  bool is_asleep(const void* address);

  /// From now on, requests of the calling thread that name no pool are served from `pool`, which
  /// must be needed until end_route(number). The last route of a thread counts.
  std::uint64_t route(Pool* pool);
  /// The same for requests of all threads for streams that `filter` accepts, after those of the
  /// thread. It is called under a lock that is taken before the ledger's. 0 if there is such a
  /// route to the pool already.
  std::uint64_t route(Pool* pool, std::function<bool(const void*)> filter);
  void end_route(std::uint64_t number) noexcept;
  /// Ends the route with a filter to that pool; false if there is none.
  bool end_route(const cuda::MemPoolId& id) noexcept;

  /// Most that the allocator may hold, in bytes; kNoLimit for no limit.
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  void set_limit(std::size_t bytes);
  /// The same as a part of the device's memory, which has `total` bytes; and what was set.
  void set_fraction(double fraction, std::size_t total);
  double fraction() const noexcept { return fraction_.load(std::memory_order_relaxed); }

  /// From now on. `settings` must outlive the allocator. What is in use stays as it is.
  void apply(const Settings& settings);

  /// Whether the lock was contended lately: threads keep free blocks apart (shards.h).
  bool contended() const noexcept { return ledger_.shards.open(); }

  /// Whether a segment contains the address.
  bool holds(const void* address);
  /// Whether it lies in memory of a segment that grows, asleep or not.
  bool is_in_growing(const void* address);
  /// Whether freed memory stays here, to be used again.
  bool keeps() const noexcept { return caps_.keeps; }

  /// How often the device was reset. Memory that was allocated before the last time is gone.
  std::uint32_t device_epoch() const noexcept { return source_.epoch(); }

  /// Bytes in use, exact. One load, except while threads compete, or right after a reset.
  std::int64_t allocated();
  std::int64_t max_allocated();
  std::int64_t reserved();
  std::int64_t max_reserved();
  /// All counters, of one moment.
  cuda::MemoryCounters counters();
  void reset_peaks();
  void reset_accumulated();
  /// All segments in the order of addresses; or those of one pool.
  std::vector<SegmentView> snapshot(const std::optional<cuda::MemPoolId>& pool = {});
  /// The same, and the history of that moment, whose last entry is the snapshot: added to `events`.
  std::vector<SegmentView> snapshot(std::vector<cuda::MemoryEvent>& events);
  /// What the history keeps from now on.
  void apply(const HistoryWish& wish);

 private:
  class Lock;
  struct Route {
    std::uint64_t number = 0;
    Pool* pool = nullptr;
    std::thread::id thread;  // of a route without a filter
    std::function<bool(const void*)> filter;
  };

  // routing.cpp
  BlockUse allocate_routed(std::size_t bytes, void* stream);
  Pool* hold_routed(const void* stream);
  void let_go(Pool* pool) noexcept;
  std::uint64_t enter_route(Route route);
  template <class Which>
  bool leave_route(const Which& which) noexcept;

  // device_allocator.cpp
  BlockUse take(const Request& request) EMBER_REQUIRES(ledger_.mutex);
  void close_shards() EMBER_REQUIRES(ledger_.mutex);
  void release(Block* block) noexcept;
  void put_back(Block* block, AllocEvent::Kind kind) EMBER_REQUIRES(ledger_.mutex);
  Status finish_uses();
  void finish(const std::vector<StreamUse*>& uses);
  std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
  bool passed() const noexcept { return source_.epoch() != epoch(); }
  void renew() noexcept EMBER_REQUIRES(ledger_.mutex);
  std::int64_t level(std::int64_t (Stats::*read)() const noexcept);
  Pool* find_pool(const cuda::MemPoolId& id) EMBER_REQUIRES(ledger_.mutex);
  void drop_unused_pools() EMBER_REQUIRES(ledger_.mutex);
  std::vector<SegmentView> look(const std::optional<cuda::MemPoolId>& pool)
      EMBER_REQUIRES(ledger_.mutex);

  // growth.cpp: memory from the device and back. chunks.cpp: of segments that grow.
  struct Reclaimed {
    Status waiting, releasing;
  };
  Status grow(const Request& request, BlockUse& out);
  bool may_extend(const Request& request) const noexcept;
  Status extend(const Request& request, BlockUse& out);
  struct Chunk {
    BackEnd::Growth growth;
    std::uint32_t epoch = 0;
    std::uintptr_t start = 0;
    std::size_t bytes = 0;
  };
  Status extend_by(const Request& request, Chunk& chunk, BlockUse& out);
  Status begin_growth(const Request& request, Chunk& chunk, BlockUse& out);
  Status find_growth(const Request& request, Chunk& chunk, BlockUse& out)
      EMBER_REQUIRES(ledger_.mutex);
  Status add_range(const Request& request, Chunk& chunk, BlockUse& out);
  bool within_limit(std::size_t bytes) const EMBER_REQUIRES(ledger_.mutex);
  void collect_garbage();
  bool release_oversize(const Request& request);
  template <class Choose>
  bool give_back_chosen(const Choose& choose);
  Reclaimed reclaim(const cuda::MemPoolId* only = nullptr);
  void give_back_pending() noexcept;
  Status give_back(Block* whole) noexcept;
  bool is_of_range(const Block* block) noexcept;
  Status give_back_chunk(Block* block) noexcept;
  Status release_range(const Segment& range, Block* block, std::uint32_t epoch) noexcept;
  Status wait_for_work(driver::StreamHandle stream, bool anywhere) noexcept;

  static AllocEvent event_of_chunk(AllocEvent::Kind kind, const Segment& segment,
                                   std::uintptr_t start, std::size_t bytes);

  // sleep.cpp: pools whose contents are with the host.
  struct Moving;
  class Move;
  void refuse_asleep(const Pool& pool) const EMBER_REQUIRES(ledger_.mutex) {
    if (pool.asleep) [[unlikely]]
      fail_asleep(pool);
  }
  [[noreturn]] void fail_asleep(const Pool& pool) const EMBER_REQUIRES(ledger_.mutex);
  void end_asking(Pool& pool) EMBER_REQUIRES(ledger_.mutex) {
    if (--pool.growths == 0 && pool.moving) moved_.notify_all();
  }
  void end_parking(Pool& pool) noexcept;
  void forget_saved(Pool& pool) EMBER_REQUIRES(ledger_.mutex);
  std::string name_of(const Pool& pool) const;
  void check_can_sleep(const Pool& pool, const std::vector<LeasedBlock>& leased)
      EMBER_REQUIRES(ledger_.mutex);
  Status wait_for_users(const Pool& pool, std::uint32_t epoch);
  Status wait_for_stream(const driver::StreamHandle& stream) noexcept;
  Status save(Pool& pool, std::uint32_t epoch, std::vector<Moving>& moving);
  Status give_back_saved(Pool& pool, std::uint32_t epoch, std::vector<Moving>& moving);
  std::vector<Moving> chunks_of(const Pool& pool, bool asleep) EMBER_REQUIRES(ledger_.mutex);
  Segment* segment_at(std::uintptr_t address) EMBER_REQUIRES(ledger_.mutex);
  void give_back_free(Pool& pool);
  Status bring_back(Pool& pool);
  Status map_all(std::uint32_t epoch, std::vector<Moving>& moving);
  Status wake(Pool& pool);
  bool wake_if_whole(Pool& pool);

  // exhaustion.cpp: what is left when the device has no more.
  BlockUse last_resort(const Request& request, Status waiting);
  BlockUse await_leased(const Request& request, Status& waiting);
  BlockUse borrow(const Request& request);
  BlockUse try_again(const Request& request, Status& waiting);
  OutOfMemory describe(const Request& request, bool could_not_wait);
  OutOfMemory describe_at(const Request& request, bool could_not_wait,
                          const driver::MemoryInfo& info);
  void describe_segments(const Request& request, const std::vector<LeasedBlock>& leased,
                         OutOfMemory& what) EMBER_REQUIRES(ledger_.mutex);
  void describe_segment(const Segment& segment, const Request& request,
                        const std::vector<LeasedBlock>& leased, OutOfMemory& what) const
      EMBER_REQUIRES(ledger_.mutex);
  [[noreturn]] void fail(const Request& request, const Status& waiting,
                         const std::string& what_for = {});

  const int device_;
  SegmentSource& source_;
  DeviceMemory device_memory_;
  MemorySource& memory_;
  const std::unique_ptr<BackEnd> back_end_;
  const BackEnd::Caps caps_;
  StreamUses uses_;  // has its own locks
  Ledger ledger_;
  Mutex reclaim_;  // held while segments are given back, so that a second thread finds them gone
  std::atomic<std::uint32_t> epoch_;  // that the ledger is of; written under its lock

  Pool default_pool_ EMBER_GUARDED_BY(ledger_.mutex);
  DirectBackEnd direct_;
  Pool uncached_pool_ EMBER_GUARDED_BY(ledger_.mutex);  // while caching is disabled
  std::vector<std::unique_ptr<Pool>> pools_ EMBER_GUARDED_BY(ledger_.mutex);  // the others
  Mutex routing_;                                         // before the ledger's lock
  std::vector<Route> routes_ EMBER_GUARDED_BY(routing_);  // the last one counts
  std::size_t limit_ EMBER_GUARDED_BY(ledger_.mutex) = kNoLimit;
  // Bytes that the source is asked for, or given back, at this moment.
  std::size_t in_transit_ EMBER_GUARDED_BY(ledger_.mutex) = 0;
  std::atomic<double> fraction_{1};
  // Of the settings, where they spare a lock.
  std::atomic<double> gc_threshold_{0};
  std::atomic<std::size_t> max_split_size_{Settings::kUnlimited};
  std::atomic<bool> grows_{false};  // new segments do
  // Free blocks that a back end does not keep, and that could not be given back where they were
  // freed. One load tells that there are none.
  std::vector<Block*> pending_ EMBER_GUARDED_BY(ledger_.mutex);
  std::atomic<bool> any_pending_{false};
  // Of the host, for pools that slept when the device was reset: to be freed without the lock.
  std::vector<void*> hosts_ EMBER_GUARDED_BY(ledger_.mutex);
  Condition moved_;  // of pools: neither falls asleep nor wakes any more, or has no growth
};

}  // namespace ember::inline v0::memory
