#include "ember/memory/ledger.h"

#include <algorithm>
#include <iterator>

#include "ember/memory/back_end.h"
#include "ember/memory/scopes.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::memory {

using Kind = AllocEvent::Kind;

namespace {

cuda::Activity::Kind activity_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::allocated: return cuda::Activity::Kind::memory_allocated;
    case Kind::free_requested: return cuda::Activity::Kind::memory_free_requested;
    case Kind::free_completed: return cuda::Activity::Kind::memory_free_completed;
    case Kind::stream_recorded: return cuda::Activity::Kind::memory_stream_recorded;
    case Kind::segment_allocated: return cuda::Activity::Kind::segment_allocated;
    case Kind::segment_freed: return cuda::Activity::Kind::segment_freed;
    default: return cuda::Activity::Kind::out_of_memory;
  }
}

}  // namespace

Block* Ledger::containing(const void* inside) {
  const auto position = reinterpret_cast<std::uintptr_t>(inside);
  if (Block* block = map.find(position)) return block;
  auto after = segments.upper_bound(position);
  if (after == segments.begin()) return nullptr;
  const Segment& segment = (--after)->second;
  if (position - segment.address >= segment.size) return nullptr;
  Block* block = segment.first;
  while (block->next != nullptr && block->next->position() <= position) block = block->next;
  return block;
}

const Segment* Ledger::overlapping(std::uintptr_t address, std::size_t bytes) const {
  const auto after = segments.lower_bound(address + bytes);
  if (after == segments.begin()) return nullptr;
  const Segment& last = std::prev(after)->second;
  return last.address + last.size > address ? &last : nullptr;
}

Block* Ledger::add_segment(const Segment& segment) {
  Block* block = records.take();
  block->set(segment.address, Block::claimed);
  block->size = segment.size;
  block->requested.store(0, std::memory_order_relaxed);
  Segment& entered = segments[segment.address] = segment;
  entered.first = block;
  ++entered.pool->segments;
  block->segment = &entered;
  map.insert(block);
  return block;
}

Segment Ledger::remove_segment(Block* whole) {
  const Segment segment = *whole->segment;
  whole->set(Block::releasing);
  whole->segment = nullptr;
  map.erase(whole);
  segments.erase(segment.address);
  return segment;
}

std::uint64_t Ledger::pool_of(const Segment& segment) noexcept { return segment.pool->id.second; }

namespace {

using Action = cuda::MemoryEvent::Action;

std::uint16_t short_pool(std::uint64_t pool) noexcept {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(pool, 0xFFFF));
}

std::uint64_t number(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

void Ledger::track(Kind kind, Block& block) {
  const bool in_use_before = kind == Kind::freed || kind == Kind::free_requested;
  const Tracking now = tracking();
  if (kind == Kind::allocated)
    block.origin = {caller().tag, caller().stack, block.serial.load(std::memory_order_relaxed)};
  const Block::Origin origin = block.origin_of_use();
  if (kind == Kind::allocated || in_use_before) {
    const auto bytes = static_cast<std::int64_t>(block.size);
    if (origin.tag != 0) Scopes::get().change(device_, origin.tag, in_use_before ? -bytes : bytes);
  }
  if (!now.entries) return;
  cuda::MemoryEvent event;
  event.address = block.position();
  event.size = block.requested_bytes();
  event.stream = number(block.segment->stream);
  event.pool = short_pool(pool_of(*block.segment));
  event.tag = origin.tag;
  if (now.context >= Tracking::Context::alloc) event.stack = origin.stack;
  if (kind == Kind::allocated) return history.add(Action::alloc, event);
  if (in_use_before) {
    // A stack of the free itself is there only if it is wanted, and this is a free.
    if (now.context == Tracking::Context::all && caller().stack != 0) event.stack = caller().stack;
    history.add(Action::free_requested, event);
  }
  if (kind != Kind::free_requested) history.add(Action::free_completed, event);
}

void Ledger::track(const AllocEvent& from) {
  const Tracking now = tracking();
  if (!now.entries) return;
  cuda::MemoryEvent event;
  event.address = number(from.address);
  event.size = from.bytes;
  event.stream = number(from.stream);
  event.pool = short_pool(from.pool);
  if (now.context >= Tracking::Context::alloc)
    event.stack = caller().stack != 0 ? caller().stack : from.stack;
  switch (from.kind) {
    case Kind::segment_allocated: return history.add(Action::segment_alloc, event);
    case Kind::segment_freed: return history.add(Action::segment_free, event);
    case Kind::out_of_memory:
      event.address = from.device_free;
      event.tag = caller().tag;
      return history.add(Action::oom, event);
    default: return;
  }
}

void Ledger::report(const AllocEvent& event) {
  if (event.kind == Kind::retried || event.kind == Kind::synchronized_all) return;
  if (cuda::inside_notice()) return;  // what an observer does is not reported
  if (event.kind == Kind::freed) {
    for (const Kind kind : {Kind::free_requested, Kind::free_completed}) {
      AllocEvent part = event;
      part.kind = kind;
      report(part);
    }
    return;
  }
  shards.settle(stats);
  cuda::Activity activity;
  activity.kind = activity_of(event.kind);
  activity.device = device_;
  activity.peer = event.stream_device;
  activity.stream = event.stream;
  activity.address = event.address;
  activity.bytes = event.bytes;
  activity.requested = event.requested;
  activity.total_allocated = static_cast<std::uint64_t>(stats.allocated());
  activity.total_reserved = static_cast<std::uint64_t>(stats.reserved());
  cuda::detail::record(activity);
}

}  // namespace ember::inline v0::memory
