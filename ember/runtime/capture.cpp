#include "ember/runtime/capture.h"

#include <algorithm>
#include <utility>

#include "ember/base/error.h"
#include "ember/base/error_hook.h"
#include "ember/base/mutex.h"
#include "ember/base/stack.h"
#include "ember/driver/simulation.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/thread_state.h"

namespace ember::inline v0::cuda {
namespace {

struct Logs {
  Mutex mutex;
  std::vector<CaptureLog*> list EMBER_GUARDED_BY(mutex);
};
constinit Logs logs;

constinit std::atomic<std::int64_t> graph_streams{0};

driver::CaptureStatus status_of(const driver::StreamHandle& stream, std::uint64_t& id) noexcept {
  driver::CaptureStatus status = driver::CaptureStatus::none;
  driver::Driver* const machine = driver_if_made();
  if (machine == nullptr || stream.native == nullptr ||
      !machine->capture_status(stream, status, id).ok())
    return driver::CaptureStatus::none;
  return status;
}

/// An error is about to be thrown: perhaps it is the one that a capture became invalid by. Of later
/// ones, what that was: the driver knows less.
std::string note_refusal(const Status& status) noexcept {
  if (!any_capture()) return {};
  if (status.code() != Code::stream_capture_invalidated) {
    CaptureLog::note_spoiled(status.detail().empty() ? code_text(status.code()) : status.detail());
    return {};
  }
  if (!status.detail().starts_with("by this: ")) return {};  // known better
  const std::string what = CaptureLog::spoiled_capture();
  return what.empty() ? what : "by this: " + what;
}

}  // namespace

std::atomic<int> detail::captures{0};
std::atomic<int> detail::work_watched{0};
std::atomic<int> detail::order_observers{0};

bool detail::is_capturing(const driver::StreamHandle& stream) noexcept {
  std::uint64_t id = 0;
  return status_of(stream, id) != driver::CaptureStatus::none;
}

std::uint64_t capture_of(const driver::StreamHandle& stream) noexcept {
  std::uint64_t id = 0;
  return any_capture() && status_of(stream, id) == driver::CaptureStatus::active ? id : 0;
}

bool Stream::is_capturing() const noexcept { return detail::is_capturing(handle()); }

bool is_current_stream_capturing() {
  driver::Driver* const machine = driver_if_made();
  if (machine == nullptr) return false;
  return detail::is_capturing(current_stream().handle());
}

void refuse_captured(const driver::StreamHandle& stream, const char* what) {
  if (!is_captured(stream)) [[likely]]
    return;
  (void)active_driver().stream_query(stream);  // which nobody may do: that invalidates the capture
  throw AcceleratorError(Status(
      Code::stream_capture_unsupported,
      std::string(what) + " cannot be captured into a graph; the capture is invalid from now on"));
}

void refuse_captured(int device, const char* what) {
  if (any_capture()) [[unlikely]]
    refuse_captured(current_stream(device).handle(), what);
}

void RelaxedCapture::exchange() noexcept {
  if (driver::Driver* const machine = driver_if_made()) (void)machine->capture_mode_exchange(mode_);
}

// ---- What observers are told

CaptureLog::CaptureLog(const Stream& origin, WorkWatcher* watcher)
    : watcher_(watcher), streams_{origin} {
  const MutexLock lock(logs.mutex);
  logs.list.push_back(this);
  ++detail::captures;
  ++detail::work_watched;
  ++detail::accesses_wanted;
  want_stacks(true);
  on_accelerator_error(&note_refusal);
}

CaptureLog::~CaptureLog() { end(); }

void CaptureLog::begin(std::uint64_t id) noexcept { id_ = id; }

void CaptureLog::end(bool watch_on) noexcept {
  std::vector<Stream> gone;  // without the lock: observers may be told of their ends
  const MutexLock lock(logs.mutex);
  if (!watch_on && watching_) {
    watching_ = false;
    std::erase(logs.list, this);
    --detail::work_watched;
    --detail::accesses_wanted;
    want_stacks(false);
  }
  if (event_names_ != nullptr) return;
  --detail::captures;
  const std::size_t count = streams_.size();
  for (const Stream& stream : streams_) stream_texts_.push_back(stream.str());
  stream_names_ = std::make_unique<char[]>(count);
  event_names_ = std::make_unique<char[]>(events_.size() + 1);  // and its own
  const auto adds = [](const Entry& entry) {
    return is_work(entry.activity.kind) ||
           (entry.stream == 0 && entry.activity.kind == Activity::Kind::event_waited);
  };
  tail_ = entries_.size();
  while (tail_ > 0 && !adds(entries_[tail_ - 1])) --tail_;
  first_stream_id_ = graph_streams -= static_cast<std::int64_t>(count);
  gone.swap(streams_);
  id_ = 0;
}

void CaptureLog::stop_watching() noexcept { end(); }

bool CaptureLog::note(const Stream& stream, const Activity& activity) noexcept {
  std::uint64_t id = 0;
  const driver::CaptureStatus status =
      any_capture() ? status_of(stream.handle(), id) : driver::CaptureStatus::none;
  Activity placed = activity;
  if (status == driver::CaptureStatus::active) placed.stack = capture_stack();
  const MutexLock lock(logs.mutex);
  for (CaptureLog* log : logs.list) {
    if (status == driver::CaptureStatus::none) {
      if (log->watcher_ != nullptr) log->watcher_->beside(stream, placed);
    } else if (status == driver::CaptureStatus::active && log->id_ == id) {
      log->add(stream, placed);
      if (log->watcher_ != nullptr) log->watcher_->captured(placed);
    }
  }
  return status != driver::CaptureStatus::none;
}

void CaptureLog::note_external(const Stream& stream, const Activity& activity,
                               const std::shared_ptr<const void>& event) noexcept {
  std::uint64_t id = 0;
  if (status_of(stream.handle(), id) != driver::CaptureStatus::active) return;
  Activity placed = activity;
  placed.stack = capture_stack();
  const MutexLock lock(logs.mutex);
  for (CaptureLog* log : logs.list) {
    if (log->id_ != id) continue;
    log->add(stream, placed, true);
    if (std::find(log->external_.begin(), log->external_.end(), event) == log->external_.end())
      log->external_.push_back(event);
  }
}

void CaptureLog::note_spoiled(const std::string& what) noexcept {
  const std::uint64_t stack = capture_stack();
  const MutexLock lock(logs.mutex);
  for (CaptureLog* log : logs.list) {
    if (log->id_ == 0 || !log->spoiled_.what.empty()) continue;
    std::uint64_t id = 0;
    if (status_of(log->streams_[0].handle(), id) == driver::CaptureStatus::invalidated)
      log->spoiled_ = {what, stack};
  }
}

std::string CaptureLog::spoiled_capture() noexcept {
  const detail::ThreadState& state = detail::thread_state();
  const auto& current = state.streams[static_cast<std::size_t>(state.device)];
  std::uint64_t id = 0;  // which is told of valid captures only
  if (!current || status_of(current->handle, id) != driver::CaptureStatus::invalidated) return {};
  const MutexLock lock(logs.mutex);
  for (const CaptureLog* log : logs.list)
    for (const Stream& stream : log->streams_)
      if (stream.handle().native == current->handle.native) return log->spoiled_.what;
  return {};
}

SpoiledBy CaptureLog::spoiled_by() const {
  const MutexLock lock(logs.mutex);
  return spoiled_;
}

namespace {
thread_local std::vector<std::function<void()>> left_for_later;
}

void after_call(std::function<void()> act) { left_for_later.push_back(std::move(act)); }

void detail::finish_call() {
  if (left_for_later.empty()) [[likely]]
    return;
  // Within another call, whose stream is locked: that one does it.
  const bool within = mark_enqueueing(true);
  (void)mark_enqueueing(within);
  if (within) return;
  for (const auto& act : std::exchange(left_for_later, {})) act();
}

std::size_t CaptureLog::number_of(const Stream& stream) {
  const auto found = std::find(streams_.begin(), streams_.end(), stream);
  const auto number = static_cast<std::size_t>(found - streams_.begin());
  if (found == streams_.end()) streams_.push_back(stream);
  return number;
}

std::size_t CaptureLog::number_of(const void* event) {
  if (event == nullptr) return 0;
  const auto found = std::find(events_.begin(), events_.end(), event);
  const auto number = static_cast<std::size_t>(found - events_.begin());
  if (found == events_.end()) events_.push_back(event);
  return number;
}

void CaptureLog::add(const Stream& stream, const Activity& activity, bool external) {
  Entry& entry = entries_.emplace_back();
  entry.activity = activity;
  entry.activity.device = stream.device_index();
  entry.activity.times = nullptr;
  entry.stream = number_of(stream);
  entry.event = number_of(activity.event);
  entry.external = external;
  if (is_work(activity.kind) || external)
    if (driver::Driver* const machine = driver_if_made())
      (void)machine->capture_node(stream.handle(), entry.node);
  entry.accesses.assign(activity.accesses.begin(), activity.accesses.end());
  const auto keep = [&](std::span<const std::int64_t>& numbers) {
    if (numbers.empty()) return;
    numbers = entry.shapes.emplace_back(numbers.begin(), numbers.end());
  };
  for (Access& access : entry.accesses) {
    keep(access.sizes);
    keep(access.strides);
  }
}

bool CaptureLog::visit(const std::function<void(const Access&)>& see) const {
  bool all_known = true;
  for (const Entry& entry : entries_) {
    if (!is_work(entry.activity.kind)) continue;  // it touches no memory
    if (!entry.activity.accesses_known) all_known = false;
    for (const Access& access : entry.accesses) see(access);
  }
  return all_known;
}

bool CaptureLog::is_recorded_behind_all(std::size_t i) const noexcept {
  const Entry& entry = entries_[i];
  return i >= tail_ && entry.external && entry.stream == 0 &&
         entry.activity.kind == Activity::Kind::event_recorded;
}

void CaptureLog::record_replay(const Stream& on, std::span<const driver::Rebound> memory) noexcept {
  // Where a seed decides, the tasks of this replay.
  std::span<const driver::Ticket> tickets = driver::simulated_replay_tickets();
  if (!tickets.empty() && tickets.back().stream == 0) tickets = {};
  const auto record_own = [&](Activity::Kind kind, std::uint64_t ticket) {
    detail::record({.kind = kind,
                    .device = on.device_index(),
                    .stream = on.handle().native,
                    .stream_id = on.stream_id(),
                    .event = &event_names_[events_.size()],
                    .ticket = ticket});
  };
  const auto record_entry = [&](const Entry& entry) {
    Activity activity = entry.activity;
    activity.stream = entry.stream == 0 ? on.handle().native : &stream_names_[entry.stream];
    activity.stream_id = entry.stream == 0
                             ? on.stream_id()
                             : first_stream_id_ + static_cast<std::int64_t>(entry.stream);
    if (activity.event != nullptr && !entry.external) activity.event = &event_names_[entry.event];
    if (entry.node != 0 && entry.node < tickets.size()) {
      const driver::Ticket& ticket = tickets[static_cast<std::size_t>(entry.node) - 1];
      activity.ticket = ticket.number;
      activity.run_stream = ticket.stream;
      activity.run_task = ticket.task;
      activity.run_point = ticket.point;
    }
    activity.accesses = activity.accesses_known && entry.accesses.empty()
                            ? no_accesses()
                            : std::span<const Access>(entry.accesses);
    std::vector<Access> moved;
    if (!memory.empty() && !entry.accesses.empty()) {
      moved = entry.accesses;
      for (Access& each : moved) each.address = driver::rebound_address(memory, each.address);
      activity.accesses = moved;
      activity.address = driver::rebound_address(memory, activity.address);
      activity.source = driver::rebound_address(memory, activity.source);
    }
    detail::record(activity);
  };
  // Events that the program has recorded behind everything stand for the whole replay.
  const auto record_end = [&] {
    record_own(Activity::Kind::event_recorded, tickets.empty() ? 0 : tickets.back().number);
    for (std::size_t i = tail_; i < entries_.size(); ++i)
      if (is_recorded_behind_all(i)) record_entry(entries_[i]);
  };
  const bool again = std::exchange(replayed_, true);
  // Who wants to know of replays as a whole knows that, and what all of it waits for.
  if (detail::observers.load(std::memory_order_relaxed) <=
      detail::order_observers.load(std::memory_order_relaxed)) {
    for (const Entry& entry : entries_) {
      const bool waits = entry.external && entry.activity.kind == Activity::Kind::event_waited;
      if (!waits || entry.stream != 0) break;
      record_entry(entry);
    }
    return record_end();
  }
  // Replays follow each other, whatever their streams.
  if (again) record_own(Activity::Kind::event_waited, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (!is_recorded_behind_all(i)) record_entry(entries_[i]);
  record_end();
}

}  // namespace ember::inline v0::cuda
