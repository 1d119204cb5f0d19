// Pools that sleep: their addresses and blocks stay, what is in use lies in page-locked memory of
// the host, and the device has its memory back.
//
// Note [Moving a pool]
// ~~~~~~~~~~~~~~~~~~~~
// The device is asked without the ledger's lock, so a pool is marked instead. While it is `asleep`
// it hands nothing out and does not grow; while it is `moving` nothing of it is given back, and
// nobody else moves it; what was being given back then, is waited for. Growth that had begun before
// is waited for, and so are frees that had, until it is known which streams their blocks wait for.
// So only frees happen to it meanwhile, and those touch no memory: what was in use when it was
// looked at is copied, and what has been freed since is dropped by the next one who gives memory
// back.
#include <algorithm>
#include <set>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/memory/device_allocator.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::memory {

/// A chunk on its way.
struct DeviceAllocator::Moving {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  SavedChunk saved;
  bool mapped = false;  ///< has memory of the device
  void* address() const noexcept { return reinterpret_cast<void*>(start); }
};

/// While it lives, its thread moves the pool.
class DeviceAllocator::Move {
 public:
  Move(DeviceAllocator& allocator, Pool& pool) : allocator_(allocator), pool_(pool) {
    {
      const MutexLock lock(allocator_.ledger_.mutex);
      while (pool_.moving) allocator_.moved_.wait(allocator_.ledger_.mutex);
      pool_.moving = true;
      ++pool_.holds;
    }
    // Whoever chose some of it before, to give it back, has done so then.
    const MutexLock given_back(allocator_.reclaim_);
  }
  ~Move() {
    const MutexLock lock(allocator_.ledger_.mutex);
    pool_.moving = false;
    --pool_.holds;
    allocator_.moved_.notify_all();
  }
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

 private:
  DeviceAllocator& allocator_;
  Pool& pool_;
};

namespace {

using HostCopy = SegmentSource::HostCopy;

void add_copies(void* chunk, const SavedChunk& saved, std::vector<HostCopy>& copies) {
  std::size_t offset = 0;
  for (const SavedChunk::Piece& piece : saved.pieces) {
    copies.push_back(
        {static_cast<std::byte*>(chunk) + piece.offset, saved.host, offset, piece.bytes});
    offset += piece.bytes;
  }
}

std::size_t saved_bytes(const SavedChunk& saved) {
  std::size_t bytes = 0;
  for (const SavedChunk::Piece& piece : saved.pieces) bytes += piece.bytes;
  return bytes;
}

Status reset_meanwhile(int device) {
  return Status(Code::context_is_destroyed,
                "device " + std::to_string(device) + " was reset while a pool of it was moved");
}

void refuse_on_worker(SegmentSource& source) {
  if (!source.may_wait())
    throw AcceleratorError(Status(Code::not_permitted,
                                  "moving the memory of a pool waits for work of the device, which "
                                  "waits for the function that asked for it"));
}

}  // namespace

std::string DeviceAllocator::name_of(const Pool& pool) const {
  return "pool (" + std::to_string(pool.id.first) + ", " + std::to_string(pool.id.second) +
         ") of device " + std::to_string(device_);
}

void DeviceAllocator::fail_asleep(const Pool& pool) const {
  throw Error(name_of(pool) +
              " is asleep, and serves no allocation: offload() has moved its memory to the host; "
              "call restore() first");
}

bool DeviceAllocator::is_asleep(const Pool& pool) {
  const MutexLock lock(ledger_.mutex);
  renew();
  return pool.asleep;
}

bool DeviceAllocator::is_asleep(const void* address) {
  const MutexLock lock(ledger_.mutex);
  renew();
  const auto position = reinterpret_cast<std::uintptr_t>(address);
  const Segment* const segment = ledger_.overlapping(position, 1);
  return segment != nullptr && segment->asleep_at(position);
}

// From here on uses_ knows what it waits for.
void DeviceAllocator::end_parking(Pool& pool) noexcept {
  const MutexLock lock(ledger_.mutex);
  if (--pool.parking == 0 && pool.moving) moved_.notify_all();
  --pool.holds;
  drop_unused_pools();
}

// The device was reset, or the allocator goes: the host's memory is freed later.
void DeviceAllocator::forget_saved(Pool& pool) {
  for (const auto& [start, saved] : pool.saved)
    if (saved.host != nullptr) hosts_.push_back(saved.host);
  pool.saved.clear();
  if (!hosts_.empty()) any_pending_.store(true, std::memory_order_relaxed);
}

