// Mistakes with graphs that would stay silent: what each graph watches, and what is said of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ember/graphs/graph.h"
#include "ember/graphs/ranges.h"
#include "ember/graphs/replay_order.h"
#include "ember/memory/free_watch.h"
#include "ember/memory/kept_pinned.h"
#include "ember/runtime/capture.h"

namespace ember::inline v0::cuda::detail {

/// How much is looked for.
struct CheckLevels {
  GraphCheck memory = GraphCheck::off;  ///< memory that is gone
  GraphCheck order = GraphCheck::off;   ///< work and replays in an order that cannot be meant
};
/// What the program asked of a graph, else EMBER_GRAPH_CHECK, else the default. ValueError.
CheckLevels check_levels(const std::optional<GraphCheck>& validate);

/// Warns, or throws GraphCheckError.
void tell_mistake(GraphCheck level, const char* mistake, const std::string& text);
/// "\nCaptured with stack trace:\n" and what a number stands for; nothing if that is unknown.
std::string place_text(const char* what, std::uint64_t stack);
/// What an error of a capture's end says: which call it was, or where the branch forked.
Status explain(const Status& status, const CaptureLog& log);

/// While it lives, the thread captures a call of a function, whose replays are given arguments that
/// lie in the same memory: that is there then, whatever became of the tensors that were captured.
/// Its results are taken out of the pool before other graphs are replayed there, in any order. The
/// call may well do nothing.
class CallCapture {
 public:
  CallCapture() noexcept;
  ~CallCapture();
  CallCapture(const CallCapture&) = delete;
  CallCapture& operator=(const CallCapture&) = delete;

  /// The memory of an argument.
  void add(std::uintptr_t address, std::size_t bytes) { given_.emplace_back(address, bytes); }
  /// Whether the thread captures a call.
  static bool any() noexcept;
  /// Whether it does, and all of this is of one argument.
  static bool is_given(const Access& access) noexcept;

 private:
  std::vector<std::pair<std::uintptr_t, std::size_t>> given_;
  CallCapture* const outer_;
};

/// One piece of work, for reports.
struct WorkPlace {
  const char* name = "";  ///< lives as long as the program
  const char* argument = nullptr;
  std::uint64_t stack = 0;
};

/// Those of one graph, from the beginning of its capture to its reset.
class GraphChecks final : public WorkWatcher {
 public:
  /// `shared`: other captures may have memory in the pool.
  GraphChecks(const CheckLevels& levels, const MemPoolId& pool, bool shared);

  void captured(const Activity& activity) noexcept override;
  void beside(const Stream& stream, const Activity& activity) noexcept override;

  /// The capture ended well, and `log` is of it.
  void ended(const CaptureLog& log, int device);
  /// Whether work is to be looked at until the first replay, too.
  bool watches_on() const noexcept { return levels_.order != GraphCheck::off; }
  /// After a replay was enqueued.
  void after_replay() const {
    if (member_) ReplayMember::tell_found();
  }
  /// Before a replay is enqueued: what is wrong is warned of, or thrown. Costs a comparison if
  /// nothing went wrong.
  /// True if observers need not be told of it.
  bool before_replay(CaptureLog& log, const Stream& on) {
    if (watch_.count() != told_) [[unlikely]]
      tell_gone_memory();
    if (!replayed_) [[unlikely]] {
      replayed_ = true;
      log.stop_watching();
    }
    kept_.used_on(on.handle());
    return member_ && member_->begin_replay(on);
  }

 private:
  /// An access of memory that the graph does not own.
  struct Use {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    bool writes = false;
    bool on_host = false;
    WorkPlace place;
  };
  void access(const Access& access, const WorkPlace& place);
  void tell_gone_memory();
  std::string text_of(const memory::GoneMemory& gone, bool& on_host) const;

  const CheckLevels levels_;
  const MemPoolId pool_;
  memory::FreeWatch watch_;
  memory::KeptPinned kept_;
  std::uint64_t told_ = 0;  // of watch_.count()
  std::size_t said_ = 0;    // of watch_.gone()
  bool capturing_ = true, replayed_ = false;
  Ranges<char> older_;  // blocks that the pool had in use before the capture
  std::vector<Use> uses_;
  std::optional<ReplayMember> member_;  // by order
  // By order: the graph's memory that the capture wrote, before any replay; and memory that was
  // written beside the capture.
  Ranges<WorkPlace> written_, written_beside_;
};

}  // namespace ember::inline v0::cuda::detail
