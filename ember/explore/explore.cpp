#include "ember/explore/explore.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/driver/schedule.h"
#include "ember/driver/simulation.h"
#include "ember/explore/classes.h"
#include "ember/explore/outcome.h"
#include "ember/explore/overlaps.h"
#include "ember/explore/record.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/runtime/thread_state.h"
#include "ember/tensor/accesses.h"

namespace ember::inline v0::explore {
namespace {

using cuda::sanitizer::Conflict;
using driver::Step;

/// One exploration: the state that its steps share.
class Search {
 public:
  Search(const std::function<void()>& program, const sim::ExploreOptions& options)
      : program_(program),
        options_(options),
        end_(Clock::now() + duration_of(options.max_seconds)) {}

  sim::Exploration all() {
    record();
    const bool repeated = graph_.pairs.empty() || (!base_.overdue && repeats());
    made_.pairs = graph_.pairs.size();
    made_.several_orders = graph_.allows_another(
        Classes(graph_.events(), graph_.order, {}).linearise({}, ranks_of(graph_)));
    if (made_.reasons.empty()) {
      made_.verdict = sim::Verdict::proved;
      made_.classes = 1;
      made_.complete = true;
    } else if (!graph_.pairs.empty() && repeated) {
      try_classes();
    }
    return std::move(made_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool spent() const { return made_.runs >= options_.max_runs || Clock::now() >= end_; }

  /// The run from which everything is concluded.
  void record() {
    Recorder recorder;
    base_ = run(program_, options_.max_seconds, {}, [&](Outcome&) {
      cuda::add_observer(recorder);
      return std::shared_ptr<Recorder>(&recorder,
                                       [](Recorder* made) { cuda::remove_observer(*made); });
    });
    ++made_.runs;
    for (Named& result : base_.results)
      if (const auto original = std::exchange(result.original, std::nullopt))
        recorder.read_at_end(ops::reads(*original), result.name);
    graph_ = recorder.graph(base_.points, base_.progress);
    base_.fingerprints = recorder.fingerprints();
    made_.reasons = recorder.reasons();
    if (base_.overdue)
      made_.reasons.push_back("the program does not end: it was ended after " +
                              number_text(options_.max_seconds, 6) + " s (max_seconds)");
    if (!base_.thrown.empty()) made_.reasons.push_back("it failed: " + base_.thrown);
    if (!graph_.pairs.empty())
      made_.reasons.push_back("(c) " + std::to_string(graph_.pairs.size()) +
                              (graph_.pairs.size() == 1 ? " pair" : " pairs") +
                              " of accesses to the same bytes, which nothing orders");
    if (!recorder.after_free().empty())
      made_.reasons.emplace_back("(c) memory is used that is free");
    std::vector<const Conflict*> all;
    for (const Unordered& pair : graph_.pairs) all.push_back(&pair.conflict);
    for (const Conflict& conflict : recorder.after_free()) all.push_back(&conflict);
    made_.races = reports(all);
    made_.operations = recorder.operations();
    made_.tasks = graph_.tasks.size();
  }

  /// Whether the program does the same again. What is made at its first use, such as a stream or a
  /// workspace, makes a first run another one; so the last one counts.
  bool repeats() {
    constexpr int kTries = 3;
    for (int i = 0; i < kTries && made_.runs < options_.max_runs; ++i) {
      const Outcome again = run(program_, options_.max_seconds, {});
      ++made_.runs;
      if (again.fingerprints == base_.fingerprints && difference(base_, again).empty()) return true;
      record();
    }
    made_.reasons.emplace_back(
        made_.runs >= options_.max_runs
            ? "max_runs leaves no run to see whether the program repeats itself"
            : "(a) the program does something else when it is run again in the same order");
    return false;
  }

  void try_classes() {
    std::vector<Edge> pairs;
    pairs.reserve(graph_.pairs.size());
    for (const Unordered& pair : graph_.pairs) pairs.push_back(pair.events);
    Classes classes(graph_.events(), graph_.order, pairs);
    const std::vector<std::size_t> rank = ranks_of(graph_);
    std::vector<bool> seen_turned(pairs.size());
    std::size_t missed = 0, others = 0;
    bool more = true;  // while there is reason to go on
    // Whether the run was the one that was asked for.
    const auto follow = [&](const std::vector<Step>& steps, std::size_t pair) {
      const Outcome outcome = run(program_, options_.max_seconds, steps);
      ++made_.runs;
      const bool does_the_same = outcome.fingerprints == base_.fingerprints;
      if (!does_the_same) ++others;
      if (outcome.overdue) return false;  // there is no time left either
      more = difference(base_, outcome).empty();
      if (!more) show(steps, pair);
      return does_the_same && outcome.progress.unfollowed == 0;
    };
    const auto try_one = [&](const Orientation& orientation) {
      const std::size_t others_before = others;
      if (follow(graph_.steps(classes.linearise(orientation, rank)), kNoPair)) {
        ++made_.classes;
        for (std::size_t i = 0; i < pairs.size(); ++i)
          if (orientation[i]) seen_turned[i] = true;
      } else if (others == others_before) {
        ++missed;
      }
    };
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (!classes.can_turn(i)) ++made_.fixed;
    if (made_.fixed != 0)
      made_.reasons.push_back(std::to_string(made_.fixed) +
                              " of the pairs never come the other way on simulated devices, which "
                              "wait for copies of ordinary host memory");
    // First each pair by itself: few runs, and most bugs need no more.
    Orientation orientation;
    classes.leave_out(Orientation(pairs.size()));  // the run that was recorded
    ++made_.classes;
    for (std::size_t i = 0; i < pairs.size() && more && !spent(); ++i)
      if (!seen_turned[i] && classes.turned(i, orientation)) try_one(orientation);
    const std::vector<std::size_t> line = classes.linearise(Orientation(pairs.size()), rank);
    for (std::size_t i = 0; i < pairs.size() && more && !spent(); ++i) {
      bool seen = false;
      if (classes.can_turn(i))
        for (const std::vector<Step>& steps : overlaps(graph_, graph_.pairs[i], line))
          if (more && !spent() && follow(steps, i)) seen = true;
      if (seen) ++made_.overlapped;
    }
    bool all = false;
    while (more && !spent()) {
      all = !classes.next(orientation);
      if (all) break;
      try_one(orientation);
    }
    made_.both = static_cast<std::size_t>(std::count(seen_turned.begin(), seen_turned.end(), true));
    made_.complete = all && missed == 0 && others == 0;
    if (made_.verdict == sim::Verdict::differs) return;
    if (others != 0)
      made_.reasons.push_back("(a) the program does something else in " + std::to_string(others) +
                              " of the other orders: it depends on their data");
    if (missed != 0) made_.reasons.push_back(std::to_string(missed) + " orders could not be run");
    if (!all) made_.reasons.emplace_back("there was no time, or no run left, for other orders");
    if (made_.complete && made_.reasons.size() == 1) made_.verdict = sim::Verdict::same;
  }

  static constexpr std::size_t kNoPair = SIZE_MAX;

  /// Two schedules with different results: that of no steps, and a shortest one from `steps`, which
  /// had `overlapping` overlap, if that is a pair.
  void show(const std::vector<Step>& steps, std::size_t overlapping) {
    made_.verdict = sim::Verdict::differs;
    const auto differs = [&](const std::vector<Step>& some) {
      ++made_.runs;
      const Outcome outcome = run(program_, options_.max_seconds, some);
      return !outcome.overdue && !difference(base_, outcome).empty();
    };
    // Shrinking has time of its own: what it is asked for is short.
    const auto until = Clock::now() + std::chrono::seconds(10);
    const std::vector<Step> fewest = shrink(steps, differs, [&] { return Clock::now() >= until; });
    const Outcome outcome = run(program_, options_.max_seconds, fewest);
    ++made_.runs;
    made_.first = schedule_of({});
    made_.second = schedule_of(fewest);
    made_.difference = difference(base_, outcome);
    const Orientation before = graph_.seen_in(base_.progress.ran);
    const Orientation after = graph_.seen_in(outcome.progress.ran);
    std::vector<const Conflict*> decide;
    for (std::size_t i = 0; i < graph_.pairs.size(); ++i)
      if (before[i] != after[i]) decide.push_back(&graph_.pairs[i].conflict);
    if (decide.empty() && overlapping != kNoPair)
      decide.push_back(&graph_.pairs[overlapping].conflict);
    made_.deciding = reports(decide);
  }

  const std::function<void()>& program_;
  const sim::ExploreOptions options_;
  const Clock::time_point end_;
  sim::Exploration made_;
  Graph graph_;
  Outcome base_;
};

}  // namespace
}  // namespace ember::inline v0::explore

namespace ember::inline v0::sim {
namespace {

std::atomic<bool> exploring{false};

/// Simulated devices in a run of steps, and after it what was before.
class OwnRuns {
 public:
  explicit OwnRuns(const char* caller) {
    if (exploring.exchange(true))
      throw Error(std::string(caller) + ": a program is being explored, and cannot explore itself");
    cuda::own_runs(true);
    try {
      driver::Schedule asked;
      if (cuda::driver_if_made() == nullptr && cuda::detail::schedule_to_come(asked).ok() &&
          !asked.seeded())
        schedule("steps:");
      (void)cuda::active_driver();
      before_ = driver::schedule_text(driver::simulated_schedule());
      cuda::begin_owned_run("steps:");
    } catch (...) {
      end();
      throw;
    }
  }
  ~OwnRuns() {
    try {
      cuda::begin_owned_run(before_);
    } catch (const std::exception&) {  // such as of a file that is gone: another run is as good
    }
    end();
  }
  OwnRuns(const OwnRuns&) = delete;
  OwnRuns& operator=(const OwnRuns&) = delete;

