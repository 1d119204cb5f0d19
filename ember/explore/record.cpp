#include "ember/explore/record.h"

#include <algorithm>

#include "ember/runtime/runtime.h"

namespace ember::inline v0::explore {
namespace {

using cuda::Access;
using cuda::Activity;
using cuda::sanitizer::Conflict;
using cuda::sanitizer::Overlap;
using Kind = Activity::Kind;

bool is_work(Kind kind) noexcept {
  return kind == Kind::kernel_launched || kind == Kind::copied || kind == Kind::filled ||
         kind == Kind::host_function_queued;
}

}  // namespace

std::uint64_t fingerprint(const Activity& activity) noexcept {
  switch (activity.kind) {
    case Kind::kernel_launched:
    case Kind::copied:
    case Kind::filled:
    case Kind::host_function_queued:
    case Kind::event_recorded:
    case Kind::event_waited:
    case Kind::stream_synchronized:
    case Kind::event_synchronized:
    case Kind::device_synchronized:
    case Kind::host_accessed:
    case Kind::memory_allocated:
    case Kind::memory_free_requested:
    case Kind::memory_stream_recorded:
    case Kind::pinned_handed_out:
    case Kind::pinned_returned: break;
    default: return 0;
  }
  std::uint64_t sum = 14695981039346656037U;
  const auto mix = [&](std::uint64_t value) {
    sum = (sum ^ value) * 1099511628211U;
    sum ^= sum >> 29;
  };
  mix(static_cast<std::uint64_t>(activity.kind) + 1);
  mix(static_cast<std::uint64_t>(activity.device) + 1);
  mix(activity.run_stream);
  mix(activity.run_task);
  mix(activity.run_point);
  mix(activity.bytes);
  mix(activity.requested);
  // Its text: processes are compared, too.
  if (activity.name != nullptr)
    for (const char* c = activity.name; *c != '\0'; ++c) mix(static_cast<unsigned char>(*c));
  for (const Access& access : activity.accesses) mix(access.bytes * 2 + (access.writes ? 1 : 0));
  return sum | 1;
}

// ---- Graph

Orientation Graph::seen_in(const std::vector<driver::Step>& ran) const {
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> numbers;
  for (std::size_t i = 0; i < tasks.size(); ++i)
    numbers[{tasks[i].stream, tasks[i].task}] = segments + i;
  // What runs at point p comes after segment p - 1 and before segment p; tasks come in their order.
  struct Place {
    std::uint64_t segment = 0;  // that is over before
    std::size_t turn = 0;       // of a task
  };
  std::vector<Place> places(events());
  for (std::size_t i = 0; i < segments; ++i) places[i].segment = i;
  for (std::size_t i = 0; i < ran.size(); ++i)
    if (const auto at = numbers.find({ran[i].stream, ran[i].task}); at != numbers.end())
      places[at->second] = {std::max<std::uint64_t>(ran[i].point, 1) - 1, i + 1};
  const auto comes_first = [&](std::size_t a, std::size_t b) {
    if (places[a].segment != places[b].segment) return places[a].segment < places[b].segment;
    return places[a].turn < places[b].turn;  // the host's is zero
  };
  Orientation seen;
  seen.reserve(pairs.size());
  for (const Unordered& pair : pairs)
    seen.push_back(comes_first(pair.events.second, pair.events.first));
  return seen;
}

// There is no other if and only if each event comes directly after the one before it.
bool Graph::allows_another(const std::vector<std::size_t>& line) const {
  std::vector<std::size_t> place(events());
  for (std::size_t i = 0; i < line.size(); ++i) place[line[i]] = i;
  std::vector<bool> bound(events());
  for (const Edge& edge : order)
    if (place[edge.second] == place[edge.first] + 1) bound[edge.first] = true;
  for (std::size_t i = 0; i + 1 < line.size(); ++i)
    if (!bound[line[i]]) return true;
  return false;
}

std::vector<driver::Step> Graph::steps(const std::vector<std::size_t>& line) const {
  std::vector<driver::Step> made;
  made.reserve(tasks.size());
  std::uint64_t point = 0;
  for (const std::size_t event : line) {
    if (event < segments) {
      ++point;
      continue;
    }
    made.push_back(step(event, point));
  }
  return made;
}

// ---- Recorder

namespace {

Unordered::Part part_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::copied: return Unordered::Part::copy;
    case Kind::kernel_launched:
    case Kind::filled: return Unordered::Part::kernel;
    case Kind::host_function_queued: return Unordered::Part::host_function;
    default: return Unordered::Part::host;
  }
}

}  // namespace

