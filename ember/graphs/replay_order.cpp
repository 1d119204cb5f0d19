#include "ember/graphs/replay_order.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ember/base/embedding.h"
#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"
#include "ember/base/stack.h"
#include "ember/graphs/checks.h"
#include "ember/memory/allocators.h"
#include "ember/runtime/capture.h"
#include "ember/runtime/runtime.h"
#include "ember/sanitizer/engine.h"

namespace ember::inline v0::cuda::detail {

/// The captures of one pool on one device. Guarded by the watch's lock.
struct PoolBook {
  std::vector<const ReplayMember*> members;  // in the order of captures
  std::uint64_t captures = 0;
  std::atomic<std::uint64_t> last{0};  // that was replayed; 0: none
  std::atomic<bool> alone{true};       // one member, whose replays need no lock
  int device = -1;  // -1: none was replayed yet; else of the stream of the last replay
  const void* stream = nullptr;
};

/// What is to be said of a replay. The stacks are looked up when it is told.
struct ReplayFinding {
  const char* mistake = "";
  std::string text;
  const char* places[3] = {};  // what each stack is of
  std::uint64_t stacks[3] = {};

  std::string whole() const {
    std::string made = text;
    for (int i = 0; i < 3; ++i)
      if (places[i] != nullptr) made += place_text(places[i], stacks[i]);
    return made;
  }
};

namespace {

constexpr const char* kReplay = "graph replay";

std::string pool_text(const MemPoolId& pool) {
  return "(" + std::to_string(pool.first) + ", " + std::to_string(pool.second) + ")";
}

std::string capture_text(std::uint64_t number) { return "capture " + std::to_string(number); }

}  // namespace

/// Watches while it has to.
class ReplayWatch final : public Observer {
 public:
  static ReplayWatch& get() {
    static NoDestructor<ReplayWatch> made;  // threads report until the process ends
    return *made;
  }

  bool wants_stacks() const noexcept override { return true; }
  void notice(const Activity& activity) noexcept override;

  void join(ReplayMember& member);
  void leave(const ReplayMember& member) noexcept;
  bool begin_replay(const ReplayMember& member, const Stream& on);
  void tell_found();

 private:
  struct Member {
    const ReplayMember* graph = nullptr;
    // Its last replay. Without a number: nothing came on that stream since that would stand for it.
    int device = -1;
    const void* stream = nullptr;
    std::int64_t stream_id = 0;
    sanitizer::Epoch last;
    std::uint64_t stack = 0;

    bool replayed() const noexcept { return device >= 0; }
    bool is_on(const Activity& activity) const noexcept {
      return device == activity.device && stream == activity.stream;
    }
  };
  void switch_over();
  sanitizer::Epoch place(int device, const void* stream, std::int64_t id, std::uint32_t thread)
      EMBER_REQUIRES(mutex_);
  template <class Which>
  void stand_for(const Activity& activity, const Which& which) EMBER_REQUIRES(mutex_);
  void replayed(Member& member, const Activity& end) EMBER_REQUIRES(mutex_);
  void host_accessed(const Activity& activity) EMBER_REQUIRES(mutex_);
  void add(GraphCheck level, std::uint32_t thread, ReplayFinding finding) EMBER_REQUIRES(mutex_);

  Mutex switching_;  // before the other; notice() takes it not
  bool watching_ EMBER_GUARDED_BY(switching_) = false;
  Mutex mutex_;
  std::map<const void*, Member> members_ EMBER_GUARDED_BY(mutex_);  // by the event
  std::map<std::pair<MemPoolId, int>, std::weak_ptr<PoolBook>> books_ EMBER_GUARDED_BY(mutex_);
  std::vector<ReplayFinding> findings_ EMBER_GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};
  std::optional<sanitizer::Engine> engine_ EMBER_GUARDED_BY(mutex_);
  std::vector<sanitizer::Conflict> conflicts_ EMBER_GUARDED_BY(mutex_);  // none: no accesses
};

