#include "ember/sanitizer/engine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda::sanitizer {
namespace {

using Kind = Activity::Kind;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

Side side_of(const Entry& entry) {
  return {entry.operation, entry.writes, reinterpret_cast<const void*>(entry.bytes.first),
          entry.bytes.last - entry.bytes.first, entry.arguments};
}

/// What a query says to be over.
Known as_queried(const Known& known) {
  Known over;
  over.by_queries = known.by_waits;
  over.by_queries.join(known.by_queries);
  return over;
}

void tell_allocation(const Allocation* allocation, Conflict& conflict) {
  if (allocation == nullptr) return;
  conflict.allocation = reinterpret_cast<const void*>(allocation->first);
  conflict.allocation_bytes = allocation->bytes;
  conflict.allocation_stack = allocation->stack;
  conflict.free_stack = allocation->free_stack;
}

}  // namespace

Engine::Stream& Engine::stream_of(int device, const void* native) {
  const Handle handle{device, native};
  if (last_stream_ != nullptr && handle == last_handle_) return *last_stream_;
  const auto [at, is_new] = streams_.try_emplace(handle);
  if (is_new) at->second.actor = actors_++;
  last_handle_ = handle;
  last_stream_ = &at->second;
  return at->second;
}

Engine::Host& Engine::host_of(std::uint32_t thread) {
  const auto [at, is_new] = hosts_.try_emplace(threads_ == Threads::as_one ? 0 : thread);
  if (is_new) at->second.actor = actors_++;
  return at->second;
}

Engine::Stream& Engine::enqueue_on(const Activity& activity) {
  Stream& stream = stream_of(activity.device, activity.stream);
  const Host& host = host_of(activity.thread);
  if (host.actor >= stream.seen.size()) stream.seen.resize(host.actor + 1);
  // Most operations come without anything new to be known.
  if (std::uint64_t& seen = stream.seen[host.actor]; seen != host.version) {
    stream.known.join(host.known);
    seen = host.version;
  }
  return stream;
}

Operation Engine::operation(const Activity& activity, bool host, Epoch epoch) const {
  Operation made;
  made.kind = activity.kind;
  made.epoch = epoch;
  made.serial = serial_;
  made.host = host;
  made.device = activity.device;
  made.stream = activity.stream;
  made.stream_id = activity.stream_id;
  made.thread = activity.thread;
  made.name = activity.name;
  made.stack = activity.stack;
  return made;
}

std::span<Entry> Engine::entries_of(const Activity& activity, const Operation& operation) {
  accessed_.clear();
  for (std::size_t i = 0; i < activity.accesses.size(); ++i) {
    const Access& each = activity.accesses[i];
    if (each.bytes == 0) continue;
    const Arguments arguments(static_cast<int>(i), each);
    Bytes bytes = bytes_of(each);
    const auto same = std::find_if(accessed_.begin(), accessed_.end(),
                                   [&](const Entry& entry) { return entry.bytes == bytes; });
    if (same != accessed_.end()) {
      same->writes |= each.writes;
      same->arguments.join(arguments);
    } else {
      accessed_.push_back({std::move(bytes), each.writes, false, arguments, operation});
    }
  }
  return accessed_;
}

void Engine::work(const Activity& activity, std::vector<Conflict>& out) {
  ++serial_;
  Stream& stream = enqueue_on(activity);
  const Epoch epoch{stream.actor, stream.known.by_waits.of(stream.actor) + 1};
  stream.known.by_waits.raise(epoch.actor, epoch.number);
  placed_ = {serial_, epoch, epoch, &stream.known.by_waits};
  if (!activity.accesses_known) {
    ++unchecked_;
    last_unchecked_ = serial_;
    return;
  }
  const Operation made = operation(activity, false, epoch);
  for (Entry& each : entries_of(activity, made)) {
    // The host is free again at once with what a copy reads of ordinary memory.
    if (activity.kind == Kind::copied && !each.writes &&
        activity.accesses[static_cast<std::size_t>(each.arguments.first)].memory ==
            Access::Memory::ordinary) {
      Host& host = host_of(activity.thread);
      Operation& as = each.operation;
      as.host = true;
      as.epoch = {host.actor, host.known.by_waits.of(host.actor) + 1};
      host.known.by_waits.raise(as.epoch.actor, as.epoch.number);
      ++host.version;
      placed_.source = as.epoch;
    }
    access(each, made, stream.known, out);
  }
  if (expects_writes_) check_written(activity, made, out);
}