 private:
  static void end() noexcept {
    cuda::own_runs(false);
    exploring = false;
  }

  std::string before_;
};

void indent(std::string& text, const std::string& lines) {
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    text += "  " + lines.substr(at, end - at) + '\n';
    at = end + 1;
  }
}

}  // namespace

std::string Exploration::str() const {
  std::string text;
  switch (verdict) {
    case Verdict::proved: text = "proved: every order does the same"; break;
    case Verdict::same:
      text = "same: all orders of whole operations were run and did the same";
      break;
    case Verdict::differs: text = "differs: the result depends on the order"; break;
    case Verdict::not_proved: text = "not proved"; break;
  }
  const auto count = [](std::size_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
  };
  text += "\n" + count(operations, "operation", "operations") + ", " +
          count(tasks, "task", "tasks") + ", " + count(pairs, "unordered pair", "unordered pairs") +
          "; " + count(classes, "class of orders", "classes of orders") + " in " +
          count(runs, "run", "runs") + "\n";
  if (pairs != 0)
    text += std::to_string(both) + " of " + count(pairs, "unordered pair", "unordered pairs") +
            " seen in both orders, " + std::to_string(overlapped) +
            " overlapping; what lies finer is unexplored\n";
  for (const std::string& reason : reasons) text += "- " + reason + '\n';
  if (verdict == Verdict::differs) {
    text += "EMBER_SIM_SCHEDULE=" + first + "\nEMBER_SIM_SCHEDULE=" + second + "\ndiffer in " +
            difference + "\n";
    if (!deciding.empty()) text += "What decides is the order of these:\n";
    for (const std::string& report : deciding) indent(text, report);
    return text;
  }
  for (const std::string& report : races) indent(text, report);
  return text;
}

Overdue::Overdue() : Error("the program does not end") {}

Exploration explore(const std::function<void()>& program, ExploreOptions options) {
  if (!program) throw ValueError("explore: got an empty program, expected a callable one");
  if (options.max_runs == 0) throw ValueError("explore: max_runs is 0, expected at least 1");
  if (!(options.max_seconds > 0))
    throw ValueError("explore: max_seconds is " + number_text(options.max_seconds, 6) +
                     ", expected a positive number");
  const OwnRuns runs("explore");
  return explore::Search(program, options).all();
}

void result(const Tensor& tensor, const std::string& name) {
  if (explore::naming() != nullptr) explore::naming()->push_back({name, {}, tensor, {}});
}

void result(const std::string& name, const void* host, std::size_t bytes) {
  if (explore::naming() == nullptr) return;
  cuda::host_reads(host, bytes);
  const auto* const first = static_cast<const std::uint8_t*>(host);
  explore::naming()->push_back({name, std::vector<std::uint8_t>(first, first + bytes), {}, {}});
}

std::string shrink(const std::string& schedule, const std::function<bool()>& fails,
                   double max_seconds) {
  using Clock = std::chrono::steady_clock;
  if (!fails) throw ValueError("shrink: got an empty function, expected a callable one");
  const OwnRuns runs("shrink");
  const auto with = [&](const std::vector<driver::Step>& steps) {
    cuda::begin_owned_run("steps:" + driver::steps_text(steps));
    return fails();
  };
  cuda::begin_owned_run(schedule);
  if (!fails())
    throw ValueError("shrink: the program does not fail with schedule '" + schedule + "'");
  (void)explore::settle();
  std::vector<driver::Step> steps = driver::simulated_schedule().steps;
  if (driver::simulated_schedule().kind != driver::Schedule::Kind::steps) {
    steps = driver::simulated_progress().ran;
    if (!with(steps))
      throw Error("shrink: the run '" + schedule +
                  "' is not the same as single steps, such as where a "
                  "program asks whether work is done or has several threads");
  }
  const auto end = Clock::now() + explore::duration_of(max_seconds);
  const auto fewest = explore::shrink(std::move(steps), with, [&] { return Clock::now() >= end; });
  return "steps:" + driver::steps_text(fewest);
}

}  // namespace ember::inline v0::sim
