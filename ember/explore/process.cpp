// A whole process as the program that is explored: with EMBER_SIM_EXPLORE=FILE it writes there,
// when it ends by itself, what one run says. `ember explore` runs the process again, with each of
// the schedules that the first run names, and compares. docs/order.md describes the file.

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ember/base/env.h"
#include "ember/driver/schedule.h"
#include "ember/driver/simulation.h"
#include "ember/explore/classes.h"
#include "ember/explore/outcome.h"
#include "ember/explore/overlaps.h"
#include "ember/explore/record.h"
#include "ember/runtime/explored.h"
#include "ember/runtime/observer.h"

namespace ember::inline v0::explore {
namespace {

using cuda::sanitizer::Conflict;

/// So many classes of orders are named at most.
constexpr std::size_t kMostSchedules = 1000;

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// The schedules in which each pair is turned by itself, those in which one overlaps, and then
/// those of all other classes.
void add_schedules(const Graph& graph, std::string& out) {
  std::vector<Edge> pairs;
  pairs.reserve(graph.pairs.size());
  for (const Unordered& pair : graph.pairs) pairs.push_back(pair.events);
  Classes classes(graph.events(), graph.order, pairs);
  const std::vector<std::size_t> rank = ranks_of(graph);
  std::size_t named = 0, fixed = 0;
  const auto add = [&](const Orientation& orientation) {
    out += "schedule " + schedule_of(graph.steps(classes.linearise(orientation, rank))) + '\n';
    ++named;
  };
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (!classes.can_turn(i)) ++fixed;
  classes.leave_out(Orientation(pairs.size()));  // the run that was recorded
  Orientation orientation;
  for (std::size_t i = 0; i < pairs.size() && named < kMostSchedules; ++i)
    if (classes.turned(i, orientation)) add(orientation);
  const std::vector<std::size_t> line = classes.linearise(Orientation(pairs.size()), rank);
  for (std::size_t i = 0; i < pairs.size() && named < kMostSchedules; ++i)
    if (classes.can_turn(i))
      for (const std::vector<driver::Step>& steps : overlaps(graph, graph.pairs[i], line)) {
        out += "overlap " + schedule_of(steps) + '\n';
        ++named;
      }
  bool all = false;
  while (!all && named < kMostSchedules) {
    all = !classes.next(orientation);
    if (!all) add(orientation);
  }
  out += "fixed " + std::to_string(fixed) + "\nevery " + (all ? "1" : "0") + '\n';
}

/// Watches until the process ends.
class Process final : public cuda::Observer {
 public:
  explicit Process(std::string file) : file_(std::move(file)), process_(getpid()) {}
  bool wants_stacks() const noexcept override { return true; }
  void notice(const cuda::Activity& activity) noexcept override {
    // Now there are devices: what is registered here comes before what those do at the end.
    std::call_once(registered_, [] { (void)std::atexit(&Process::at_end); });
    // Told at once: a process may end without what it does at its end.
    if (!works_ && fingerprint(activity) != 0) {
      works_ = true;
      append("process " + std::to_string(process_) + '\n');
    }
    recorder_.notice(activity);
    // At the end there may be no interpreter any more that knows what stacks are.
    for (; told_ < recorder_.found(); ++told_)
      for (std::string& report : reports({&recorder_.conflict(told_)}, places_))
        races_.push_back(std::move(report));
  }

  static std::unique_ptr<Process>& only() {
    static auto* const made = new std::unique_ptr<Process>;  // used when static objects are gone
    return *made;
  }

 private:
  static void at_end() {
    Process& made = *only();
    if (made.process_ != getpid()) return;  // a child of a fork
    try {
      made.finish();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ember: EMBER_SIM_EXPLORE: %s\n", error.what());
    }
  }

  void finish() {
    cuda::remove_observer(*this);
    const std::uint64_t points = driver::simulated_points();
    const std::string fault = settle();
    const driver::Progress progress = driver::simulated_progress();
    const Graph graph = recorder_.graph(points, progress);
    std::string text = "ember exploration 1\n";
    const auto add = [&](const char* name, std::size_t number) {
      text += std::string(name) + ' ' + std::to_string(number) + '\n';
    };
    add("operations", recorder_.operations());
    add("tasks", graph.tasks.size());
    add("pairs", graph.pairs.size());
    add("unfollowed", progress.unfollowed);
    std::uint64_t sum = 14695981039346656037U;
    for (const std::uint64_t each : recorder_.fingerprints()) sum = (sum ^ each) * 1099511628211U;
    add("does", sum);
    for (const driver::HostCopy& copy : progress.copies)
      text += "copy s" + std::to_string(copy.stream) + '.' + std::to_string(copy.task) + ' ' +
              std::to_string(copy.bytes) + ' ' + std::to_string(copy.sum) + '\n';
    for (const std::string& reason : recorder_.reasons())
      text += "reason " + one_line(reason) + '\n';
    if (!fault.empty()) text += "reason it failed: " + one_line(fault) + '\n';
    if (!recorder_.after_free().empty()) text += "reason (c) memory is used that is free\n";
    std::vector<const Conflict*> freed;
    for (const Conflict& conflict : recorder_.after_free()) freed.push_back(&conflict);
    std::vector<std::string> races = reports(freed);
    if (!graph.pairs.empty()) races.insert(races.begin(), races_.begin(), races_.end());
    for (const std::string& report : races) {
      text += "race\n| ";
      for (const char c : report) text += c == '\n' ? std::string("\n| ") : std::string(1, c);
      text += '\n';
    }
    const driver::Schedule schedule = driver::simulated_schedule();
    if (schedule.kind != driver::Schedule::Kind::steps)
      text +=
          "reason the schedule is '" + driver::schedule_text(schedule) + "', expected 'steps:'\n";
    else if (schedule.steps.empty() && !graph.pairs.empty())
      add_schedules(graph, text);
    append(text + "end\n");
  }

  /// Behind what this and other processes of the same run have written.
  void append(const std::string& text) const noexcept {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file_.c_str(), "abe"),
                                                                 &std::fclose);
    if (opened && flock(fileno(opened.get()), LOCK_EX) == 0 &&
        std::fwrite(text.data(), 1, text.size(), opened.get()) == text.size() &&
        std::fflush(opened.get()) == 0)
      return;
    std::fprintf(stderr, "ember: EMBER_SIM_EXPLORE='%s' cannot be written\n", file_.c_str());
  }

  const std::string file_;
  const pid_t process_;
  Recorder recorder_;
  std::once_flag registered_;
  bool works_ = false;
  std::size_t told_ = 0;  // pairs of which `races_` says what is to be said
  Places places_;
  std::vector<std::string> races_;
};

std::once_flag asked;

}  // namespace
}  // namespace ember::inline v0::explore

namespace ember::inline v0::cuda {

void detail::explore_as_asked() {
  // Before the flag, at which a thread waits that was forked beside this.
  const std::string file = env::get("EMBER_SIM_EXPLORE").value_or("");
  if (file.empty()) return;
  std::call_once(explore::asked, [&] {
    explore::Process::only() = std::make_unique<explore::Process>(file);
    add_observer(*explore::Process::only());
  });
}

}  // namespace ember::inline v0::cuda