void Engine::host_work(const Activity& activity, std::vector<Conflict>& out) {
  ++serial_;
  Host& host = host_of(activity.thread);
  const Epoch epoch{host.actor, host.known.by_waits.of(host.actor) + 1};
  host.known.by_waits.raise(epoch.actor, epoch.number);
  ++host.version;
  placed_ = {serial_, epoch, epoch, &host.known.by_waits};
  const Operation made = operation(activity, true, epoch);
  for (const Entry& each : entries_of(activity, made)) access(each, made, host.known, out);
  if (expects_writes_) check_written(activity, made, out);
}

Allocation* Engine::followed(const Access& access) {
  if (access.bytes == 0) return nullptr;
  Allocation* const found = shadow_.find(number(access.address));
  if (found == nullptr || found->device < 0 || found->freed) return nullptr;
  if (found->born < last_unchecked_) {  // what came since may have written any of it
    found->written.add_all();
    found->surely.reset();
  }
  return found->written.all() && !found->surely ? nullptr : found;
}

// Work that could make a read right is enqueued before it: events and streams order no other. So
// what was seen before is all that counts.
void Engine::check_written(const Activity& activity, const Operation& operation,
                           std::vector<Conflict>& out) {
  for (std::size_t i = 0; i < activity.accesses.size(); ++i) {
    const Access& each = activity.accesses[i];
    Allocation* const allocation = each.writes ? nullptr : followed(each);
    if (allocation == nullptr) continue;
    const Bytes bytes = bytes_of(each);
    Written::Range missing = allocation->written.missing(bytes);
    const bool certain = !missing.empty();
    if (!certain && allocation->surely) missing = allocation->surely->missing(bytes);
    if (missing.empty()) continue;
    Conflict& made = out.emplace_back();
    made.kind = Conflict::Kind::never_written;
    if (!certain) made.certainty = Conflict::Certainty::possible;
    made.now = {operation, false, each.address, each.bytes, {static_cast<int>(i), each}};
    made.missing = reinterpret_cast<const void*>(missing.first);
    made.missing_bytes = missing.last - missing.first;
    tell_allocation(allocation, made);
    allocation->written.add(bytes);  // said once
    allocation->surely.reset();
  }
  for (const Access& each : activity.accesses) {
    Allocation* const allocation = each.writes ? followed(each) : nullptr;
    if (allocation == nullptr) continue;
    allocation->written.add(bytes_of(each));
    if (allocation->surely && !each.partly) allocation->surely->add(bytes_of(each));
  }
}

void Engine::access(const Entry& entry, const Operation& operation, const Known& known,
                    std::vector<Conflict>& out) {
  Allocation* const allocation = shadow_.find(entry.bytes.first);
  const auto conflict = [&](Conflict::Kind kind, Conflict::Certainty certainty,
                            const Side& before) {
    Conflict& made = out.emplace_back();
    made.kind = kind;
    made.certainty = certainty;
    made.now = side_of(entry);
    made.now.operation = operation;
    made.before = before;
    tell_allocation(allocation, made);
  };
  if (allocation != nullptr && allocation->freed && !allocation->of_graph)
    conflict(Conflict::Kind::use_after_free, Conflict::Certainty::certain,
             {allocation->free,
              true,
              reinterpret_cast<const void*>(allocation->first),
              allocation->bytes,
              {}});
  Accesses& accesses = allocation != nullptr ? allocation->accesses : shadow_.rest();
  const std::size_t before = accesses.count();
  accesses.each_near(entry.bytes, [&](const Entry& earlier) {
    const Epoch& epoch = earlier.operation.epoch;
    if (!(entry.writes || earlier.writes) || epoch.actor == operation.epoch.actor ||
        known.by_waits.covers(epoch))
      return;
    const Overlap shared = overlap(entry.bytes, earlier.bytes);
    if (shared == Overlap::none) return;
    Conflict::Certainty certainty = Conflict::Certainty::certain;
    if (known.by_queries.covers(epoch))
      certainty = Conflict::Certainty::by_query;
    else if (shared == Overlap::possible)
      certainty = Conflict::Certainty::possible;
    conflict(earlier.stale ? Conflict::Kind::reuse : Conflict::Kind::race, certainty,
             side_of(earlier));
  });
  if (allocation != nullptr && allocation->device < 0) note_use(*allocation, operation);
  const bool whole = allocation != nullptr && entry.bytes.dense() &&
                     entry.bytes.first == allocation->first &&
                     entry.bytes.last - entry.bytes.first >= allocation->bytes;
  accesses.add(entry, whole);
  entries_ += accesses.count() - before;
}