// ---- Who is watched

// An observer that is being told something may wait for the lock of an interpreter.
void ReplayWatch::join(ReplayMember& member) {
  const UnexpectedWait wait;
  {
    const MutexLock lock(mutex_);
    std::weak_ptr<PoolBook>& known = books_[{member.pool_, member.device_}];
    member.book_ = known.lock();
    if (member.book_ == nullptr) known = member.book_ = std::make_shared<PoolBook>();
    Member& made = members_[member.end_event_] = {};
    made.graph = &member;
    member.number_ = ++member.book_->captures;
    member.book_->members.push_back(&member);
    member.book_->alone = member.book_->members.size() == 1;
  }
  switch_over();
}

void ReplayWatch::leave(const ReplayMember& member) noexcept {
  const UnexpectedWait wait;
  {
    const MutexLock lock(mutex_);
    members_.erase(member.end_event_);
    std::erase(member.book_->members, &member);
    member.book_->alone = member.book_->members.size() == 1;
    if (member.book_->members.empty()) books_.erase({member.pool_, member.device_});
  }
  switch_over();
}

// The last one of several threads finds what all of them have changed. Who is being told something
// cannot change who is: then the next one does.
void ReplayWatch::switch_over() {
  if (inside_notice()) return;
  const MutexLock switching(switching_);
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    for (const auto& [event, member] : members_)
      wanted |= !member.graph->host_.empty() || member.graph->book_->members.size() > 1;
  }
  if (wanted == watching_) return;
  watching_ = wanted;
  if (wanted) {
    {
      const MutexLock lock(mutex_);
      engine_.emplace();
    }
    ++order_observers;
    add_observer(*this);
    return;
  }
  remove_observer(*this);
  --order_observers;
  const MutexLock lock(mutex_);
  engine_.reset();
}

// ---- What happens

void ReplayWatch::notice(const Activity& activity) noexcept {
  using Kind = Activity::Kind;
  const auto same_stream = [&](const Member& member) { return member.is_on(activity); };
  switch (activity.kind) {
    case Kind::event_recorded: {
      const MutexLock lock(mutex_);
      const auto found = members_.find(activity.event);
      if (found != members_.end())
        replayed(found->second, activity);
      else
        stand_for(activity, same_stream);
      return engine_->observe(activity, conflicts_);
    }
    case Kind::wait_began: {
      const MutexLock lock(mutex_);
      // Without a stream it may be for the device.
      if (activity.event == nullptr)
        stand_for(activity, [&](const Member& member) {
          return same_stream(member) ||
                 (activity.stream == nullptr && member.device == activity.device);
        });
      return engine_->observe(activity, conflicts_);
    }
    case Kind::stream_queried: {
      const MutexLock lock(mutex_);
      if (activity.done) stand_for(activity, same_stream);
      return engine_->observe(activity, conflicts_);
    }
    case Kind::host_accessed: {
      const MutexLock lock(mutex_);
      return host_accessed(activity);
    }
    case Kind::event_waited:
    case Kind::event_created:
    case Kind::event_destroyed:
    case Kind::event_queried:
    case Kind::stream_synchronized:
    case Kind::event_synchronized:
    case Kind::device_synchronized:
    case Kind::device_reset: {
      const MutexLock lock(mutex_);
      return engine_->observe(activity, conflicts_);
    }
    default: return;
  }
}

/// Something that a stream does now.
sanitizer::Epoch ReplayWatch::place(int device, const void* stream, std::int64_t id,
                                    std::uint32_t thread) {
  Activity work;
  work.kind = Activity::Kind::kernel_launched;
  work.name = kReplay;
  work.device = device;
  work.stream = stream;
  work.stream_id = id;
  work.thread = thread;
  work.accesses_known = true;
  engine_->observe(work, conflicts_);
  return engine_->placed().epoch;
}

