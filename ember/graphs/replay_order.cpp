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
#include "ember/sanitizer/engine.h"

namespace ember::inline v0::cuda::detail {

/// The captures of one pool.
struct PoolBook {
  Mutex mutex;
  std::vector<const ReplayMember*> members EMBER_GUARDED_BY(mutex);  // in the order of captures
  std::uint64_t captures EMBER_GUARDED_BY(mutex) = 0;
  std::uint64_t last EMBER_GUARDED_BY(mutex) = 0;        // that was replayed; 0: none
  std::uint64_t last_stack EMBER_GUARDED_BY(mutex) = 0;  // where that was captured
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

using sanitizer::Conflict;
using sanitizer::Epoch;

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
  void tell_found();

 private:
  struct Member {
    const ReplayMember* graph = nullptr;
    const PoolBook* book = nullptr;
    Epoch last;  // replay
    std::uint64_t stack = 0;
  };
  void switch_over() EMBER_REQUIRES(switching_);
  void replayed(Member& member, const Activity& end) EMBER_REQUIRES(mutex_);
  void host_found(const Conflict& conflict, const Activity& activity) EMBER_REQUIRES(mutex_);
  void add(GraphCheck level, std::uint32_t thread, ReplayFinding finding) EMBER_REQUIRES(mutex_);

  Mutex switching_;  // before the other; notice() takes it not
  bool watching_ EMBER_GUARDED_BY(switching_) = false;
  Mutex mutex_;
  std::map<const void*, Member> members_ EMBER_GUARDED_BY(mutex_);  // by the event
  std::map<std::pair<MemPoolId, int>, std::weak_ptr<PoolBook>> books_ EMBER_GUARDED_BY(mutex_);
  std::vector<ReplayFinding> findings_ EMBER_GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};
  std::optional<sanitizer::Engine> engine_ EMBER_GUARDED_BY(mutex_);
  std::vector<Conflict> conflicts_ EMBER_GUARDED_BY(mutex_);
};

// ---- Who is watched

// An observer that is being told something may wait for the lock of an interpreter.
void ReplayWatch::join(ReplayMember& member) {
  const UnexpectedWait wait;
  const MutexLock switching(switching_);
  {
    const MutexLock lock(mutex_);
    std::weak_ptr<PoolBook>& known = books_[{member.pool_, member.device_}];
    member.book_ = known.lock();
    if (member.book_ == nullptr) known = member.book_ = std::make_shared<PoolBook>();
    members_[member.end_event_] = {&member, member.book_.get(), {}, 0};
    PoolBook& book = *member.book_;
    const MutexLock in_book(book.mutex);
    member.number_ = ++book.captures;
    book.members.push_back(&member);
  }
  switch_over();
}

void ReplayWatch::leave(const ReplayMember& member) noexcept {
  const UnexpectedWait wait;
  const MutexLock switching(switching_);
  {
    const MutexLock lock(mutex_);
    members_.erase(member.end_event_);
    PoolBook& book = *member.book_;
    const MutexLock in_book(book.mutex);
    std::erase(book.members, &member);
    if (book.members.empty()) books_.erase({member.pool_, member.device_});
  }
  switch_over();
}

void ReplayWatch::switch_over() {
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    for (const auto& [event, member] : members_) {
      const MutexLock in_book(member.graph->book_->mutex);
      wanted |= !member.graph->host_.empty() || member.book->members.size() > 1;
    }
  }
  // Who is being told something cannot change who is.
  if (wanted == watching_ || inside_notice()) return;
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
  switch (activity.kind) {
    case Kind::event_recorded: {
      const MutexLock lock(mutex_);
      if (const auto found = members_.find(activity.event); found != members_.end())
        replayed(found->second, activity);
      engine_->observe(activity, conflicts_);
      return;
    }
    case Kind::host_accessed: {
      const MutexLock lock(mutex_);
      conflicts_.clear();
      engine_->observe(activity, conflicts_);
      for (const Conflict& conflict : conflicts_) host_found(conflict, activity);
      return;
    }
    case Kind::event_waited:
    case Kind::event_created:
    case Kind::event_destroyed:
    case Kind::event_queried:
    case Kind::stream_queried:
    case Kind::wait_began:
    case Kind::stream_synchronized:
    case Kind::event_synchronized:
    case Kind::device_synchronized:
    case Kind::device_reset: {
      const MutexLock lock(mutex_);
      engine_->observe(activity, conflicts_);
      return;
    }
    default: return;
  }
}

