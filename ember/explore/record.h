// What one run of a program did, and what must come before what: from what observers see.
//
// There are two orders. What is promised is the sanitizer's (Note [What orders what] in
// sanitizer/engine.h): accesses that it does not order are a conflict. What is kept is what
// simulated devices never do otherwise, such as that they end a copy to ordinary memory before the
// call returns: it says which orders can be run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ember/driver/simulation.h"
#include "ember/explore/classes.h"
#include "ember/runtime/observer.h"
#include "ember/sanitizer/engine.h"

namespace ember::inline v0::explore {

/// Two accesses of the same bytes, one of them a write, which nothing orders.
struct Unordered {
  /// What an event is, for how it may overlap with another one.
  enum class Part : std::uint8_t { host, host_function, kernel, copy };

  Edge events;  ///< of the graph
  cuda::sanitizer::Conflict conflict;
  Part first = Part::host, second = Part::host;
  // Of the bytes that they share:
  bool first_reads = false;   ///< what the second one writes
  bool second_reads = false;  ///< what the first one writes
  bool both_write = false;
};

/// The events of a run are what its host did between two points (the first `segments` ones), and
/// its tasks.
struct Graph {
  std::size_t segments = 0;
  std::vector<driver::Step>
      tasks;                     ///< with the point at which each was there; event `segments` + i
  std::vector<Edge> order;       ///< what is kept
  std::vector<Unordered> pairs;  ///< each two events once

  std::size_t events() const noexcept { return segments + tasks.size(); }
  /// How each pair came in a run.
  Orientation seen_in(const std::vector<driver::Step>& ran) const;
  /// Whether `order` allows another order of all events than this one.
  bool allows_another(const std::vector<std::size_t>& line) const;
  /// A task's event as a step at a point of the host.
  driver::Step step(std::size_t event, std::uint64_t point) const {
    const driver::Step& task = tasks[event - segments];
    return {std::max<std::uint64_t>(point, 1), task.stream, task.task};
  }
  /// What makes a run of simulated devices follow an order of all events.
  std::vector<driver::Step> steps(const std::vector<std::size_t>& line) const;
};

/// What happened, without what may be another one in each run: equal for runs that do the same.
std::uint64_t fingerprint(const cuda::Activity& activity) noexcept;

/// How many pairs are kept of a run: a program without any order has the square of its operations.
inline constexpr std::size_t kMostPairs = 1000;

/// Keeps what happens from add_observer() to remove_observer(), on simulated devices in a run of
/// kind `steps`.
class Recorder final : public cuda::Observer {
 public:
  Recorder() { engine_.expect_writes(true); }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() override { cuda::remove_observer(*this); }

  bool wants_stacks() const noexcept override { return true; }
  void notice(const cuda::Activity& activity) noexcept override;

  /// How many pairs were found so far, of which some may turn out to be ordered, and what the
  /// sanitizer says of one.
  std::size_t found() const noexcept { return pairs_.size(); }
  const cuda::sanitizer::Conflict& conflict(std::size_t i) const { return pairs_[i].what.conflict; }

  // After it was removed:

  /// Somebody reads the bytes when all is done: a result of that name.
  void read_at_end(const cuda::Access& access, const std::string& name);
  /// `points`: how many there were when the program ended; `progress`: when all work was done.
  Graph graph(std::uint64_t points, const driver::Progress& progress);
  /// Why one run proves nothing, however its accesses are ordered: "(a) ...", each once.
  const std::vector<std::string>& reasons() const noexcept { return reasons_; }
  /// Work on memory that is free.
  const std::vector<cuda::sanitizer::Conflict>& after_free() const noexcept { return after_free_; }
  const std::vector<std::uint64_t>& fingerprints() const noexcept { return fingerprints_; }
  std::uint64_t operations() const noexcept { return operations_.size(); }

 private:
  /// An event before all are known: stream 0 is the host, and its task the point it had come to.
  using Name = std::pair<std::uint32_t, std::uint64_t>;
  struct Task {
    driver::Step step;
    std::vector<std::size_t> before;  // tasks
  };
  struct Stream {
    std::vector<std::size_t> pending;  // tasks: what its next one comes after
    std::uint64_t tasks = 0;
    /// By number in the queue: what is done when that is.
    std::map<std::uint64_t, std::vector<std::size_t>> held;
  };
  struct Past {
    cuda::sanitizer::Bytes bytes;
    cuda::sanitizer::Epoch epoch;
    bool writes = false;
    cuda::sanitizer::Arguments arguments;
    std::size_t operation = 0;
  };
  struct Allocation {
    std::size_t span = 0, bytes = 0;
    std::uint64_t stack = 0;
    bool of_graph = false;  // made in a capture, for the graph's replays
    bool recorded = false;  // record_stream and its like were called
    std::vector<Past> past;
  };

  void because(std::string reason);
  void look_at_threads(bool another);
  void look_for_reasons(const cuda::Activity& activity);
  Stream& stream_of(const cuda::Activity& activity);
  void enqueue(const cuda::Activity& activity);
  void operate(const cuda::Activity& activity);
  void access(const cuda::Access& access, int argument);
  void begin_allocation(const cuda::Activity& activity);
  Allocation& allocation_at(std::uintptr_t address, std::uintptr_t& first);
  void pair(std::size_t first, std::size_t second, const cuda::sanitizer::Conflict& conflict);
  /// Turns a pair about.
  static void turn(Unordered& pair);
  void forget_known(std::uint32_t thread);
  void check_written(const std::vector<cuda::sanitizer::Conflict>& found);
  void note_free(const cuda::Activity& activity);
  void look_at_reuse(const cuda::Activity& activity);

  cuda::sanitizer::Engine engine_;
  std::vector<cuda::sanitizer::Conflict> found_, after_free_;
  std::vector<std::string> reasons_;
  std::vector<std::uint64_t> fingerprints_;
  std::uint32_t thread_ = 0;

  std::map<std::pair<int, const void*>, Stream> streams_;
  std::map<std::uint32_t, Stream*> by_number_;  // in the run
  std::map<const void*, std::vector<std::size_t>> events_;
  std::vector<Task> tasks_;
  std::map<Name, std::size_t> task_numbers_;

  std::vector<std::pair<cuda::sanitizer::Operation, Name>> operations_;  // by serial number
  std::map<std::uintptr_t, Allocation> allocations_;
  Allocation rest_;  // memory whose allocation was not seen
  std::size_t kept_ = 0, forget_at_ = 256;
  /// Memory that went back to its allocator, and the uses of it that were not over by then. Device
  /// -1: page-locked memory.
  struct Freed {
    int device = -1;
    const void* stream = nullptr;
    bool small = false;
    std::vector<Past> uses;
  };
  std::vector<Freed> early_;   // uses that nothing orders before the free
  std::vector<Freed> parked_;  // told uses (record_stream), for which the allocator waits
  /// Without the events, which are not known before the end.
  struct Pair {
    Name first, second;
    Unordered what;
  };
  std::map<std::pair<Name, Name>, std::size_t> known_pairs_;
  std::vector<Pair> pairs_;
};

}  // namespace ember::inline v0::explore
