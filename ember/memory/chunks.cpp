// The allocator and the device, of segments that grow: a range of addresses for each stream, pool
// and kind of blocks, with memory behind some of them, in chunks.
#include <utility>

#include "ember/base/error.h"
#include "ember/memory/device_allocator.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::memory {

using Kind = AllocEvent::Kind;

AllocEvent DeviceAllocator::event_of_chunk(Kind kind, const Segment& segment, std::uintptr_t start,
                                           std::size_t bytes) {
  return {.kind = kind,
          .small = segment.small,
          .stream = segment.stream,
          .address = reinterpret_cast<void*>(start),
          .bytes = bytes,
          .chunk = true,
          .segments = 1 - segment.chunks_beside(start, bytes),
          .pool = segment.pool->id,
          .stack = segment.stack};
}

// Of memory that comes from elsewhere, each segment is an allocation; and so is each block of a
// pool that does not split.
bool DeviceAllocator::may_extend(const Request& request) const noexcept {
  return grows_.load(std::memory_order_relaxed) && request.pool->back_end.caps().keeps &&
         &request.pool->memory == &device_memory_ && !request.pool->options.no_split;
}

// Lets a segment grow for the request, and hands out a block there. not_supported: there is none
// that can.
Status DeviceAllocator::extend(const Request& request, BlockUse& out) {
  Chunk chunk;
  Status status = extend_by(request, chunk, out);
  if (status.code() != Code::out_of_memory) return status;
  // There may be enough for what is missing.
  Request least = request;
  least.below = chunk.bytes;
  Chunk smaller;
  Status second = extend_by(least, smaller, out);
  return second.code() == Code::not_supported ? std::move(status) : std::move(second);
}

// By a chunk, which is left behind if there is not enough memory for it.
Status DeviceAllocator::extend_by(const Request& request, Chunk& chunk, BlockUse& out) {
  EMBER_TRY(begin_growth(request, chunk, out));
  if (out.block == nullptr && chunk.growth.part == nullptr && request.below == 0)
    EMBER_TRY(add_range(request, chunk, out));
  if (out.block != nullptr) return {};
  const BackEnd::Growth& growth = chunk.growth;
  if (growth.part == nullptr) return Code::not_supported;
  Status status = source_.map(chunk.epoch, reinterpret_cast<void*>(chunk.start), chunk.bytes);
  const MutexLock lock(ledger_.mutex);
  in_transit_ -= chunk.bytes;
  end_asking(*request.pool);
  if (growth.part->segment == nullptr) {  // a reset has taken it from under all three
    for (Block* block : {growth.before, growth.part, growth.after})
      if (block != nullptr) ledger_.records.give_back(block);
    return Status(Code::context_is_destroyed,
                  "device " + std::to_string(device_) + " was reset during an allocation");
  }
  BackEnd& back_end = request.pool->back_end;
  if (!status.ok()) {
    back_end.cancel_growth(ledger_, growth);
    return status;
  }
  Segment& segment = *growth.part->segment;
  const AllocEvent event =
      event_of_chunk(Kind::segment_allocated, segment, chunk.start, chunk.bytes);
  segment.chunks.emplace(chunk.start, SegmentChunk{chunk.bytes});
  ledger_.emit(event);
  Block* const block = back_end.end_growth(ledger_, growth);
  back_end.fit(ledger_, block, request);
  out = ledger_.hand_out(block, request.requested);
  return {};
}

// Finds where to grow; or a block that was freed meanwhile.
Status DeviceAllocator::begin_growth(const Request& request, Chunk& chunk, BlockUse& out) {
  const MutexLock lock(ledger_.mutex);
  renew();
  return find_growth(request, chunk, out);
}

Status DeviceAllocator::find_growth(const Request& request, Chunk& chunk, BlockUse& out) {
  if ((out = take(request)).block != nullptr) return {};
  chunk.growth = request.pool->back_end.begin_growth(ledger_, request);
  if (chunk.growth.part == nullptr) return {};
  chunk.epoch = epoch();
  chunk.start = chunk.growth.part->position();
  chunk.bytes = chunk.growth.part->size;
  if (!within_limit(chunk.bytes)) {
    request.pool->back_end.cancel_growth(ledger_, chunk.growth);
    return Code::out_of_memory;
  }
  in_transit_ += chunk.bytes;
  ++request.pool->growths;
  return {};
}

