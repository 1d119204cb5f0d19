#include "ember/explore/explore.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "ember/base/env.h"
#include "ember/base/error.h"
#include "ember/base/number_text.h"
#include "ember/driver/schedule.h"
#include "ember/driver/simulation.h"
#include "ember/explore/classes.h"
#include "ember/explore/record.h"
#include "ember/runtime/device.h"
#include "ember/runtime/host_wait.h"
#include "ember/runtime/runtime.h"
#include "ember/runtime/simulation.h"
#include "ember/sanitizer/report.h"
#include "ember/tensor/tensor.h"

namespace ember::inline v0::explore {
namespace {

using cuda::sanitizer::Conflict;
using driver::Step;

/// What a program called its results.
struct Named {
  std::string name;
  std::vector<std::uint8_t> bytes;
  std::optional<Tensor> tensor;  // when all work is done, its elements on the CPU
};

/// What came of one run.
struct Outcome {
  std::vector<Named> results;
  std::string thrown;  // by the program, or a fault
  driver::Progress progress;
  std::uint64_t points = 0;  // when the program ended
  std::vector<std::uint64_t> fingerprints;
};

/// The results of the program that is explored by this thread.
thread_local constinit std::vector<Named>* naming = nullptr;

/// Sees only whether a run does what the first one did.
class Follower final : public cuda::Observer {
 public:
  explicit Follower(std::vector<std::uint64_t>& out) : out_(out) { cuda::add_observer(*this); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  ~Follower() override { cuda::remove_observer(*this); }
  void notice(const cuda::Activity& activity) noexcept override {
    if (const std::uint64_t sum = fingerprint(activity); sum != 0) out_.push_back(sum);
  }

 private:
  std::vector<std::uint64_t>& out_;
};

std::string schedule_of(const std::vector<Step>& steps) {
  return "steps:" + driver::steps_text(steps);
}

/// Waits for all work. The first fault, or nothing; devices in a fault are reset.
std::string settle() {
  std::string fault;
  for (int device = 0; device < cuda::device_count(); ++device) {
    if (!cuda::active_driver().device_active(device)) continue;
    const Status status = cuda::HostWait::device(cuda::WaitKind::library, device);
    if (status.ok()) continue;
    if (fault.empty()) fault = status.text();
    cuda::reset_device(device);
  }
  return fault;
}

/// Calls the program, and keeps what it throws and names.
void call(const std::function<void()>& program, Outcome& out) {
  struct Naming {
    explicit Naming(std::vector<Named>& results) { naming = &results; }
    Naming(const Naming&) = delete;
    Naming& operator=(const Naming&) = delete;
    ~Naming() { naming = nullptr; }
  } const on(out.results);
  try {
    program();
  } catch (const AcceleratorError& error) {
    if (error.code() == Code::interrupted) throw;  // the user ends all of it
    out.thrown = error.what();
  } catch (const std::exception& error) {
    out.thrown = error.what();
  } catch (...) {
    out.thrown = "something that is no std::exception";
  }
}

/// Runs the program; `watch()` makes what watches it and goes when the program ends.
template <class Watch>
Outcome run(const std::function<void()>& program, const std::vector<Step>& steps,
            const Watch& watch) {
  Outcome out;
  sim::begin_run(schedule_of(steps));
  {
    const auto watching = watch(out);
    call(program, out);
  }
  out.points = driver::simulated_points();
  const std::string fault = settle();
  if (!fault.empty()) out.thrown += (out.thrown.empty() ? "" : "; ") + fault;
  out.progress = driver::simulated_progress();
  for (Named& result : out.results) {
    if (!result.tensor) continue;
    if (!fault.empty()) {  // it may have gone with its device
      result.tensor.reset();
      continue;
    }
    result.tensor = result.tensor->contiguous().cpu();
    const auto* const first = static_cast<const std::uint8_t*>(result.tensor->data_ptr());
    result.bytes.assign(first, first + result.tensor->nbytes());
  }
  return out;
}

Outcome run(const std::function<void()>& program, const std::vector<Step>& steps) {
  return run(program, steps,
             [](Outcome& out) { return std::make_unique<Follower>(out.fingerprints); });
}

std::string hex(const std::uint8_t* first, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, i == 0 ? "%02x" : " %02x", first[i]);
    text += byte;
  }
  return text;
}

/// What differs between two outcomes; empty if nothing does.
std::string difference(const Outcome& a, const Outcome& b) {
  if (a.thrown != b.thrown) {
    const auto said = [](const std::string& thrown) {
      return thrown.empty() ? std::string("nothing") : "'" + thrown + "'";
    };
    return "what is thrown: " + said(a.thrown) + " and " + said(b.thrown);
  }
  if (a.results.size() != b.results.size())
    return "how many results are named: " + std::to_string(a.results.size()) + " and " +
           std::to_string(b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    const Named& left = a.results[i];
    const Named& right = b.results[i];
    if (left.name != right.name)
      return "the name of result " + std::to_string(i + 1) + ": '" + left.name + "' and '" +
             right.name + "'";
    if (left.bytes.size() != right.bytes.size())
      return "the size of result '" + left.name + "': " + std::to_string(left.bytes.size()) +
             " and " + std::to_string(right.bytes.size()) + " bytes";
    const auto [at, other] =
        std::mismatch(left.bytes.begin(), left.bytes.end(), right.bytes.begin());
    if (at == left.bytes.end()) continue;
    const auto byte = static_cast<std::size_t>(at - left.bytes.begin());
    if (left.tensor && right.tensor && left.tensor->dtype() == right.tensor->dtype()) {
      const auto element = static_cast<std::int64_t>(byte / left.tensor->element_size());
      const auto shown = [&](const Tensor& of) { return of.flatten().select(0, element).str(); };
      return "result '" + left.name + "', element " + std::to_string(element) + ": " +
             shown(*left.tensor) + " and " + shown(*right.tensor);
    }
    const std::size_t from = byte / 8 * 8;
    const std::size_t count = std::min<std::size_t>(8, left.bytes.size() - from);
    return "result '" + left.name + "', from byte " + std::to_string(byte) +
           " on: " + hex(left.bytes.data() + from, count) + " and " +
           hex(right.bytes.data() + from, count) +
           (from == byte ? "" : " from byte " + std::to_string(from) + " on");
  }
  const auto& copies = a.progress.copies;
  const auto& others = b.progress.copies;
  for (std::size_t i = 0; i < std::min(copies.size(), others.size()); ++i) {
    const driver::HostCopy& left = copies[i];
    const driver::HostCopy& right = others[i];
    if (left.stream == right.stream && left.task == right.task && left.bytes == right.bytes &&
        left.sum == right.sum)
      continue;
    const std::size_t count = std::min<std::size_t>(left.first.size(), left.bytes);
    return "the copy of " + std::to_string(left.bytes) + " bytes to the host, s" +
           std::to_string(left.stream) + "." + std::to_string(left.task) + ", which begins with " +
           hex(left.first.data(), count) + " and " + hex(right.first.data(), count);
  }
  if (copies.size() != others.size())
    return "how many copies reached the host: " + std::to_string(copies.size()) + " and " +
           std::to_string(others.size());
  return "";
}

std::chrono::steady_clock::duration duration_of(double seconds) {
  constexpr double kMost = 1e9;  // more than anybody waits, and it fits
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kMost)));
}