void Recorder::because(std::string reason) {
  if (std::find(reasons_.begin(), reasons_.end(), reason) == reasons_.end())
    reasons_.push_back(std::move(reason));
}

// Threads that are started and joined one after the other are as good as one.
void Recorder::look_at_threads(bool another) {
  if ((another || driver::turn_number() != 0) && !driver::turns_in_order())
    because("(a) several threads of the host take part, in an order that no schedule decides");
}

void Recorder::look_for_reasons(const Activity& activity) {
  if (thread_ == 0) thread_ = activity.thread;
  look_at_threads(thread_ != activity.thread);
  switch (activity.kind) {
    case Kind::stream_queried:
    case Kind::event_queried:
      return because("(a) the program queries whether work is done, which depends on the order");
    case Kind::figure_asked:
      return because("(a) the program asks for what depends on time or on other work: " +
                     std::string(activity.name));
    case Kind::host_exposed:
      return because("(b) the program got a pointer to memory, whose use nobody sees");
    case Kind::device_reset: return because("(a) the program resets a device");
    case Kind::out_of_memory: return because("it ran out of memory");
    case Kind::kernel_launched:
    case Kind::host_function_queued:
      if (!activity.accesses_known)
        because("(b) it is not known what some work reads and writes: " +
                std::string(activity.name != nullptr ? activity.name : "a host function"));
      if (activity.run_stream == 0)
        because("(c) a graph is replayed, of whose operations the tasks are not known");
      break;
    default: break;
  }
  if (is_work(activity.kind) && !cuda::active_driver().may_wait())
    because("(b) a task enqueues work");
}

Recorder::Stream& Recorder::stream_of(const Activity& activity) {
  Stream& stream = streams_[{activity.device, activity.stream}];
  if (activity.run_stream != 0) by_number_[activity.run_stream] = &stream;
  return stream;
}

void Recorder::enqueue(const Activity& activity) {
  Stream& stream = stream_of(activity);
  if (activity.kind == Kind::event_waited)
    if (const auto at = events_.find(activity.event); at != events_.end())
      stream.pending.insert(stream.pending.end(), at->second.begin(), at->second.end());
  // Those between were enqueued by what observers do not see.
  while (activity.run_task != 0 && stream.tasks < activity.run_task) {
    ++stream.tasks;
    const driver::Step step{activity.run_point, activity.run_stream, stream.tasks};
    task_numbers_[{step.stream, step.task}] = tasks_.size();
    const std::size_t number = tasks_.size();
    tasks_.push_back({step, std::move(stream.pending)});
    stream.pending = {number};
  }
  if (activity.ticket != 0) stream.held[activity.ticket] = stream.pending;
  if (activity.kind == Kind::event_recorded) events_[activity.event] = stream.pending;
}

void Recorder::begin_allocation(const Activity& activity) {
  const auto first = reinterpret_cast<std::uintptr_t>(activity.address);
  const std::uintptr_t last = first + activity.bytes;
  auto at = allocations_.lower_bound(first);
  if (at != allocations_.begin() && std::prev(at)->first + std::prev(at)->second.span > first) --at;
  while (at != allocations_.end() && at->first < last) {
    kept_ -= at->second.past.size();
    at = allocations_.erase(at);
  }
  Allocation& made = allocations_[first];
  made.span = activity.bytes;
  made.bytes = activity.requested;
  made.stack = activity.stack;
  made.of_graph = activity.for_capture;
}

Recorder::Allocation& Recorder::allocation_at(std::uintptr_t address, std::uintptr_t& first) {
  const auto after = allocations_.upper_bound(address);
  first = 0;
  if (after == allocations_.begin()) return rest_;
  const auto at = std::prev(after);
  if (address - at->first >= at->second.span) return rest_;
  first = at->first;
  return at->second;
}