// Whoever allocates pinned memory has a pointer to it, which is unwatched if work of devices uses
// it and no access of the host's is told. So is one that was asked for, unless the program itself
// says what it does there: other accesses are of the library's operations.
void Engine::note_use(Allocation& pinned, const Operation& operation) {
  const bool by_host = operation.host || operation.kind == Kind::host_function_queued;
  note_pinned(pinned, [&] {
    (by_host ? pinned.told : pinned.used) = true;
    const std::string_view name = operation.name == nullptr ? "" : operation.name;
    pinned.said |= operation.host && (name == "host_reads" || name == "host_writes");
  });
}

template <class Change>
void Engine::note_pinned(Allocation& pinned, const Change& change) {
  if (host_is_guarded_) return;
  const auto unwatched = [&] {
    return (pinned.used && !pinned.told) || (pinned.exposed && !pinned.said);
  };
  const bool before = unwatched();
  change();
  if (unwatched() == before) return;
  if (before)
    --exposed_;
  else
    ++exposed_;
}

void Engine::expose(const Activity& activity) {
  Allocation* const known = shadow_.find(number(activity.address));
  if (known != nullptr && known->device >= 0) {  // whoever has it writes it unseen
    known->written.add_all();
    known->surely.reset();
  } else if (known != nullptr && activity.name == std::string_view("data_ptr"))
    note_pinned(*known, [&] { known->exposed = true; });
  else
    ++exposed_;
}

void Engine::learn(const Activity& activity, const Known& known) {
  Host& host = host_of(activity.thread);
  host.known.join(known);
  ++host.version;
  prune();
}

void Engine::begin_wait(const Activity& activity) {
  Wait& wait = waits_[activity.thread] = {};
  if (activity.event != nullptr) {
    if (const auto at = events_.find(activity.event); at != events_.end())
      wait.one = at->second.known;
    return;
  }
  // The end says whether this is for the default stream or the device.
  if (activity.stream == nullptr)
    for (const auto& [handle, stream] : streams_)
      if (handle.first == activity.device) wait.all.join(stream.known);
  wait.one = stream_of(activity.device, activity.stream).known;
}

void Engine::end_wait(const Activity& activity) {
  // Watching may have begun in the middle of it.
  if (!waits_.contains(activity.thread)) begin_wait(activity);
  const Wait wait = std::move(waits_.extract(activity.thread).mapped());
  learn(activity, activity.kind == Kind::device_synchronized ? wait.all : wait.one);
}

// What streams hold that were named by record_stream() is over before the memory is used again.
void Engine::free(const Activity& activity) {
  Allocation* const allocation = shadow_.find(number(activity.address));
  if (allocation == nullptr) return;
  allocation->freed = true;
  allocation->free_stack = activity.stack;
  allocation->free = operation(activity, true, {});
  allocation->free.name = "free";
  if (allocation->ordered)
    allocation->given = stream_of(activity.device, activity.stream).known.by_waits;
  for (const auto& [handle, stream] : streams_)
    if (std::find(allocation->recorded.begin(), allocation->recorded.end(), stream.actor) !=
        allocation->recorded.end())
      allocation->done.join(stream.known.by_waits);
}

// Whatever stream gets memory again of those that come and go in the order of streams, the one that
// gave it back has come to there. Others know nothing of that.
void Engine::follow_frees(const Activity& activity) {
  Stream& stream = stream_of(activity.device, activity.stream);
  shadow_.each_in(number(activity.address), activity.bytes, [&](const Allocation& earlier) {
    if (earlier.ordered && earlier.freed) stream.known.by_waits.join(earlier.given);
  });
}

void Engine::add_before_reuse(std::uint32_t thread, int device, const void* stream,
                              const void* freed, Clock& out) {
  out.join(host_of(thread).known.by_waits);
  if (device >= 0) out.join(stream_of(device, stream).known.by_waits);
  if (const Allocation* const allocation = shadow_.find(number(freed)); allocation != nullptr)
    out.join(allocation->done);
}

void Engine::check_read(const Access& access, const char* name, std::vector<Conflict>& out) {
  Activity activity{.kind = Kind::host_accessed, .name = name};
  activity.accesses = {&access, 1};
  const Operation made = operation(activity, true, {});
  check_written(activity, made, out);
  if (Allocation* const read = shadow_.find(number(access.address));
      read != nullptr && read->device < 0)
    note_use(*read, made);
}

void Engine::hand_out_pinned(const Activity& activity, std::vector<Conflict>& out) {
  // It may lie where several were that are free now.
  shadow_.each_in(number(activity.address), activity.bytes, [&](Allocation& earlier) {
    entries_ -= earlier.accesses.count();
    entries_ += earlier.accesses.forget(
        [&](const Entry& entry) { return earlier.done.covers(entry.operation.epoch); });
  });
  Allocation& made = shadow_.begin(number(activity.address), activity.bytes);
  made.bytes = activity.requested;
  made.stack = activity.stack;
  // From now on its user may read and write it, unseen: so as if all of it were written now.
  const Access write{activity.address, activity.requested, true, Access::Memory::pinned};
  Activity as_write = activity;
  as_write.name = "allocate_pinned";
  as_write.accesses = {&write, 1};
  host_work(as_write, out);
  made.told = activity.name != nullptr && activity.name == std::string_view(kPinnedForTensor);
}