/// What the sanitizer says of each, once for the same two places in the program.
std::vector<std::string> reports(const std::vector<const Conflict*>& conflicts) {
  using Place = std::tuple<std::uint64_t, const char*, int, std::int64_t, bool>;
  const auto place_of = [](const cuda::sanitizer::Side& side) {
    const cuda::sanitizer::Operation& operation = side.operation;
    return Place(operation.stack, operation.name, static_cast<int>(operation.kind),
                 operation.stack != 0 ? 0 : operation.stream_id, side.writes);
  };
  std::set<std::pair<Place, Place>> known;
  std::vector<std::string> made;
  for (const Conflict* conflict : conflicts)
    if (known.emplace(place_of(conflict->now), place_of(conflict->before)).second)
      made.push_back(cuda::sanitizer::report_text(*conflict));
  return made;
}

/// One exploration: the state that its steps share.
class Search {
 public:
  Search(const std::function<void()>& program, const sim::ExploreOptions& options)
      : program_(program),
        options_(options),
        end_(Clock::now() + duration_of(options.max_seconds)) {}

  sim::Exploration all() {
    record();
    const bool repeated = graph_.pairs.empty() || repeats();
    made_.pairs = graph_.pairs.size();
    made_.several_orders =
        graph_.allows_another(Classes(graph_.events(), graph_.order, {}).linearise({}, ranks()));
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
    base_ = run(program_, {}, [&](Outcome&) {
      cuda::add_observer(recorder);
      return std::unique_ptr<Recorder, void (*)(Recorder*)>(
          &recorder, [](Recorder* made) { cuda::remove_observer(*made); });
    });
    ++made_.runs;
    graph_ = recorder.graph(base_.points, base_.progress);
    base_.fingerprints = recorder.fingerprints();
    made_.reasons = recorder.reasons();
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
      const Outcome again = run(program_, {});
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

  /// Events in the order in which they come if nothing else matters: the host first, then streams
  /// by their numbers.
  std::vector<std::size_t> ranks() const {
    std::vector<std::size_t> by_rank(graph_.events()), rank(graph_.events());
    std::iota(by_rank.begin(), by_rank.end(), 0);
    const auto key = [&](std::size_t event) {
      if (event < graph_.segments) return std::pair<std::uint64_t, std::uint64_t>(0, event);
      const Step& task = graph_.tasks[event - graph_.segments];
      return std::pair<std::uint64_t, std::uint64_t>(task.stream, task.task);
    };
    std::sort(by_rank.begin(), by_rank.end(),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    for (std::size_t i = 0; i < by_rank.size(); ++i) rank[by_rank[i]] = i;
    return rank;
  }

  void try_classes() {
    std::vector<Edge> pairs;
    pairs.reserve(graph_.pairs.size());
    for (const Unordered& pair : graph_.pairs) pairs.push_back(pair.events);
    Classes classes(graph_.events(), graph_.order, pairs);
    const std::vector<std::size_t> rank = ranks();
    std::vector<bool> seen_turned(pairs.size());
    std::size_t missed = 0, others = 0;
    // True while there is reason to go on.
    const auto try_one = [&](const Orientation& orientation) {
      const std::vector<Step> steps = graph_.steps(classes.linearise(orientation, rank));
      const Outcome outcome = run(program_, steps);
      ++made_.runs;
      if (outcome.progress.unfollowed != 0 || outcome.fingerprints != base_.fingerprints) {
        (outcome.fingerprints != base_.fingerprints ? others : missed) += 1;
      } else {
        ++made_.classes;
        for (std::size_t i = 0; i < pairs.size(); ++i)
          if (orientation[i]) seen_turned[i] = true;
      }
      if (difference(base_, outcome).empty()) return true;
      show(steps);
      return false;
    };
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (!classes.can_turn(i)) ++made_.fixed;
    if (made_.fixed != 0)
      made_.reasons.push_back(std::to_string(made_.fixed) +
                              " of the pairs never come the other way on simulated devices, which "
                              "wait for copies of ordinary host memory");
    // First each pair by itself: few runs, and most bugs need no more.
    bool more = true;
    Orientation orientation;
    classes.leave_out(Orientation(pairs.size()));  // the run that was recorded
    ++made_.classes;
    for (std::size_t i = 0; i < pairs.size() && more && !spent(); ++i)
      if (!seen_turned[i] && classes.turned(i, orientation)) more = try_one(orientation);
    bool all = false;
    while (more && !spent()) {
      all = !classes.next(orientation);
      if (all) break;
      more = try_one(orientation);
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

  /// Two schedules with different results: that of no steps, and a shortest one from `steps`.
  void show(const std::vector<Step>& steps) {
    made_.verdict = sim::Verdict::differs;
    const auto differs = [&](const std::vector<Step>& some) {
      ++made_.runs;
      return !difference(base_, run(program_, some)).empty();
    };
    // Shrinking has time of its own: what it is asked for is short.
    const auto until = Clock::now() + std::chrono::seconds(10);
    const std::vector<Step> fewest = shrink(steps, differs, [&] { return Clock::now() >= until; });
    const Outcome outcome = run(program_, fewest);
    ++made_.runs;
    made_.first = schedule_of({});
    made_.second = schedule_of(fewest);
    made_.difference = difference(base_, outcome);
    const Orientation before = graph_.seen_in(base_.progress.ran);
    const Orientation after = graph_.seen_in(outcome.progress.ran);
    std::vector<const Conflict*> decide;
    for (std::size_t i = 0; i < graph_.pairs.size(); ++i)
      if (before[i] != after[i]) decide.push_back(&graph_.pairs[i].conflict);
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
    try {
      driver::Schedule asked;
      if (cuda::driver_if_made() == nullptr &&
          driver::parse_schedule(env::get("EMBER_SIM_SCHEDULE"), asked).ok() && !asked.seeded())
        schedule("steps:");
      (void)cuda::active_driver();
      before_ = driver::schedule_text(driver::simulated_schedule());
      begin_run("steps:");
    } catch (...) {
      exploring = false;
      throw;
    }
  }
  ~OwnRuns() {
    exploring = false;
    try {
      begin_run(before_);
    } catch (const std::exception&) {  // such as of a file that is gone: another run is as good
    }
  }
  OwnRuns(const OwnRuns&) = delete;
  OwnRuns& operator=(const OwnRuns&) = delete;

 private:
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
            " seen in both orders; what lies finer than whole operations is unexplored\n";
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
  if (explore::naming != nullptr) explore::naming->push_back({name, {}, tensor});
}

void result(const std::string& name, const void* host, std::size_t bytes) {
  if (explore::naming == nullptr) return;
  const auto* const first = static_cast<const std::uint8_t*>(host);
  explore::naming->push_back({name, std::vector<std::uint8_t>(first, first + bytes), {}});
}

std::string shrink(const std::string& schedule, const std::function<bool()>& fails,
                   double max_seconds) {
  using Clock = std::chrono::steady_clock;
  if (!fails) throw ValueError("shrink: got an empty function, expected a callable one");
  const OwnRuns runs("shrink");
  const auto with = [&](const std::vector<driver::Step>& steps) {
    begin_run("steps:" + driver::steps_text(steps));
    return fails();
  };
  begin_run(schedule);
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