Segment* DeviceAllocator::segment_at(std::uintptr_t address) {
  const auto after = ledger_.segments.upper_bound(address);
  if (after == ledger_.segments.begin()) return nullptr;
  Segment& segment = std::prev(after)->second;
  return address - segment.address < segment.size ? &segment : nullptr;
}

// ---- To the host

void DeviceAllocator::offload(Pool& pool) {
  const Tell tell;
  refuse_on_worker(source_);
  const UnexpectedWait until_moved;
  const std::vector<LeasedBlock> leased = leased_blocks(device_);
  const Move move(*this, pool);
  std::uint32_t epoch = 0;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    if (pool.asleep) return;
    check_can_sleep(pool, leased);
    pool.asleep = true;
    while (pool.growths > 0) moved_.wait(ledger_.mutex);
    pool.asleep = false;
    renew();
    check_can_sleep(pool, leased);  // what came meanwhile, too
    pool.asleep = true;
    epoch = this->epoch();
  }
  std::vector<Moving> moving;
  Status status = wait_for_users(pool, epoch);
  if (status.ok()) status = save(pool, epoch, moving);
  if (status.ok()) status = give_back_saved(pool, epoch, moving);
  if (status.ok()) return;
  Status back;
  if (!wake_if_whole(pool)) back = bring_back(pool);  // giving back failed half way
  throw AcceleratorError(
      Status(status.code(), "MemPool.offload: " + name_of(pool) +
                                (back.ok() ? " stays awake, and nothing has changed: "
                                           : " is asleep in part, and restore() wakes it: ") +
                                status.detail()));
}

// Whether nothing of it is with the host.
bool DeviceAllocator::wake_if_whole(Pool& pool) {
  const MutexLock lock(ledger_.mutex);
  if (pool.saved.empty()) pool.asleep = false;
  return !pool.asleep;
}

void DeviceAllocator::check_can_sleep(const Pool& pool, const std::vector<LeasedBlock>& leased) {
  const auto refuse = [&](const std::string& why) {
    throw Error("MemPool.offload: " + name_of(pool) + " cannot sleep: " + why);
  };
  if (pool.graphs > 0)
    refuse(
        "a graph was captured with it, whose replays use its free memory, too; reset the graph "
        "first");
  if (cuda::any_capture()) refuse("work is being captured, so that its streams cannot wait");
  for (const auto& lent : pool.lent)
    if (ledger_.in_use(lent))
      refuse("memory of it was lent (use_on_oom) and is in use, by who does not know of the pool");
  std::size_t bytes = 0;
  for (const auto& [address, segment] : ledger_.segments) {
    if (segment.pool != &pool) continue;
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->state() == Block::free || block->state() == Block::unmapped) continue;
      if (!segment.grows) bytes += block->size;
      for (const LeasedBlock& lease : leased)
        if (lease.address == block->position())
          refuse(lease.process != 0
                     ? "process " + std::to_string(lease.process) + " has memory of it"
                     : "memory of it was sent to another process, which has not received it yet");
    }
  }
  if (bytes == 0) return;
  std::string why = format_bytes(bytes) + " of it are in use in segments that do not grow; ";
  if (!pool.back_end.caps().keeps || &pool.memory != &device_memory_)
    why +=
        "only memory that comes from the device and is cached has others (backend:native, no "
        "allocator of the program's, caching enabled)";
  else if (pool.options.no_split)
    why += "pools with no_split have no others";
  else if (grows_.load(std::memory_order_relaxed))
    why +=
        "where expandable_segments:True was set when they came, the device had no addresses left "
        "for others";
  else
    why +=
        "set expandable_segments:True (EMBER_ALLOC_CONF, or set_allocator_settings) before its "
        "memory is allocated";
  refuse(why);
}

Status DeviceAllocator::wait_for_stream(const driver::StreamHandle& stream) noexcept {
  Status status = source_.stream_synchronize(stream);
  if (status.code() == Code::context_is_destroyed && stream.device != device_ &&
      source_.epoch_ended(stream.device, stream.epoch))
    return {};
  if (status.code() == Code::invalid_handle) return source_.device_synchronize(stream.device);
  return status;
}

