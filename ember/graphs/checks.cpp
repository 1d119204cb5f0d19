#include "ember/graphs/checks.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/env.h"
#include "ember/base/stack.h"
#include "ember/graphs/structure.h"
#include "ember/memory/snapshot.h"
#include "ember/sanitizer/sanitizer.h"

namespace ember::inline v0::cuda {

GraphCheck graph_check(std::string_view text) {
  if (text == "off") return GraphCheck::off;
  if (text == "warn") return GraphCheck::warn;
  if (text == "error") return GraphCheck::error;
  throw ValueError("validate is '" + std::string(text) + "', expected off, warn or error");
}

namespace detail {
namespace {

std::string hex(std::uintptr_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", address);
  return text;
}

std::string range_text(std::uintptr_t address, std::size_t bytes) {
  return std::to_string(bytes) + " bytes at " + hex(address);
}

std::string range_text(const Access& access) {
  return range_text(reinterpret_cast<std::uintptr_t>(access.address), access.bytes);
}

std::string argument_text(const char* argument) {
  return argument == nullptr ? std::string() : std::string(" (") + argument + ")";
}

/// Without the spans, whose memory goes.
Access plain(const Access& access) noexcept {
  Access made = access;
  made.sizes = made.strides = {};
  return made;
}

}  // namespace

CheckLevels check_levels(const std::optional<GraphCheck>& validate) {
  if (validate) return {*validate, *validate};
  const std::string text = env::get("EMBER_GRAPH_CHECK").value_or("");
  if (text.empty())
    return {GraphCheck::warn, enabled_sanitizer() != nullptr ? GraphCheck::warn : GraphCheck::off};
  if (text != "off" && text != "warn" && text != "error")
    throw ValueError("EMBER_GRAPH_CHECK is '" + text + "', expected off, warn or error");
  const GraphCheck level = graph_check(text);
  return {level, level};
}

void tell_mistake(GraphCheck level, const char* mistake, const std::string& text) {
  if (level == GraphCheck::off) return;
  const std::string whole = std::string("graph check: ") + mistake + ": " + text;
  if (level == GraphCheck::error) throw GraphCheckError(mistake, whole);
  warn(Warning::user, whole);
}

std::string place_text(const char* what, std::uint64_t stack) {
  std::string text = stack == 0 ? std::string() : stack_text(stack);
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) return {};
  return std::string("\n") + what + " with stack trace:\n" + text;
}

// ---- Errors of a capture's end

Status explain(const Status& status, const CaptureLog& log) {
  const auto place = [](const char* what, std::uint64_t stack) {
    return stack == 0 ? std::string()
                      : std::string("\n") + what + " with stack trace" + stack_mark(stack);
  };
  if (status.code() == Code::stream_capture_invalidated) {
    const SpoiledBy by = log.spoiled_by();
    if (by.what.empty()) return status;
    return Status(status.code(),
                  "it became invalid by this: " + by.what + place("Called", by.stack));
  }
  if (status.code() != Code::stream_capture_unjoined) return status;
  const GraphStructure structure = structure_of(log);
  const std::vector<std::size_t> left = structure.unjoined();
  if (left.empty()) return status;
  const CaptureLog::Entry& first = *structure.nodes[left[0]].entry;
  std::string text = "the stream on which the capture began does not wait for " +
                     std::to_string(left.size()) +
                     " operations of other streams, of which the first is '" +
                     work_name(first.activity) + "' on " + log.stream_names()[first.stream];
  text += place("Captured", first.activity.stack);
  const GraphStructure::Fork& fork = structure.forks[first.stream];
  if (fork.wait != nullptr) {
    text += "\nThe branch forked where that stream waited for an event";
    if (fork.record != nullptr)
      text += " that was recorded on " + log.stream_names()[fork.record->stream];
    text += place("Forked", fork.wait->activity.stack);
  }
  text +=
      "\nWhat would have joined it: a wait of the stream on which the capture began for that "
      "stream, before the end";
  return Status(status.code(), text);
}

// ---- What a graph uses

namespace {
thread_local CallCapture* call_capture = nullptr;
}

CallCapture::CallCapture() noexcept : outer_(std::exchange(call_capture, this)) {}
CallCapture::~CallCapture() { call_capture = outer_; }

bool CallCapture::any() noexcept { return call_capture != nullptr; }

bool CallCapture::is_given(const Access& access) noexcept {
  if (!any()) return false;
  const auto first = reinterpret_cast<std::uintptr_t>(access.address);
  return std::any_of(
      call_capture->given_.begin(), call_capture->given_.end(), [&](const auto& given) {
        return first >= given.first && first + access.bytes <= given.first + given.second;
      });
}

GraphChecks::GraphChecks(const CheckLevels& levels, const MemPoolId& pool, bool shared)
    : levels_(levels), pool_(pool) {
  if (!shared || levels.order == GraphCheck::off) return;
  for (const MemorySnapshot::Segment& segment : memory_snapshot(pool).segments)
    for (const MemorySnapshot::Block& block : segment.blocks)
      if (block.state == MemorySnapshot::State::active_allocated)
        older_.set(reinterpret_cast<const void*>(block.address), block.size, 0);
}

void GraphChecks::captured(const Activity& activity) noexcept {
  if (!is_work(activity.kind)) return;
  for (const Access& each : activity.accesses)
    if (each.bytes != 0) access(each, {work_name(activity), each.argument, activity.stack});
}

void GraphChecks::access(const Access& access, const WorkPlace& place) {
  using Found = memory::FreeWatch::Found;
  const bool ordered = levels_.order != GraphCheck::off;
  const bool given = CallCapture::is_given(access);
  const Found found = given ? Found::unknown : watch_.watch(access.address, pool_);
  if (found == Found::in_pool) {
    if (ordered && access.writes && older_.find(access.address, access.bytes) == nullptr)
      written_.set(access.address, access.bytes, place);
  } else {
    // Page-locked memory is the allocator's, which keeps it for the graph, or else somebody's who
    // locked it.
    const bool kept = found == Found::unknown && !given && kept_.keep(access.address);
    const bool locked = found == Found::unknown && !kept && access.memory == Access::Memory::pinned;
    if (locked) watch_.watch_range(access.address, access.bytes);
    if (found != Found::unknown || kept || locked)
      uses_.push_back({reinterpret_cast<std::uintptr_t>(access.address), access.bytes,
                       access.writes, locked || kept, place});
  }
  if (!ordered || access.writes || written_beside_.empty()) return;
  const WorkPlace* const before = written_beside_.find(access.address, access.bytes);
  if (before == nullptr) return;
  after_call([level = levels_.order, access = plain(access), place, before = *before] {
    tell_mistake(level, "read-from-outside",
                 std::string("captured ") + place.name + " reads " + range_text(access) +
                     argument_text(place.argument) + ", which " + before.name +
                     " wrote on a stream that is not part of the capture, after that had begun. "
                     "Replays do not repeat that write: capture it, too, or do it before." +
                     place_text("Captured", place.stack) +
                     place_text("Written outside", before.stack));
  });
  written_beside_.clear(access.address, access.bytes);
}

void GraphChecks::beside(const Stream& stream, const Activity& activity) noexcept {
  if (levels_.order == GraphCheck::off || !is_work(activity.kind)) return;
  for (const Access& each : activity.accesses) {
    if (each.bytes == 0 || each.writes || written_.empty()) continue;
    const WorkPlace* const found = written_.find(each.address, each.bytes);
    if (found == nullptr) continue;
    const WorkPlace now{work_name(activity), each.argument, capture_stack()};
    after_call([level = levels_.order, access = plain(each), now, before = *found,
                on = stream.str()] {
      tell_mistake(level, "read-before-replay",
                   std::string(now.name) + " on " + on + ", outside of the capture, reads " +
                       range_text(access) + argument_text(now.argument) + ", which captured " +
                       before.name +
                       " writes. That was only noted: nothing is there before the first replay." +
                       place_text("Read", now.stack) + place_text("Captured", before.stack));
    });
    written_.clear(each.address, each.bytes);
  }
  for (const Access& each : activity.accesses) {
    if (each.bytes == 0 || !each.writes) continue;
    written_.clear(each.address, each.bytes);
    constexpr std::size_t kMost = 4096;
    if (capturing_ && written_beside_.size() < kMost)
      written_beside_.set(each.address, each.bytes,
                          {work_name(activity), each.argument, capture_stack()});
  }
}

void GraphChecks::ended(const CaptureLog& log, int device) {
  capturing_ = false;
  if (levels_.order == GraphCheck::off) return;
  std::vector<Access> host;
  for (const Use& use : uses_)
    if (use.on_host)
      host.push_back({reinterpret_cast<const void*>(use.address), use.bytes, use.writes,
                      Access::Memory::pinned});
  member_.emplace(pool_, device, levels_.order, log.end_event(), std::move(host),
                  CallCapture::any());
}

// ---- Memory that is gone

std::string GraphChecks::text_of(const memory::GoneMemory& gone, bool& on_host) const {
  for (const Use& use : uses_) {
    if (use.address + use.bytes <= gone.address || gone.address + gone.bytes <= use.address)
      continue;
    on_host = use.on_host;
    return std::string("captured ") + use.place.name + (use.writes ? " writes " : " reads ") +
           range_text(use.address, use.bytes) + argument_text(use.place.argument) +
           (use.on_host ? " of page-locked host memory" : "") + ", which was " + gone.how +
           " since. The replay uses whatever lies there now: the program has to keep what a graph "
           "uses, or to capture anew." +
           place_text("Captured", use.place.stack) +
           place_text(gone.how[0] == 'u' ? "Unregistered" : "Freed", gone.stack);
  }
  return "memory of " + range_text(gone.address, gone.bytes) + " was " + gone.how + " since." +
         place_text("Freed", gone.stack);
}

void GraphChecks::tell_gone_memory() {
  if (levels_.memory == GraphCheck::off) return;
  const std::vector<memory::GoneMemory> gone = watch_.gone();
  // An error is one of every replay, a warning of the first one.
  if (levels_.memory == GraphCheck::warn) told_ = watch_.count();
  for (std::size_t i = levels_.memory == GraphCheck::warn ? std::exchange(said_, gone.size()) : 0;
       i < gone.size(); ++i) {
    bool on_host = false;
    const std::string text = text_of(gone[i], on_host);
    tell_mistake(levels_.memory, on_host ? "stale-host-memory" : "stale-memory", text);
  }
}

}  // namespace detail
}  // namespace ember::inline v0::cuda