void Recorder::turn(Unordered& pair) {
  std::swap(pair.events.first, pair.events.second);
  std::swap(pair.first, pair.second);
  std::swap(pair.first_reads, pair.second_reads);
}

void Recorder::pair(std::size_t first, std::size_t second, const Conflict& conflict) {
  const Name a = operations_[first].second, b = operations_[second].second;
  if (a == b || (a.first != 0 && a.second == 0) || (b.first != 0 && b.second == 0)) return;
  const auto [known, is_new] =
      known_pairs_.try_emplace({std::min(a, b), std::max(a, b)}, pairs_.size());
  if (is_new) {
    if (pairs_.size() == kMostPairs) {
      known_pairs_.erase(known);
      return because("(c) there are more unordered pairs than the first " +
                     std::to_string(kMostPairs) + ", which alone are looked at");
    }
    pairs_.push_back({a,
                      b,
                      {{},
                       conflict,
                       part_of(operations_[first].first.kind),
                       part_of(operations_[second].first.kind)}});
  }
  Unordered& made = pairs_[known->second].what;
  // Of the host, several operations may lie between two points.
  const bool same_way = pairs_[known->second].first == a;
  (same_way ? made.first_reads : made.second_reads) |= !conflict.before.writes;
  (same_way ? made.second_reads : made.first_reads) |= !conflict.now.writes;
  made.both_write |= conflict.before.writes && conflict.now.writes;
}

void Recorder::access(const Access& access, int argument) {
  if (access.bytes == 0) return;
  const cuda::sanitizer::Engine::Placed& placed = engine_.placed();
  const std::size_t operation = operations_.size() - 1;
  const bool of_the_host = operations_[operation].first.kind == Kind::copied && !access.writes &&
                           access.memory == Access::Memory::ordinary;
  Past now{cuda::sanitizer::bytes_of(access),
           of_the_host ? placed.source : placed.epoch,
           access.writes,
           {argument, access},
           operation};
  std::uintptr_t first = 0;
  Allocation& allocation = allocation_at(now.bytes.first, first);
  if (first == 0 && access.memory == Access::Memory::pinned)
    because(
        "(b) page-locked memory is used that was not allocated in the program, so that there may "
        "be "
        "pointers to it whose use nobody sees");
  for (const Past& past : allocation.past) {
    if (!(past.writes || now.writes) || past.epoch.actor == placed.epoch.actor ||
        past.operation == operation || placed.before->covers(past.epoch))
      continue;
    const Overlap shared = overlap(now.bytes, past.bytes);
    if (shared == Overlap::none) continue;
    Conflict conflict;
    if (shared == Overlap::possible) conflict.certainty = Conflict::Certainty::possible;
    const auto side = [&](const Past& of) {
      return cuda::sanitizer::Side{operations_[of.operation].first, of.writes,
                                   reinterpret_cast<const void*>(of.bytes.first),
                                   of.bytes.last - of.bytes.first, of.arguments};
    };
    conflict.now = side(now);
    conflict.before = side(past);
    conflict.allocation = reinterpret_cast<const void*>(first);
    conflict.allocation_bytes = allocation.bytes;
    conflict.allocation_stack = allocation.stack;
    pair(past.operation, operation, conflict);
  }
  allocation.past.push_back(std::move(now));
  ++kept_;
}

void Recorder::operate(const Activity& activity) {
  cuda::sanitizer::Operation made;
  made.kind = activity.kind;
  made.epoch = engine_.placed().epoch;
  made.serial = engine_.placed().serial;
  made.host = !is_work(activity.kind);
  made.device = activity.device;
  made.stream = activity.stream;
  made.stream_id = activity.stream_id;
  made.thread = activity.thread;
  made.name = activity.kind == Kind::pinned_handed_out ? "allocate_pinned" : activity.name;
  made.stack = activity.stack;
  // Zero stands for the host; work that is in no schedule has a stream, but no task.
  const Name name = made.host ? Name(0, driver::simulated_points())
                              : Name(std::max(activity.run_stream, 1U), activity.run_task);
  operations_.emplace_back(made, name);
  if (activity.kind == Kind::pinned_handed_out) {
    // Its user may read and write it from now on, unseen.
    access({activity.address, activity.requested, true, Access::Memory::pinned}, 0);
    return;
  }
  if (!activity.accesses_known) return;
  for (std::size_t i = 0; i < activity.accesses.size(); ++i)
    access(activity.accesses[i], static_cast<int>(i));
}