/// Replays that were only noted come before what is done now on their streams.
template <class Which>
void ReplayWatch::stand_for(const Activity& activity, const Which& which) {
  for (auto& [event, member] : members_)
    if (member.replayed() && member.last.number == 0 && which(member))
      member.last = place(member.device, member.stream, member.stream_id, activity.thread);
}

// The whole replay counts as one piece of work, at the record of its end.
void ReplayWatch::replayed(Member& member, const Activity& end) {
  if (member.replayed() && !member.is_on(end)) {  // which it waits for
    (void)place(member.device, member.stream, member.stream_id, end.thread);
    Activity order = end;
    order.device = member.device;
    order.stream = member.stream;
    order.stream_id = member.stream_id;
    engine_->observe(order, conflicts_);
    order = end;
    order.kind = Activity::Kind::event_waited;
    engine_->observe(order, conflicts_);
  }
  const sanitizer::Epoch now = place(end.device, end.stream, end.stream_id, end.thread);
  const sanitizer::Clock& before = *engine_->placed().before;
  for (auto& [event, other] : members_) {
    if (other.graph->book_ != member.graph->book_ || other.graph == member.graph ||
        !other.replayed() || other.is_on(end) ||
        (other.last.number != 0 && before.covers(other.last)))
      continue;
    ReplayFinding found{
        "overlapping-replays",
        "the replay of " + capture_text(member.graph->number_) + " of pool " +
            pool_text(member.graph->pool_) + " does not wait for the replay of " +
            capture_text(other.graph->number_) +
            " on another stream. Both use the pool's memory: let the stream wait for the other one "
            "before."};
    found.places[0] = "Replayed";
    found.stacks[0] = end.stack;
    found.places[1] = other.stack != 0 ? "Replayed before" : "The other one captured";
    found.stacks[1] = other.stack != 0 ? other.stack : other.graph->stack_;
    add(member.graph->level_, end.thread, std::move(found));
    other.device = -1;  // said once
  }
  member.device = end.device;
  member.stream = end.stream;
  member.stream_id = end.stream_id;
  member.last = now;
  member.stack = end.stack;
}

void ReplayWatch::host_accessed(const Activity& activity) {
  const auto conflicts = [](const Access& a, const Access& b) {
    const auto first = reinterpret_cast<std::uintptr_t>(a.address);
    const auto other = reinterpret_cast<std::uintptr_t>(b.address);
    return (a.writes || b.writes) && first < other + b.bytes && other < first + a.bytes;
  };
  for (auto& [event, member] : members_) {
    if (!member.replayed() || member.graph->host_.empty()) continue;
    for (const Access& now : activity.accesses) {
      const auto& used = member.graph->host_;
      const auto with = std::find_if(used.begin(), used.end(),
                                     [&](const Access& each) { return conflicts(now, each); });
      if (with == used.end()) continue;
      if (member.last.number != 0 && engine_->host_knows(activity.thread).covers(member.last))
        continue;
      ReplayFinding found{"host-access-during-replay",
                          std::string("the host ") + (now.writes ? "writes " : "reads ") +
                              std::to_string(now.bytes) + " bytes of page-locked memory (" +
                              (activity.name != nullptr ? activity.name : "host") +
                              "), which a replay in flight " + (with->writes ? "writes" : "reads") +
                              ". Wait for the replay before."};
      found.places[0] = "Accessed";
      found.stacks[0] = activity.stack;
      found.places[1] = member.stack != 0 ? "Replayed" : "Captured";
      found.stacks[1] = member.stack != 0 ? member.stack : member.graph->stack_;
      add(member.graph->level_, activity.thread, std::move(found));
      member.device = -1;  // said once
      break;
    }
  }
}

