#include "ember/memory/device_allocator.h"

#include <utility>

#include "ember/base/error.h"
#include "ember/base/spin.h"
#include "ember/base/stack.h"
#include "ember/memory/scopes.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::memory {

using Kind = AllocEvent::Kind;

/// The ledger's lock. A thread that finds it taken opens the shards. It is held for a fraction of
/// what it takes to sleep and to be woken, so it is worth a short wait.
class EMBER_THREAD_NOTE(scoped_lockable) DeviceAllocator::Lock {
 public:
  [[gnu::always_inline]] explicit Lock(DeviceAllocator& allocator)
      EMBER_THREAD_NOTE(acquire_capability(allocator.ledger_.mutex))
          EMBER_THREAD_NOTE(no_thread_safety_analysis)
      : mutex_(allocator.ledger_.mutex) {
    if (mutex_.try_lock()) [[likely]]
      return;
    if (!spin_briefly([this] { return mutex_.try_lock(); })) mutex_.lock();
    if (allocator.caps_.keeps && !cuda::observed()) allocator.ledger_.shards.contended();
  }
  ~Lock() EMBER_THREAD_NOTE(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

DeviceAllocator::DeviceAllocator(int device, SegmentSource& source, EventPool& events,
                                 std::unique_ptr<BackEnd> back_end, MemorySource* memory)
    : device_(device),
      source_(source),
      device_memory_(source),
      memory_(memory != nullptr ? *memory : device_memory_),
      back_end_(std::move(back_end)),
      caps_(back_end_->caps()),
      uses_(events, device),
      ledger_(device, caps_.counts),
      epoch_(source.epoch()),
      default_pool_({}, *back_end_, memory_),
      uncached_pool_({}, direct_, memory_) {}

DeviceAllocator::~DeviceAllocator() {
  const MutexLock lock(ledger_.mutex);
  for (const auto& [address, segment] : ledger_.segments) {
    for (Block* block = segment.first; block != nullptr; block = block->next)
      if (block->state() == Block::allocated) delete block->use;  // parked ones belong to uses_
    if (!segment.grows) {
      (void)segment.pool->memory.give_back(raw_memory_of(segment, device_, epoch()));
      continue;
    }
    if (segment.bytes_held() > 0)
      (void)wait_for_work({segment.stream, device_, epoch()}, segment.pool->had_graphs);
    for (const auto& [start, chunk] : segment.chunks)
      if (!chunk.asleep || chunk.remains)
        (void)source_.unmap(epoch(), reinterpret_cast<void*>(start), chunk.bytes);
    (void)source_.release(epoch(), reinterpret_cast<void*>(address));
  }
  for (const auto& pool : pools_) forget_saved(*pool);
  for (void* host : hosts_) source_.host_free(host);
}

// ---- Allocate

// The steps of chapter 8, by its numbers.
BlockUse DeviceAllocator::allocate(std::size_t bytes, void* stream, Pool* pool) {
  if (bytes == 0) return {};
  if (bytes >= kTooLarge) fail_too_large(device_, bytes);
  if (pool == nullptr) {
    if (any_route()) [[unlikely]]
      return allocate_routed(bytes, stream);
    pool = &default_pool_;
  }
  const Request request{pool->back_end.block_bytes(bytes), bytes, stream, pool};
  const bool reset = passed();
  const Tell tell(Tell::Operation::allocation);
  if (ledger_.shards.open() && !cuda::observed() && !reset) {
    if (const BlockUse use = ledger_.shards.take(request); use.block != nullptr) return use;
  }
  if (!uses_.empty() && !cuda::any_capture()) check(finish_uses());  // 1
  if (any_pending_.load(std::memory_order_relaxed)) [[unlikely]]
    give_back_pending();
  {
    const Lock lock(*this);
    if (reset) [[unlikely]]
      renew();
    if (const BlockUse use = take(request); use.block != nullptr) return use;  // 2
  }
  // 3 (callbacks that free memory) is done after all else: see last_resort.
  collect_garbage();  // 4
  BlockUse use;
  Status status = grow(request, use);                                     // 5
  if (status.code() == Code::out_of_memory && release_oversize(request))  // 6
    status = grow(request, use);
  if (status.code() == Code::out_of_memory && !cuda::any_capture()) {  // 7
    Status waiting = reclaim().waiting;
    if (waiting.code() == Code::not_permitted) return last_resort(request, std::move(waiting));
    // What cannot be given back does not matter if there is enough all the same.
    check(waiting);
    {
      const Lock lock(*this);
      ledger_.emit({.kind = Kind::retried});
    }
    status = grow(request, use);
    if (status.code() == Code::out_of_memory) {
      // A block that was waited for may fit though its segment had to stay.
      const Lock lock(*this);
      if ((use = take(request)).block != nullptr) return use;
    }
  }
  if (status.code() == Code::out_of_memory) return last_resort(request, {});
  if (!status.ok()) request.pool->memory.fail(status);
  return use;
}

BlockUse DeviceAllocator::take(const Request& request) {
  refuse_asleep(*request.pool);
  Shards& shards = ledger_.shards;
  Block* block = nullptr;
  const bool in_shards = shards.open() && !request.pool->is_private();
  if (in_shards) [[unlikely]] {
    if (shards.expired() || cuda::observed())
      close_shards();
    else
      block = shards.find(request, Shards::Where::mine);
  }
  if (block == nullptr) block = request.pool->back_end.take(ledger_, request);
  if (block == nullptr && in_shards && shards.open()) {
    block = shards.find(request, Shards::Where::any);
    if (block == nullptr) {
      close_shards();
      block = request.pool->back_end.take(ledger_, request);
    }
  }
  if (block == nullptr) return {};
  const BlockUse use = ledger_.hand_out(block, request.requested);
  if (shards.open()) shards.grant(ledger_.stats);
  return use;
}

// They were counted as free when their users freed them.
void DeviceAllocator::close_shards() {
  for (Block* next = ledger_.shards.close(ledger_.stats); next != nullptr;) {
    Block* const block = std::exchange(next, next->link);
    (void)block->segment->pool->back_end.keep(ledger_, block);
  }
}

// ---- Free

bool DeviceAllocator::free(void* address) noexcept {
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  Block* block = passed() ? nullptr : ledger_.map.find(position);
  if (block == nullptr || !block->claim(position)) {
    // Without the lock the map may overlook a block; with it, it does not.
    const Lock lock(*this);
    renew();
    block = ledger_.map.find(position);
    if (block == nullptr || !block->claim(position)) return false;
  }
  release(block);
  return true;
}

bool DeviceAllocator::free(Block* block, void* address, std::uint64_t serial) noexcept {
  if (!block->claim(reinterpret_cast<std::uintptr_t>(address), serial)) return false;
  release(block);
  return true;
}

// For a block that was claimed from its user.
void DeviceAllocator::release(Block* block) noexcept {
  const Tell tell;
  if (ledger_.shards.open() && !cuda::observed() && ledger_.shards.put(block)) return;
  StreamUse* use = nullptr;
  Pool* parks = nullptr;  // that may be put to sleep
  // A watched block is marked as if other streams had used it. The stack is taken without the lock.
  const std::uint64_t stack =
      block->streams_noted() && any_free_watched() ? capture_stack() : std::uint64_t{0};
  {
    const Lock lock(*this);
    if (block->watched) [[unlikely]] {
      block->watched = false;
      tell_gone({block->position(), block->requested_bytes(), "freed", stack});
    }
    if (block->segment == nullptr) {
      delete std::exchange(block->use, nullptr);
      ledger_.records.give_back(block);
      return;
    }
    use = block->use;
    if (use == nullptr) {
      put_back(block, Kind::freed);
    } else {
      ledger_.emit(Kind::free_requested, *block);
      block->segment->pool->back_end.freed(ledger_, block);
      block->set(Block::parked);
      if (Pool& pool = *block->segment->pool; pool.is_private()) {
        parks = &pool;
        ++pool.parking;
        ++pool.holds;
      }
    }
  }
  if (use != nullptr) uses_.park(use);
  if (parks != nullptr) end_parking(*parks);
  if (any_pending_.load(std::memory_order_relaxed)) [[unlikely]]
    give_back_pending();
}

// Nobody uses the block any longer.
void DeviceAllocator::put_back(Block* block, Kind kind) {
  ledger_.emit(kind, *block);
  if (block->segment->pool->back_end.keep(ledger_, block)) [[likely]]
    return;
  block->set(Block::releasing);
  pending_.push_back(block);
  any_pending_.store(true, std::memory_order_relaxed);
}

// ---- Blocks that other streams use

bool DeviceAllocator::record_stream(const void* inside, const driver::StreamHandle& stream) {
  const Tell tell;
  const Lock lock(*this);
  renew();
  Block* block = ledger_.containing(inside);
  if (block == nullptr || block->state() != Block::allocated) return false;
  const Segment& segment = *block->segment;
  if (stream.native == segment.stream && stream.device == device_) return true;
  // After a reset the address may be somebody else's memory, who is freeing it.
  if (!block->note_streams()) return false;
  if (block->use == nullptr) block->use = new StreamUse{block, {}, {}, 0};
  block->use->note(stream);
  AllocEvent event = Ledger::event_of(Kind::stream_recorded, *block, segment);
  event.stream = stream.native;
  event.stream_device = stream.device;
  ledger_.emit(event);
  return true;
}

FreeWatch::Found DeviceAllocator::watch_free(const void* inside, const cuda::MemPoolId& except,
                                             FreeWatch& watch) {
  const Lock lock(*this);
  renew();
  Block* const block = ledger_.containing(inside);
  if (block == nullptr || block->state() != Block::allocated) return FreeWatch::Found::unknown;
  if (block->segment->pool->id == except) return FreeWatch::Found::in_pool;
  // So that it is freed with the lock, and not into a shard.
  if (!block->note_streams()) return FreeWatch::Found::unknown;
  watch.add(block->address(), block->requested_bytes());
  block->watched = true;
  return FreeWatch::Found::device;
}

Status DeviceAllocator::finish_uses() {
  return uses_.poll([this](const std::vector<StreamUse*>& uses) { finish(uses); });
}

void DeviceAllocator::finish(const std::vector<StreamUse*>& uses) {
  {
    const Lock lock(*this);
    for (StreamUse* use : uses) {
      auto* block = static_cast<Block*>(use->owner);
      block->use = nullptr;
      delete use;
      if (block->segment == nullptr)
        ledger_.records.give_back(block);
      else
        put_back(block, Kind::free_completed);
    }
  }
}

// ---- Resets

// The device was reset: its memory is gone, and all blocks with it. Blocks that a thread has
// claimed, and those that are parked in uses_, are dropped later, when they are found to have no
// segment.
void DeviceAllocator::renew() noexcept {
  const std::uint32_t now = source_.epoch();
  if (now == epoch()) [[likely]]
    return;
  close_shards();
  back_end_->settle(ledger_);
  for (const auto& [address, segment] : ledger_.segments) {
    for (Block* block = segment.first; block != nullptr;) {
      Block* const next = block->next;
      ledger_.map.erase(block);
      if (block->state() == Block::free || block->state() == Block::unmapped ||
          block->claim(block->position())) {
        delete std::exchange(block->use, nullptr);
        ledger_.records.give_back(block);
      } else {
        block->segment = nullptr;
        block->previous = block->next = nullptr;
      }
      block = next;
    }
  }
  ledger_.segments.clear();
  back_end_->forget();
  default_pool_.clear();
  uncached_pool_.clear();
  for (const auto& pool : pools_) {
    forget_saved(*pool);
    pool->clear();
  }
  drop_unused_pools();
  ledger_.stats.clear_current();
  if (tracking().scopes) Scopes::get().forget(device_);
  epoch_.store(now, std::memory_order_relaxed);
}

// ---- Pools, limits, counters

Pool* DeviceAllocator::make_pool(const Pool::Options& options) {
  return retain_pool({0, new_pool_number()}, options);
}

Pool* DeviceAllocator::find_pool(const cuda::MemPoolId& id) {
  for (const auto& pool : pools_)
    if (pool->id == id) return pool.get();
  return nullptr;
}

Pool* DeviceAllocator::retain_pool(const cuda::MemPoolId& id, const Pool::Options& options,
                                   MemorySource* memory) {
  const Lock lock(*this);
  if (Pool* found = find_pool(id)) {
    ++found->users;
    return found;
  }
  MemorySource& from = memory != nullptr ? *memory : memory_;
  return pools_.emplace_back(std::make_unique<Pool>(id, *back_end_, from, options)).get();
}

Pool* DeviceAllocator::retain_for_graph(const cuda::MemPoolId& id) {
  Pool* const pool = retain_pool(id, {});
  const Lock lock(*this);
  ++pool->graphs;
  pool->had_graphs = true;
  return pool;
}

void DeviceAllocator::release_pool(Pool* pool) {
  const Lock lock(*this);
  --pool->users;
  drop_unused_pools();
}

bool DeviceAllocator::release_pool(const cuda::MemPoolId& id) {
  const Lock lock(*this);
  Pool* const pool = find_pool(id);
  if (pool == nullptr || pool->graphs == 0) return false;
  --pool->graphs;
  --pool->users;
  drop_unused_pools();
  return true;
}

int DeviceAllocator::users_of(const Pool& pool) {
  const Lock lock(*this);
  return pool.users;
}

void DeviceAllocator::drop_unused_pools() {
  std::erase_if(pools_, [](const auto& pool) {
    return pool->users == 0 && pool->holds == 0 && pool->segments == 0;
  });
}

void DeviceAllocator::set_limit(std::size_t bytes) {
  const Lock lock(*this);
  limit_ = bytes;
}

void DeviceAllocator::set_fraction(double fraction, std::size_t total) {
  set_limit(static_cast<std::size_t>(fraction * static_cast<double>(total)));
  fraction_.store(fraction, std::memory_order_relaxed);
}

bool DeviceAllocator::holds(const void* address) {
  const Lock lock(*this);
  renew();
  return ledger_.overlapping(reinterpret_cast<std::uintptr_t>(address), 1) != nullptr;
}

bool DeviceAllocator::is_in_growing(const void* address) {
  const Lock lock(*this);
  renew();
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  const Segment* const segment = ledger_.overlapping(position, 1);
  return segment != nullptr && segment->grows && segment->chunk_at(position) != nullptr;
}

// While shards are open, the levels hold what has been granted to them and was not used: that is
// taken back to look.
std::int64_t DeviceAllocator::level(std::int64_t (Stats::*read)() const noexcept) {
  if (!passed() && !ledger_.shards.open()) [[likely]]
    return (ledger_.stats.*read)();
  const Lock lock(*this);
  renew();
  ledger_.shards.settle(ledger_.stats);
  if (ledger_.shards.idle()) close_shards();
  return (ledger_.stats.*read)();
}

std::int64_t DeviceAllocator::allocated() { return level(&Stats::allocated); }
std::int64_t DeviceAllocator::max_allocated() { return level(&Stats::max_allocated); }
std::int64_t DeviceAllocator::reserved() { return level(&Stats::reserved); }
std::int64_t DeviceAllocator::max_reserved() { return level(&Stats::max_reserved); }

cuda::MemoryCounters DeviceAllocator::counters() {
  const Lock lock(*this);
  renew();
  close_shards();
  cuda::MemoryCounters counters = ledger_.stats.counters();
  if (const std::size_t size = max_split_size_.load(std::memory_order_relaxed);
      size != Settings::kUnlimited)
    counters.max_split_size = static_cast<std::int64_t>(size);
  return counters;
}

void DeviceAllocator::reset_peaks() {
  const Lock lock(*this);
  renew();
  ledger_.shards.settle(ledger_.stats);
  ledger_.stats.reset_peaks();
}

void DeviceAllocator::reset_accumulated() {
  const Lock lock(*this);
  renew();
  close_shards();
  ledger_.stats.reset_accumulated();
}

std::vector<SegmentView> DeviceAllocator::snapshot(const std::optional<cuda::MemPoolId>& pool) {
  const Lock lock(*this);
  return look(pool);
}

std::vector<SegmentView> DeviceAllocator::snapshot(std::vector<cuda::MemoryEvent>& events) {
  const Tell tell;
  const Lock lock(*this);
  std::vector<SegmentView> views = look({});
  ledger_.history(events);  // without the entry of this snapshot, as in torch
  if (tracking().entries) {
    cuda::MemoryEvent event;
    event.stack = caller().stack;
    event.size = 0;
    for (const SegmentView& view : views)
      for (const SegmentView::BlockView& block : view.blocks)
        if (block.state != Block::free) event.size += block.size;
    (void)add_entry(ledger_.log, cuda::MemoryEvent::Action::snapshot, event);
  }
  return views;
}

void DeviceAllocator::apply(const HistoryWish& wish) {
  const Lock lock(*this);
  close_shards();
  ledger_.keep(wish);
}

std::vector<SegmentView> DeviceAllocator::look(const std::optional<cuda::MemPoolId>& pool) {
  renew();
  close_shards();
  back_end_->settle(ledger_);
  std::vector<SegmentView> views;
  views.reserve(ledger_.segments.size());
  for (const auto& [address, segment] : ledger_.segments) {
    if (pool && segment.pool->id != *pool) continue;
    SegmentView* view = nullptr;  // one for each piece that has memory, or sleeps
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      const SegmentChunk* const chunk =
          segment.grows ? segment.chunk_at(block->position()) : nullptr;
      if (segment.grows && chunk == nullptr) {
        view = nullptr;
        continue;
      }
      const bool asleep = chunk != nullptr && chunk->asleep;
      if (view == nullptr || view->asleep != asleep) {
        view = &views.emplace_back(
            SegmentView{block->position(), 0, segment.small, segment.stream, segment.pool->id, {}});
        view->stack = segment.stack;
        view->grows = segment.grows;
        view->asleep = asleep;
      }
      view->size += block->size;
      SegmentView::BlockView& seen = view->blocks.emplace_back();
      seen.address = block->position();
      seen.size = block->size;
      seen.state = block->state();
      if (seen.state == Block::releasing) seen.state = Block::free;
      if (seen.state == Block::free) continue;
      seen.requested = block->requested_bytes();
      seen.origin = block->origin_of_use();
    }
  }
  return views;
}

}  // namespace ember::inline v0::memory