// What comes after everything that follows conflicts with nothing any more.
void Recorder::forget_known(std::uint32_t thread) {
  if (kept_ < forget_at_) return;
  const cuda::sanitizer::Clock& known = engine_.host_knows(thread);
  const auto over = [&](const Past& past) { return known.covers(past.epoch); };
  std::erase_if(rest_.past, over);
  kept_ = rest_.past.size();
  for (auto& [address, allocation] : allocations_) {
    std::erase_if(allocation.past, over);
    kept_ += allocation.past.size();
  }
  forget_at_ = std::max<std::size_t>(256, 2 * kept_);
}

void Recorder::check_written(const std::vector<Conflict>& found) {
  for (const Conflict& conflict : found) {
    if (conflict.kind != Conflict::Kind::never_written) continue;
    const char* const name = conflict.now.operation.name;
    const bool certain = conflict.certainty == Conflict::Certainty::certain;
    because((certain ? "(b) bytes are read that were never written: by "
                     : "(b) bytes are read of which it is not known that they were written: by ") +
            std::string(name != nullptr ? name : "a copy or host function"));
  }
}

void Recorder::read_at_end(const Access& access, const std::string& name) {
  const std::string reader = "result '" + name + "'";
  found_.clear();
  engine_.check_read(access, reader.c_str(), found_);
  check_written(found_);
}

// Note [Memory that is freed early]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A block whose uses were told (record_stream) is free again when these are over: in other orders
// earlier or later. Then blocks beside it are parts of another one, or not, and the next allocation
// of the same stream and kind of size gets another. So it does not say much that in this run nobody
// got a block that was freed before its use was over: as long as it is unknown whether a told use
// of such a neighbour is over, somebody might. Without such neighbours which block comes next is
// the same in every order, and that it was used too early is found in this run.

namespace {

bool is_small(const Activity& activity) noexcept { return activity.bytes <= std::size_t{1} << 20; }

}  // namespace

void Recorder::note_free(const Activity& activity) {
  std::uintptr_t first = 0;
  const Allocation& allocation =
      allocation_at(reinterpret_cast<std::uintptr_t>(activity.address), first);
  if (first == 0 || allocation.of_graph) return;
  const bool pinned = activity.kind == Kind::pinned_returned;
  Freed early{pinned ? -1 : activity.device, activity.stream, is_small(activity), {}};
  Freed parked = early;
  cuda::sanitizer::Clock before;
  engine_.add_before_reuse(activity.thread, early.device, early.stream, activity.address, before);
  const cuda::sanitizer::Clock& over = engine_.host_knows(activity.thread);
  for (const Past& past : allocation.past) {
    if (!before.covers(past.epoch)) early.uses.push_back(past);
    if (allocation.recorded && !over.covers(past.epoch)) parked.uses.push_back(past);
  }
  if (!early.uses.empty()) early_.push_back(std::move(early));
  if (!parked.uses.empty()) parked_.push_back(std::move(parked));
}

void Recorder::look_at_reuse(const Activity& activity) {
  if (early_.empty() || activity.for_capture) return;
  const bool pinned = activity.kind == Kind::pinned_handed_out;
  const auto may_be_given = [&](const Freed& freed) {
    return pinned ? freed.device < 0
                  : freed.device == activity.device && freed.stream == activity.stream &&
                        freed.small == is_small(activity);
  };
  const auto forget = [](std::vector<Freed>& from, const cuda::sanitizer::Clock& over) {
    for (Freed& freed : from)
      std::erase_if(freed.uses, [&](const Past& use) { return over.covers(use.epoch); });
    std::erase_if(from, [](const Freed& freed) { return freed.uses.empty(); });
  };
  forget(parked_, engine_.host_knows(activity.thread));
  if (std::none_of(parked_.begin(), parked_.end(), may_be_given)) return;
  cuda::sanitizer::Clock known;
  engine_.add_before_reuse(activity.thread, pinned ? -1 : activity.device, activity.stream, nullptr,
                           known);
  for (Freed& freed : early_) {
    if (!may_be_given(freed)) continue;
    std::erase_if(freed.uses, [&](const Past& use) { return known.covers(use.epoch); });
    if (freed.uses.empty()) continue;
    const cuda::sanitizer::Operation& use = operations_[freed.uses[0].operation].first;
    because("(c) memory may be used again before work is done that used it when it was freed: " +
            std::string(use.name != nullptr ? use.name : "a copy or host function"));
    freed.uses.clear();  // said once
  }
  std::erase_if(early_, [](const Freed& freed) { return freed.uses.empty(); });
}

