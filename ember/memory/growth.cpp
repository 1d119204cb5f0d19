// The allocator and the device: growing, and giving back.
#include <algorithm>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/memory/device_allocator.h"

namespace ember::inline v0::memory {

using Kind = AllocEvent::Kind;

bool DeviceAllocator::within_limit(std::size_t bytes) const {
  if (!caps_.counts || limit_ == kNoLimit) return true;
  const std::size_t held = static_cast<std::size_t>(ledger_.stats.reserved()) + in_transit_;
  return held <= limit_ && bytes <= limit_ - held;
}

// Gets a segment for the request from the device, and hands out its beginning.
Status DeviceAllocator::grow(const Request& request, BlockUse& out) {
  if (may_extend(request)) {
    Status status = extend(request, out);
    if (status.code() != Code::not_supported) return status;
  }
  const std::size_t bytes = request.pool->segment_bytes(request.size);
  std::uint32_t epoch = 0;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    refuse_asleep(*request.pool);
    if (!within_limit(bytes)) return Code::out_of_memory;
    in_transit_ += bytes;
    ++request.pool->growths;
    epoch = epoch_;
  }
  RawMemory memory{device_, epoch, request.stream, bytes, nullptr};
  Status status = request.pool->memory.allocate(memory);
  const MutexLock lock(ledger_.mutex);
  in_transit_ -= bytes;
  end_asking(*request.pool);
  if (!status.ok()) return status;
  if (epoch_ != epoch)
    return Status(Code::context_is_destroyed,
                  "device " + std::to_string(device_) + " was reset during an allocation");
  Segment segment;
  segment.address = reinterpret_cast<std::uintptr_t>(memory.address);
  segment.size = bytes;
  // What is somebody's already must not go back with an error: it is left alone.
  if (ledger_.overlapping(segment.address, bytes) != nullptr)
    return Status(Code::invalid_value,
                  "memory at " + address_text(memory.address) + " was given for an allocation of " +
                      std::to_string(bytes) + " bytes, and is in use by another one, or cached");
  segment.pool = request.pool;
  segment.stream = request.stream;
  segment.small = is_small(request.size);
  segment.oversize = request.pool->back_end.oversize(bytes);
  segment.sharable = !request.pool->is_private() && caps_.keeps && request.pool != &uncached_pool_;
  segment.stack = caller().stack;
  Block* block = ledger_.add_segment(segment);
  ledger_.emit(Ledger::event_of(Kind::segment_allocated, *block, segment));
  request.pool->back_end.fit(ledger_, block, request);
  out = ledger_.hand_out(block, request.requested);
  return {};
}

void DeviceAllocator::apply(const Settings& settings) {
  const MutexLock lock(ledger_.mutex);
  back_end_->apply(ledger_, settings);
  grows_.store(settings.expandable_segments, std::memory_order_relaxed);
  gc_threshold_.store(settings.garbage_collection_threshold, std::memory_order_relaxed);
  max_split_size_.store(settings.max_split_size, std::memory_order_relaxed);
}

// Step 4: what has not been used for long goes back, before the limit is reached.
void DeviceAllocator::collect_garbage() {
  const double threshold = gc_threshold_.load(std::memory_order_relaxed);
  if (threshold == 0 || !source_.may_wait()) return;
  give_back_chosen([&](std::vector<Block*>& out) EMBER_REQUIRES(ledger_.mutex) {
    if (limit_ == kNoLimit) return;
    const auto wanted = static_cast<std::size_t>(threshold * static_cast<double>(limit_));
    const auto held = static_cast<std::size_t>(ledger_.stats.reserved());
    if (held <= wanted) return;
    close_shards();
    default_pool_.back_end.collect(ledger_, default_pool_, held - wanted, out);
  });
}

// Step 6: just enough of what is never split.
bool DeviceAllocator::release_oversize(const Request& request) {
  if (max_split_size_.load(std::memory_order_relaxed) == Settings::kUnlimited ||
      !source_.may_wait())
    return false;
  return give_back_chosen([&](std::vector<Block*>& out) EMBER_REQUIRES(ledger_.mutex) {
    close_shards();
    request.pool->back_end.release_oversize(ledger_, request, out);
  });
}

template <class Choose>
bool DeviceAllocator::give_back_chosen(const Choose& choose) {
  const UnexpectedWait until_given_back;
  const MutexLock turn(reclaim_);
  std::vector<Block*> chosen;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    choose(chosen);
    for (Block* block : chosen) block->set(Block::releasing);
  }
  for (Block* block : chosen) (void)give_back(block);  // what fails stays cached
  return !chosen.empty();
}

Status DeviceAllocator::empty_cache() {
  const Tell tell;
  Reclaimed reclaimed = reclaim();
  return reclaimed.waiting.ok() ? std::move(reclaimed.releasing) : std::move(reclaimed.waiting);
}