// The whole replay counts as one piece of work, at the record of its end.
void ReplayWatch::replayed(Member& member, const Activity& end) {
  Activity whole = end;
  whole.kind = Activity::Kind::kernel_launched;
  whole.event = nullptr;
  whole.name = kReplay;
  whole.accesses = member.graph->host_;
  whole.accesses_known = true;
  conflicts_.clear();
  engine_->observe(whole, conflicts_);
  const sanitizer::Engine::Placed& placed = engine_->placed();
  for (auto& [event, other] : members_) {
    if (other.book != member.book || other.graph == member.graph || other.last.number == 0 ||
        placed.before->covers(other.last))
      continue;
    ReplayFinding found{
        "overlapping-replays",
        "the replay of " + capture_text(member.graph->number_) + " of pool " +
            pool_text(member.graph->pool_) + " does not wait for the replay of " +
            capture_text(other.graph->number_) +
            " on another stream. Both use the pool's memory: let the stream wait for the "
            "other one before."};
    found.places[0] = "Replayed";
    found.stacks[0] = end.stack;
    found.places[1] = "Replayed before";
    found.stacks[1] = other.stack;
    add(member.graph->level_, end.thread, std::move(found));
    other.last = {};  // said once
  }
  member.last = placed.epoch;
  member.stack = end.stack;
}

void ReplayWatch::host_found(const Conflict& conflict, const Activity& activity) {
  if (conflict.kind != Conflict::Kind::race || conflict.before.operation.name != kReplay) return;
  const auto touches = [&](const Access& access) {
    const auto first = reinterpret_cast<std::uintptr_t>(access.address);
    const auto other = reinterpret_cast<std::uintptr_t>(conflict.before.address);
    return first < other + conflict.before.bytes && other < first + access.bytes;
  };
  GraphCheck level = GraphCheck::off;
  for (const auto& [event, member] : members_)
    if (std::any_of(member.graph->host_.begin(), member.graph->host_.end(), touches))
      level = std::max(level, member.graph->level_);
  ReplayFinding found{
      "host-access-during-replay",
      std::string("the host ") + (conflict.now.writes ? "writes " : "reads ") +
          std::to_string(conflict.now.bytes) + " bytes of page-locked memory (" +
          (activity.name != nullptr ? activity.name : "host") + "), which a replay in flight " +
          (conflict.before.writes ? "writes" : "reads") + ". Wait for the replay before."};
  found.places[0] = "Accessed";
  found.stacks[0] = activity.stack;
  found.places[1] = "Replayed";
  found.stacks[1] = conflict.before.operation.stack;
  add(level, activity.thread, std::move(found));
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

// ---- One graph

ReplayMember::ReplayMember(const MemPoolId& pool, int device, GraphCheck level,
                           const void* end_event, std::vector<Access> host)
    : pool_(pool),
      device_(device),
      level_(level),
      end_event_(end_event),
      host_(std::move(host)),
      stack_(capture_stack()) {
  ReplayWatch::get().join(*this);
}

ReplayMember::~ReplayMember() {
  if (memory::in_forked_child()) return;  // where nothing is replayed
  ReplayWatch::get().leave(*this);
  tell_found();
}

void ReplayMember::tell_found() { ReplayWatch::get().tell_found(); }

void ReplayMember::check_turn() {
  ReplayFinding found;
  {
    const MutexLock lock(book_->mutex);
    if (book_->members.size() == 1) return;
    const std::uint64_t first = book_->members.front()->number_;
    const std::uint64_t last = book_->last;
    const bool in_turn = number_ == first || (last != 0 && number_ >= last);
    if (in_turn) {
      book_->last = number_;
      book_->last_stack = stack_;
      return;
    }
    found.mistake = "replays-out-of-order";
    found.text = capture_text(number_) + " of pool " + pool_text(pool_) + " is replayed " +
                 (last == 0 ? "before " + capture_text(first) + " was"
                            : "after " + capture_text(last) + ", before " + capture_text(first) +
                                  " was replayed again") +
                 ". Captures that share a pool use each other's memory, so their replays come in "
                 "the order of the captures.";
    found.places[0] = "Replayed";
    found.stacks[0] = capture_stack();
    found.places[1] = "Captured";
    found.stacks[1] = stack_;
    found.places[2] = "The other one captured";
    found.stacks[2] = last == 0 ? book_->members.front()->stack_ : book_->last_stack;
    if (level_ != GraphCheck::error) {  // an error is not replayed
      book_->last = number_;
      book_->last_stack = stack_;
    }
  }
  tell_mistake(level_, found.mistake, found.whole());
}

}  // namespace ember::inline v0::cuda::detail