// For the streams that its segments are of, for those that were noted for blocks in use, and for
// those that blocks wait for that were freed. Replays of graphs may be on any.
Status DeviceAllocator::wait_for_users(const Pool& pool, std::uint32_t epoch) {
  std::vector<driver::StreamHandle> streams;
  std::set<const void*> parked;
  bool anywhere = pool.had_graphs;
  {
    const MutexLock lock(ledger_.mutex);
    while (pool.parking > 0) moved_.wait(ledger_.mutex);
    renew();
    if (this->epoch() != epoch) return reset_meanwhile(device_);
    for (const auto& [address, segment] : ledger_.segments) {
      if (segment.pool != &pool || segment.bytes_held() == 0) continue;
      streams.push_back({segment.stream, device_, epoch});
      for (const Block* block = segment.first; block != nullptr; block = block->next) {
        if (block->state() == Block::parked)
          parked.insert(block);
        else if (block->use != nullptr)
          streams.insert(streams.end(), block->use->streams.begin(), block->use->streams.end());
        anywhere = anywhere || block->watched;
      }
    }
  }
  if (!parked.empty()) uses_.streams_of(parked, streams);
  for (const driver::StreamHandle& stream : streams) EMBER_TRY(wait_for_stream(stream));
  if (anywhere) EMBER_TRY(source_.device_synchronize(device_));
  if (!parked.empty()) (void)finish_uses();
  return {};
}

std::vector<DeviceAllocator::Moving> DeviceAllocator::chunks_of(const Pool& pool, bool asleep) {
  std::vector<Moving> all;
  for (const auto& [address, segment] : ledger_.segments) {
    if (segment.pool != &pool) continue;
    const Block* block = segment.first;
    for (const auto& [start, chunk] : segment.chunks) {
      if (chunk.asleep != asleep) continue;
      Moving& moving = all.emplace_back(
          Moving{start, chunk.bytes, {}, /*mapped=*/!chunk.asleep || chunk.remains});
      if (asleep) continue;
      const std::uintptr_t end = start + chunk.bytes;
      while (block->position() + block->size <= start) block = block->next;
      for (const Block* each = block; each != nullptr && each->position() < end;
           each = each->next) {
        if (each->state() == Block::free || each->state() == Block::unmapped) continue;
        const std::size_t from = std::max(each->position(), start) - start;
        const std::size_t to = std::min(each->position() + each->size, end) - start;
        auto& pieces = moving.saved.pieces;
        if (!pieces.empty() && pieces.back().offset + pieces.back().bytes == from)
          pieces.back().bytes += to - from;
        else
          pieces.push_back({from, to - from});
      }
    }
  }
  return all;
}

// Copies what is in use. After a failure there is no memory of the host's.
Status DeviceAllocator::save(Pool& pool, std::uint32_t epoch, std::vector<Moving>& moving) {
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    if (this->epoch() != epoch) return reset_meanwhile(device_);
    pool.back_end.settle(ledger_);
    moving = chunks_of(pool, /*asleep=*/false);
  }
  Status status;
  std::vector<HostCopy> copies;
  for (Moving& each : moving) {
    if (each.saved.pieces.empty()) continue;
    if (status = source_.host_allocate(saved_bytes(each.saved), each.saved.host); !status.ok())
      break;
    add_copies(each.address(), each.saved, copies);
  }
  if (status.ok() && !copies.empty()) status = source_.copy(epoch, copies, /*to_host=*/true);
  if (status.ok()) return {};
  for (Moving& each : moving)
    if (each.saved.host != nullptr) source_.host_free(each.saved.host);
  moving.clear();
  return status;
}

// What is free goes for good: nobody wants it back at the same place.
void DeviceAllocator::give_back_free(Pool& pool) {
  std::vector<Block*> whole;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    pool.back_end.trim(ledger_, pool, whole);
    for (Block* block : whole) block->set(Block::releasing);
  }
  for (Block* block : whole) (void)give_back(block);
}

// The chunks before one that cannot be given back are asleep then.
Status DeviceAllocator::give_back_saved(Pool& pool, std::uint32_t epoch,
                                        std::vector<Moving>& moving) {
  give_back_free(pool);
  std::vector<void*> hosts;
  const auto drop = [&](const Moving& each) {
    if (each.saved.host != nullptr) hosts.push_back(each.saved.host);
  };
  const auto chunk_of = [&](const Moving& each) EMBER_REQUIRES(ledger_.mutex) -> SegmentChunk* {
    Segment* const segment = segment_at(each.start);
    if (segment == nullptr) return nullptr;
    const auto found = segment->chunks.find(each.start);
    return found != segment->chunks.end() ? &found->second : nullptr;
  };
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    const bool same = this->epoch() == epoch;
    std::erase_if(moving, [&](const Moving& each) EMBER_REQUIRES(ledger_.mutex) {
      if (same && chunk_of(each) != nullptr) return false;
      drop(each);
      return true;
    });
  }
  Status status;
  for (Moving& each : moving) {
    if (status = source_.unmap(epoch, each.address(), each.bytes); !status.ok()) break;
    each.mapped = false;
  }
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    const bool same = this->epoch() == epoch;
    if (!same) status = reset_meanwhile(device_);
    for (Moving& each : moving) {
      if (!same || each.mapped) {
        drop(each);
        continue;
      }
      Segment& segment = *segment_at(each.start);
      segment.chunks[each.start].asleep = true;
      ledger_.emit(
          event_of_chunk(AllocEvent::Kind::segment_freed, segment, each.start, each.bytes));
      pool.saved[each.start] = std::move(each.saved);
    }
  }
  for (void* host : hosts) source_.host_free(host);
  return status;
}