void Recorder::notice(const Activity& activity) noexcept {
  if (const std::uint64_t sum = fingerprint(activity); sum != 0) fingerprints_.push_back(sum);
  look_for_reasons(activity);
  const std::uint64_t serial = engine_.placed().serial;
  found_.clear();
  engine_.observe(activity, found_);
  switch (activity.kind) {
    case Kind::memory_allocated:
    case Kind::pinned_handed_out:
      look_at_reuse(activity);
      begin_allocation(activity);
      break;
    case Kind::memory_free_requested:
    case Kind::pinned_returned: note_free(activity); break;
    case Kind::memory_stream_recorded:
    case Kind::pinned_stream_recorded: {
      std::uintptr_t first = 0;
      allocation_at(reinterpret_cast<std::uintptr_t>(activity.address), first).recorded = true;
      break;
    }
    case Kind::stream_synchronized:
    case Kind::event_synchronized:
    case Kind::device_synchronized: forget_known(activity.thread); break;
    case Kind::event_created:
    case Kind::event_destroyed: events_.erase(activity.event); break;
    case Kind::event_recorded:
    case Kind::event_waited: enqueue(activity); break;
    default:
      if (is_work(activity.kind)) enqueue(activity);
      break;
  }
  if (engine_.placed().serial != serial) operate(activity);
  for (const Conflict& conflict : found_) {
    if (conflict.kind == Conflict::Kind::use_after_free) after_free_.push_back(conflict);
    if (conflict.kind == Conflict::Kind::reuse)
      pair(conflict.before.operation.serial - 1, conflict.now.operation.serial - 1, conflict);
  }
  check_written(found_);
}

Graph Recorder::graph(std::uint64_t points, const driver::Progress& progress) {
  Graph made;
  made.segments = static_cast<std::size_t>(points) + 1;
  made.tasks.reserve(tasks_.size());
  for (std::size_t i = 1; i < made.segments; ++i) made.order.push_back({i - 1, i});
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = tasks_[i];
    made.tasks.push_back(task.step);
    const std::size_t at = made.segments + i;
    made.order.push_back(
        {std::min<std::size_t>(std::max<std::uint64_t>(task.step.point, 1), made.segments) - 1,
         at});
    for (const std::size_t before : task.before) made.order.push_back({made.segments + before, at});
  }
  for (const driver::RunWait& wait : progress.waits) {
    const auto stream = by_number_.find(wait.stream);
    if (wait.point > points || stream == by_number_.end()) continue;
    const auto& held = stream->second->held;
    const auto after = held.upper_bound(wait.number);
    if (after == held.begin()) continue;
    for (const std::size_t task : std::prev(after)->second)
      made.order.push_back({made.segments + task, static_cast<std::size_t>(wait.point)});
  }
  for (const driver::Step& step : progress.ran)
    if (!task_numbers_.contains({step.stream, step.task})) {
      because("(b) the library did work of which it does not tell");
      break;
    }
  look_at_threads(false);
  if (engine_.exposed() != 0)
    because(
        "(b) the program has pointers to page-locked memory that devices use, and does not tell "
        "what it does there (host_reads, host_writes)");
  // A pair's first event is the one that came first in this run.
  for (Pair& pair : pairs_) {
    const auto event = [&](const Name& name) {
      if (name.first == 0) return static_cast<std::size_t>(std::min(name.second, points));
      return made.segments + task_numbers_.at(name);
    };
    pair.what.events = {event(pair.first), event(pair.second)};
    made.pairs.push_back(pair.what);
  }
  const Orientation turned = made.seen_in(progress.ran);
  for (std::size_t i = 0; i < made.pairs.size(); ++i)
    if (turned[i]) turn(made.pairs[i]);
  return made;
}

}  // namespace ember::inline v0::explore
