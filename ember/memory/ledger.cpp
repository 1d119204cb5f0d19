#include "ember/memory/ledger.h"

#include <algorithm>
#include <iterator>

#include "ember/memory/back_end.h"
#include "ember/memory/scopes.h"
#include "ember/runtime/capture.h"
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

bool Ledger::in_use(const std::pair<std::uintptr_t, std::uint64_t>& allocation) const {
  const Block* const block = map.find(allocation.first);
  return block != nullptr && block->state() == Block::allocated &&
         block->serial.load(std::memory_order_relaxed) == allocation.second;
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
  Segment segment = *whole->segment;
  whole->set(Block::releasing);
  whole->segment = nullptr;
  map.erase(whole);
  segments.erase(segment.address);
  return segment;
}

Block* Ledger::split(Block* block, std::size_t bytes) {
  Block* rest = records.take();
  rest->set(block->position() + bytes, Block::claimed);
  rest->size = block->size - bytes;
  rest->segment = block->segment;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->size = bytes;
  map.insert(rest);
  return rest;
}

void Ledger::absorb_next(Block* block) {
  Block* gone = block->next;
  block->size += gone->size;
  block->next = gone->next;
  if (block->next != nullptr) block->next->previous = block;
  map.erase(gone);
  records.give_back(gone);
}

cuda::MemPoolId Ledger::pool_of(const Segment& segment) noexcept { return segment.pool->id; }
bool Ledger::is_ordered(const Segment& segment) noexcept {
  return segment.pool->memory.is_ordered();
}

namespace {

using Action = cuda::MemoryEvent::Action;

/// As in MemoryEvent::pool.
std::uint16_t short_pool(const cuda::MemPoolId& pool) noexcept {
  constexpr std::uint64_t kOfCapture = 0x8000, kMost = 0x7FFF;
  if (pool.first != 0) return static_cast<std::uint16_t>(kOfCapture | std::min(pool.first, kMost));
  return static_cast<std::uint16_t>(std::min(pool.second, kMost));
}

std::uint64_t number(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace

void track_block(int device, Kind kind, Block& block, EventLog& log) noexcept {
  const bool in_use_before = kind == Kind::freed || kind == Kind::free_requested;
  const Tracking now = tracking();
  if (kind == Kind::allocated)
    block.origin = {caller().tag, caller().stack, block.serial.load(std::memory_order_relaxed)};
  const Block::Origin origin = block.origin_of_use();
  if (kind == Kind::allocated || in_use_before) {
    const auto bytes = static_cast<std::int64_t>(block.size);
    if (origin.tag != 0) Scopes::get().change(device, origin.tag, in_use_before ? -bytes : bytes);
  }
  if (!now.entries) return;
  cuda::MemoryEvent event;
  event.address = block.position();
  event.size = block.requested_bytes();
  event.stream = number(block.segment->stream);
  event.pool = short_pool(block.segment->pool->id);
  event.tag = origin.tag;
  if (now.context >= Tracking::Context::alloc) event.stack = origin.stack;
  if (kind == Kind::allocated) {
    if (const std::uint64_t stamp = add_entry(log, Action::alloc, event)) block.since = stamp;
    return;
  }
  if (in_use_before) {
    // A stack of the free itself is there only if it is wanted, and this is a free.
    if (now.context == Tracking::Context::all && caller().stack != 0) event.stack = caller().stack;
    (void)add_entry(log, Action::free_requested, event, block.since);
  }
  if (kind != Kind::free_requested)
    (void)add_entry(log, Action::free_completed, event, block.since);
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
    case Kind::segment_allocated:
      (void)add_entry(log, from.chunk ? Action::segment_map : Action::segment_alloc, event);
      return;
    case Kind::segment_freed:
      (void)add_entry(log, from.chunk ? Action::segment_unmap : Action::segment_free, event);
      return;
    case Kind::out_of_memory:
      event.address = from.device_free;
      event.tag = caller().tag;
      (void)add_entry(log, Action::oom, event);
      return;
    default: return;
  }
}

void Ledger::keep(const HistoryWish& wish) {
  if (wish.clear || wish.most < store_.most()) {
    // What goes now does not come back when more is kept later.
    std::vector<cuda::MemoryEvent> kept;
    (void)merge(wish.clear ? 0 : wish.most, kept);
    store_.forget(kept.empty() ? log.last() : kept.front().sequence - 1);
  }
  if (wish.clear) {
    log.forget();
    shards.each_log([](EventLog& other) { other.forget(); });
  }
  store_.keep(wish.most, wish.skipped);
}

void Ledger::history(std::vector<cuda::MemoryEvent>& out) {
  const std::size_t before = out.size();
  const std::uint64_t total = merge(store_.most(), out);
  for (std::size_t at = before; at < out.size(); ++at) out[at].sequence = total - (out.size() - at);
}

// The last entries by their stamps; how many there were. Note [Order of entries].
std::uint64_t Ledger::merge(std::size_t most, std::vector<cuda::MemoryEvent>& out) {
  std::uint64_t total = log.total(), last = log.last();
  shards.each_log([&total, &last](const EventLog& other) {
    total += other.total();
    last = std::max(last, other.last());
  });
  EventStore::Runs runs;
  store_.collect(runs);
  log.raise(last);
  log.collect(runs);
  shards.each_log([&runs, last](EventLog& other) {
    other.raise(last);
    other.collect(runs);
  });
  merge_runs(runs, store_.forgotten(), most, out);
  return total;
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
  activity.ordered = event.ordered;
  // Asked now: when it is told, the capture may be over.
  if (event.kind == Kind::allocated && cuda::any_capture()) [[unlikely]]
    activity.for_capture =
        cuda::is_captured({const_cast<void*>(event.stream), device_, cuda::device_epoch(device_)});
  activity.total_allocated = static_cast<std::uint64_t>(stats.allocated());
  activity.total_reserved = static_cast<std::uint64_t>(stats.reserved());
  cuda::detail::record(activity);
}

}  // namespace ember::inline v0::memory