// Texts of stacks may need the lock of an interpreter, and warnings do: not here.
void ReplayWatch::add(GraphCheck level, std::uint32_t thread, ReplayFinding finding) {
  if (level == GraphCheck::off) return;
  if (level == GraphCheck::error)
    return fail_operation(
        thread, std::make_exception_ptr(GraphCheckError(
                    finding.mistake,
                    std::string("graph check: ") + finding.mistake + ": " + finding.whole())));
  findings_.push_back(std::move(finding));
  any_ = true;
}

void ReplayWatch::tell_found() {
  if (!any_.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::vector<ReplayFinding> findings;
  {
    const UnexpectedWait wait;
    const MutexLock lock(mutex_);
    findings.swap(findings_);
    any_ = false;
  }
  for (const ReplayFinding& each : findings)
    tell_mistake(GraphCheck::warn, each.mistake, each.whole());
}

bool ReplayWatch::begin_replay(const ReplayMember& member, const Stream& on) {
  PoolBook& book = *member.book_;
  // Nobody else wants to be told.
  const bool unseen =
      observers.load(std::memory_order_relaxed) <= order_observers.load(std::memory_order_relaxed);
  if (member.host_.empty() && book.alone.load(std::memory_order_relaxed)) {
    book.last.store(member.number_, std::memory_order_relaxed);
    return unseen;
  }
  ReplayFinding found;
  bool quiet = false;
  {
    const MutexLock lock(mutex_);
    const std::uint64_t first = book.members.front()->number_, last = book.last;
    if (!member.any_order_ && member.number_ != first && (last == 0 || member.number_ < last)) {
      found.mistake = "replays-out-of-order";
      found.text =
          capture_text(member.number_) + " of pool " + pool_text(member.pool_) + " is replayed " +
          (last == 0 ? "before " + capture_text(first) + " was"
                     : "after " + capture_text(last) + ", before " + capture_text(first) +
                           " was replayed again") +
          ". Captures that share a pool use each other's memory, so their replays come in the "
          "order of the captures.";
      found.places[0] = "Replayed";
      found.places[1] = "Captured";
      found.stacks[1] = member.stack_;
      for (const ReplayMember* const other : book.members)
        if (other->number_ == (last == 0 ? first : last)) {
          found.places[2] = "The other one captured";
          found.stacks[2] = other->stack_;
        }
    }
    if (found.text.empty() || member.level_ != GraphCheck::error) {  // an error is not replayed
      book.last = member.number_;
      const auto on_this = [&](int device, const void* stream) {
        return device < 0 || (device == on.device_index() && stream == on.handle().native);
      };
      Member& noted = members_.find(member.end_event_)->second;
      quiet = unseen && on_this(book.device, book.stream) && on_this(noted.device, noted.stream);
      book.device = on.device_index();
      book.stream = on.handle().native;
      if (quiet && engine_) {
        noted.device = on.device_index();
        noted.stream = on.handle().native;
        noted.stream_id = on.stream_id();
        noted.last = {};
        noted.stack = 0;
      }
    }
  }
  if (found.text.empty()) return quiet;
  found.stacks[0] = capture_stack();
  tell_mistake(member.level_, found.mistake, found.whole());
  return quiet;
}

// ---- One graph

ReplayMember::ReplayMember(const MemPoolId& pool, int device, GraphCheck level,
                           const void* end_event, std::vector<Access> host, bool any_order)
    : pool_(pool),
      device_(device),
      level_(level),
      end_event_(end_event),
      host_(std::move(host)),
      any_order_(any_order),
      stack_(capture_stack()) {
  ReplayWatch::get().join(*this);
}

ReplayMember::~ReplayMember() {
  if (memory::in_forked_child()) return;  // where nothing is replayed
  ReplayWatch::get().leave(*this);
  tell_found();
}

void ReplayMember::tell_found() { ReplayWatch::get().tell_found(); }

bool ReplayMember::begin_replay(const Stream& on) const {
  return ReplayWatch::get().begin_replay(*this, on);
}

}  // namespace ember::inline v0::cuda::detail