Status DeviceAllocator::empty_cache(const cuda::MemPoolId& pool) {
  const Tell tell;
  const cuda::MemPoolId only = pool;  // it may be a pool's own, which goes with its last segment
  Reclaimed reclaimed = reclaim(&only);
  return reclaimed.waiting.ok() ? std::move(reclaimed.releasing) : std::move(reclaimed.waiting);
}

// Step 7: waits for all recorded streams, then gives back every free segment that is whole, also
// those of pools that nobody needs; or those of one pool only. One thread at a time, so that a
// second one that is short of memory finds what the first gave back.
DeviceAllocator::Reclaimed DeviceAllocator::reclaim(const cuda::MemPoolId* only) {
  Reclaimed result;
  if (!source_.may_wait()) {
    result.waiting = Status(Code::not_permitted,
                            "giving cached memory back waits for work of the device, which waits "
                            "for the function that asked for it");
    return result;
  }
  const UnexpectedWait until_given_back;
  const MutexLock turn(reclaim_);
  result.waiting = uses_.wait([this](const std::vector<StreamUse*>& uses) { finish(uses); });
  std::vector<Block*> whole;
  std::vector<void*> hosts;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    close_shards();
    ledger_.emit({.kind = Kind::synchronized_all});
    if (only == nullptr || *only == default_pool_.id)
      default_pool_.back_end.trim(ledger_, default_pool_, whole);
    for (const auto& pool : pools_)
      if (!pool->moving &&
          (only == nullptr ? pool->users == 0 : pool->id == *only && pool->graphs == 0))
        pool->back_end.trim(ledger_, *pool, whole);
    for (Block* block : whole) block->set(Block::releasing);
    std::sort(whole.begin(), whole.end(),
              [](const Block* a, const Block* b) { return a->position() < b->position(); });
    whole.insert(whole.end(), pending_.begin(), pending_.end());
    pending_.clear();
    hosts.swap(hosts_);
    any_pending_.store(false, std::memory_order_relaxed);
  }
  for (void* host : hosts) source_.host_free(host);
  for (Block* block : whole) {
    Status status = give_back(block);
    if (result.releasing.ok()) result.releasing = std::move(status);
  }
  Status trimmed = memory_.trim(device_, epoch());
  if (result.releasing.ok()) result.releasing = std::move(trimmed);
  return result;
}

// What was freed by a thread that must not wait for the device.
void DeviceAllocator::give_back_pending() noexcept {
  if (!source_.may_wait()) return;
  const UnexpectedWait until_given_back;
  std::vector<Block*> blocks;
  std::vector<void*> hosts;
  {
    const MutexLock lock(ledger_.mutex);
    blocks.swap(pending_);
    hosts.swap(hosts_);
    any_pending_.store(false, std::memory_order_relaxed);
  }
  for (void* host : hosts) source_.host_free(host);
  for (Block* block : blocks) (void)give_back(block);  // what fails stays pending
}

// For a block that is a whole segment, claimed; or a chunk of one that grows.
Status DeviceAllocator::give_back(Block* whole) noexcept {
  if (is_of_range(whole)) return give_back_chunk(whole);
  Segment segment;
  MemorySource* memory = nullptr;  // found out while the pool is there for certain, as is
  AllocEvent event{};
  std::uint32_t epoch = 0;
  {
    const MutexLock lock(ledger_.mutex);
    if (whole->segment == nullptr) {  // gone with a reset
      ledger_.records.give_back(whole);
      return {};
    }
    segment = ledger_.remove_segment(whole);
    event = Ledger::event_of(Kind::segment_freed, *whole, segment);
    event.requested = 0;
    memory = &segment.pool->memory;
    epoch = epoch_;
    // Told while it is ours: another thread may have the same memory before this call of the source
    // is over, and tells of that at once. Of the limit it is a part until then.
    ledger_.emit(event);
    in_transit_ += segment.size;
  }
  Status status = memory->give_back(raw_memory_of(segment, device_, epoch));
  const MutexLock lock(ledger_.mutex);
  in_transit_ -= segment.size;
  const bool gone = epoch_ != epoch || status.code() == Code::context_is_destroyed;
  // Until here the pool counted the segment, so that it is still there to have it back. With a
  // reset that has been noticed it may be gone.
  if (epoch_ == epoch) --segment.pool->segments;
  if (status.ok() || gone) {
    ledger_.records.give_back(whole);
    drop_unused_pools();
    return {};
  }
  ledger_.records.give_back(whole);  // still ours
  Block* block = ledger_.add_segment(segment);
  ledger_.emit(Ledger::event_of(Kind::segment_allocated, *block, segment));
  if (!segment.pool->back_end.keep(ledger_, block)) {
    block->set(Block::releasing);
    pending_.push_back(block);
    any_pending_.store(true, std::memory_order_relaxed);
  }
  return status;
}

}  // namespace ember::inline v0::memory
