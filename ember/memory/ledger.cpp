#include "ember/memory/ledger.h"

#include "ember/memory/back_end.h"
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