// All its work is over, or gone.
void Engine::reset(const Activity& activity) {
  Known over;
  for (const auto& [handle, stream] : streams_)
    if (handle.first == activity.device) over.join(stream.known);
  std::erase_if(events_, [&](const auto& at) { return at.second.device == activity.device; });
  shadow_.end_device(activity.device);
  prune_at_ = 0;
  learn(activity, over);
}

// What every later operation knows to be over, since its thread does, conflicts with nothing.
void Engine::prune() {
  if (entries_ < prune_at_) return;
  entries_ = shadow_.forget([this](const Entry& entry) {
    return std::all_of(hosts_.begin(), hosts_.end(), [&](const auto& host) {
      return host.second.known.by_waits.covers(entry.operation.epoch);
    });
  });
  prune_at_ = std::max<std::size_t>(256, 2 * entries_);
}

std::set<std::uint64_t> Engine::kept() {
  std::set<std::uint64_t> serials;
  (void)shadow_.forget([&](const Entry& entry) {
    serials.insert(entry.operation.serial);
    return false;
  });
  return serials;
}

void Engine::observe(const Activity& activity, std::vector<Conflict>& out) {
  switch (activity.kind) {
    case Kind::kernel_launched:
    case Kind::copied:
    case Kind::filled:
    case Kind::host_function_queued: return work(activity, out);
    case Kind::host_accessed: return host_work(activity, out);
    case Kind::host_exposed: return expose(activity);
    case Kind::stream_created: (void)stream_of(activity.device, activity.stream); return;
    case Kind::event_recorded:
      events_[activity.event] = {activity.device, enqueue_on(activity).known};
      return;
    case Kind::event_waited: {
      Stream& stream = enqueue_on(activity);
      if (const auto at = events_.find(activity.event); at != events_.end())
        stream.known.join(at->second.known);
      return;
    }
    case Kind::event_created:
    case Kind::event_destroyed: events_.erase(activity.event); return;
    case Kind::wait_began: return begin_wait(activity);
    case Kind::stream_synchronized:
    case Kind::event_synchronized:
    case Kind::device_synchronized: return end_wait(activity);
    case Kind::stream_queried:
      if (activity.done)
        learn(activity, as_queried(stream_of(activity.device, activity.stream).known));
      return;
    case Kind::event_queried:
      if (const auto at = events_.find(activity.event); activity.done && at != events_.end())
        learn(activity, as_queried(at->second.known));
      return;
    case Kind::device_reset: return reset(activity);
    case Kind::memory_allocated: {
      if (activity.ordered) follow_frees(activity);
      Allocation& made = shadow_.begin(number(activity.address), activity.bytes);
      made.bytes = activity.requested;
      made.device = activity.device;
      made.ordered = activity.ordered;
      made.stack = activity.stack;
      made.born = serial_;
      made.of_graph = activity.for_capture;
      if (!expects_writes_) made.written.add_all();
      if (doubts_writes_) made.surely.emplace(Written::Bound::below);
      return;
    }
    case Kind::memory_free_requested:
    case Kind::pinned_returned: return free(activity);
    case Kind::memory_free_completed:
      if (Allocation* const freed = shadow_.find(number(activity.address)); freed != nullptr) {
        entries_ -= freed->accesses.count();
        entries_ += freed->accesses.forget(
            [&](const Entry& entry) { return freed->done.covers(entry.operation.epoch); });
      }
      return;
    case Kind::memory_stream_recorded:
    case Kind::pinned_stream_recorded:
      if (Allocation* const used = shadow_.find(number(activity.address)); used != nullptr) {
        const int device = activity.peer >= 0 ? activity.peer : activity.device;
        used->recorded.push_back(stream_of(device, activity.stream).actor);
      }
      return;
    case Kind::pinned_handed_out: return hand_out_pinned(activity, out);
    case Kind::segment_allocated:
    case Kind::segment_freed:
      // Where nothing waits for work that uses it, whoever has the memory next is compared with it.
      if (activity.ordered) return;
      return shadow_.end(number(activity.address), activity.bytes);
    case Kind::pinned_freed: return shadow_.end(number(activity.address), activity.bytes);
    default: return;
  }
}

}  // namespace ember::inline v0::cuda::sanitizer