// A range for the request's stream and pool, in which to grow: at once, since one without memory
// goes when the cache is emptied. Whatever keeps it from being made keeps nobody from an ordinary
// segment.
Status DeviceAllocator::add_range(const Request& request, Chunk& chunk, BlockUse& out) {
  const std::uint32_t epoch = this->epoch();
  void* base = nullptr;
  Segment segment;
  if (!source_.reserve(epoch, base, segment.size).ok()) return Code::not_supported;
  const MutexLock lock(ledger_.mutex);
  renew();
  if (epoch_ != epoch) return Code::not_supported;  // gone with the reset
  segment.address = reinterpret_cast<std::uintptr_t>(base);
  segment.pool = request.pool;
  segment.stream = request.stream;
  segment.small = is_small(request.size);
  segment.sharable = !request.pool->is_private();
  segment.grows = true;
  segment.free_blocks = &request.pool->lists_of(request.stream).of(segment.small);
  segment.stack = caller().stack;
  (void)request.pool->back_end.set_unmapped(ledger_, ledger_.add_segment(segment));
  return find_growth(request, chunk, out);
}

// ---- Back to the device

bool DeviceAllocator::is_of_range(const Block* block) noexcept {
  const MutexLock lock(ledger_.mutex);
  return block->segment != nullptr && block->segment->grows;
}

// The work that used it is that of its stream: what other streams did was waited for before it was
// free. But for replays of graphs, which may be on any.
Status DeviceAllocator::wait_for_work(driver::StreamHandle stream, bool anywhere) noexcept {
  Status status = anywhere ? Code::invalid_handle : source_.stream_synchronize(stream);
  if (status.code() == Code::invalid_handle) status = source_.device_synchronize(device_);
  return is_sticky(status.code()) ? Status() : std::move(status);  // a fault ends work, too
}

// For a block that is a chunk, or a range without any. Of one that sleeps, what the host keeps
// goes.
Status DeviceAllocator::give_back_chunk(Block* block) noexcept {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  std::uint32_t epoch = 0;
  driver::StreamHandle stream;
  bool mapped = false, remains = false, anywhere = false;
  {
    const MutexLock lock(ledger_.mutex);
    if (block->segment == nullptr) {  // gone with a reset
      ledger_.records.give_back(block);
      return {};
    }
    epoch = epoch_;
    start = block->position();
    bytes = block->size;
    stream = {block->segment->stream, device_, epoch};
    anywhere = block->segment->pool->had_graphs;
    mapped = block->segment->maps(start);
    if (const SegmentChunk* chunk = block->segment->chunk_at(start)) remains = chunk->remains;
    // A stream that is captured cannot be waited for.
    if (mapped && cuda::any_capture()) {
      (void)block->segment->pool->back_end.keep(ledger_, block);
      return {};
    }
  }
  Status status;
  if (mapped) status = wait_for_work(stream, anywhere);
  if (status.ok() && (mapped || remains))
    status = source_.unmap(epoch, reinterpret_cast<void*>(start), bytes);
  Segment range;
  SavedChunk saved;
  bool whole = false;
  {
    const MutexLock lock(ledger_.mutex);
    if (block->segment == nullptr) {
      ledger_.records.give_back(block);
      return {};
    }
    Segment& segment = *block->segment;
    if (!status.ok()) {  // still ours, unless a reset is about to take it
      (void)segment.pool->back_end.keep(ledger_, block);
      return status.code() == Code::context_is_destroyed ? Status() : std::move(status);
    }
    segment.chunks.erase(start);
    if (mapped) ledger_.emit(event_of_chunk(Kind::segment_freed, segment, start, bytes));
    if (const auto kept = segment.pool->saved.find(start); kept != segment.pool->saved.end()) {
      saved = std::move(kept->second);
      segment.pool->saved.erase(kept);
    }
    block = segment.pool->back_end.set_unmapped(ledger_, block);
    whole = !block->is_split();
    if (whole) {
      segment.free_blocks->unmapped.erase(block->position());
      range = ledger_.remove_segment(block);
    }
  }
  if (saved.host != nullptr) source_.host_free(saved.host);
  return whole ? release_range(range, block, epoch) : Status();
}

// Of one whose last memory went: its addresses.
Status DeviceAllocator::release_range(const Segment& range, Block* block,
                                      std::uint32_t epoch) noexcept {
  Status status = source_.release(epoch, reinterpret_cast<void*>(range.address));
  const MutexLock lock(ledger_.mutex);
  ledger_.records.give_back(block);
  if (epoch_ != epoch) return {};  // the pool may be gone, too
  --range.pool->segments;
  if (status.ok() || status.code() == Code::context_is_destroyed) {
    drop_unused_pools();
    return {};
  }
  (void)range.pool->back_end.set_unmapped(ledger_, ledger_.add_segment(range));
  return status;
}

}  // namespace ember::inline v0::memory