// ---- Back

void DeviceAllocator::restore(Pool& pool) {
  const Tell tell;
  refuse_on_worker(source_);
  const UnexpectedWait until_moved;
  Status status = wake(pool);
  Status waiting;
  const auto try_again = [&] {
    if (!cuda::any_capture()) check(waiting = reclaim().waiting);
    status = wake(pool);
    return status.code() != Code::out_of_memory;
  };
  if (status.code() == Code::out_of_memory && !try_again()) {
    Request request;
    request.pool = &pool;
    {
      const MutexLock lock(ledger_.mutex);
      for (const Moving& each : chunks_of(pool, /*asleep=*/true)) request.chunks += each.bytes;
      request.size = request.requested = request.chunks;
    }
    for (const Callback& callback : callbacks_to_ask())
      if (ask(callback, describe(request, !waiting.ok())) && try_again()) break;
    if (status.code() == Code::out_of_memory)
      fail(request, waiting,
           "MemPool.restore: " + name_of(pool) +
               " stays asleep, and nothing is lost; once there is memory, restore() wakes it. ");
  }
  if (!status.ok())
    throw AcceleratorError(
        Status(status.code(),
               "MemPool.restore: " + name_of(pool) +
                   (status.code() == Code::context_is_destroyed ? ": " : " stays asleep: ") +
                   status.detail()));
}

Status DeviceAllocator::wake(Pool& pool) {
  const Move move(*this, pool);
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    if (!pool.asleep) return {};
  }
  return bring_back(pool);
}

// Memory for all that sleeps, or for nothing of it.
Status DeviceAllocator::map_all(std::uint32_t epoch, std::vector<Moving>& moving) {
  std::vector<HostCopy> copies;
  Status status;
  for (Moving& each : moving) {
    if (!each.mapped) status = source_.map(epoch, each.address(), each.bytes);
    if (!status.ok()) break;
    each.mapped = true;
    add_copies(each.address(), each.saved, copies);
  }
  if (status.ok() && !copies.empty()) status = source_.copy(epoch, copies, /*to_host=*/false);
  if (status.ok()) return {};
  for (Moving& each : moving)
    if (each.mapped && source_.unmap(epoch, each.address(), each.bytes).ok()) each.mapped = false;
  return status;
}

// For a pool that this thread moves. After a failure it is asleep as before.
Status DeviceAllocator::bring_back(Pool& pool) {
  give_back_free(pool);
  std::vector<Moving> moving;
  std::size_t bytes = 0;
  std::uint32_t epoch = 0;
  {
    const MutexLock lock(ledger_.mutex);
    renew();
    moving = chunks_of(pool, /*asleep=*/true);
    for (const Moving& each : moving) bytes += each.bytes;
    if (!within_limit(bytes)) return Code::out_of_memory;
    in_transit_ += bytes;
    epoch = this->epoch();
    for (Moving& each : moving)  // a reset in between must not free it while it is copied
      each.saved = std::exchange(pool.saved[each.start], {});
  }
  Status status = map_all(epoch, moving);
  std::vector<void*> hosts;
  {
    const MutexLock lock(ledger_.mutex);
    in_transit_ -= bytes;
    renew();
    const bool same = this->epoch() == epoch;
    if (!same) status = reset_meanwhile(device_);
    for (Moving& each : moving) {
      if (same && !status.ok()) {
        segment_at(each.start)->chunks[each.start].remains = each.mapped;
        pool.saved[each.start] = std::move(each.saved);
        continue;
      }
      if (each.saved.host != nullptr) hosts.push_back(each.saved.host);
      if (!same) continue;
      Segment& segment = *segment_at(each.start);
      const AllocEvent event =
          event_of_chunk(AllocEvent::Kind::segment_allocated, segment, each.start, each.bytes);
      segment.chunks[each.start] = {each.bytes};
      ledger_.emit(event);
      pool.saved.erase(each.start);
    }
    if (status.ok()) pool.asleep = false;
  }
  for (void* host : hosts) source_.host_free(host);
  return status;
}

}  // namespace ember::inline v0::memory
