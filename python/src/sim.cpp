// Runs of simulated devices in which a seed decides, and what is proved of a program: ember.sim.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "define.h"
#include "ember/explore/explore.h"
#include "ember/runtime/simulation.h"

namespace ember::python {
namespace {

using sim::Exploration;
using sim::Verdict;

/// Ends a function of Python's that takes longer than so many seconds: raises an exception of its
/// own in it, again and again, as long as it goes on. It reaches code of Python's, not a call that
/// blocks. Made and destroyed with Python's lock.
class Ending {
 public:
  explicit Ending(double seconds)
      : raised_(
            nb::steal(PyErr_NewException("ember.sim.ProgramEnded", PyExc_BaseException, nullptr))),
        patience_(seconds),
        thread_(PyThread_get_thread_ident()) {
    if (!raised_.is_valid()) throw nb::python_error();
    watcher_ = std::thread([this] { watch(); });
  }
  ~Ending() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    const nb::gil_scoped_release released;  // for which the watcher may wait
    watcher_.join();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  // Both with Python's lock.
  void begin() noexcept { began_.store(Clock::now().time_since_epoch().count()); }
  void end() noexcept {
    began_.store(0);
    (void)PyThreadState_SetAsyncExc(thread_, nullptr);  // what has not been raised yet
  }
  bool is_raised(const nb::python_error& error) const { return error.matches(raised_); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kStep{50};

  void watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, kStep);
      const Clock::rep began = began_.load();
      if (over_ || began == 0 || !is_due(began)) continue;
      lock.unlock();
      {
        const nb::gil_scoped_acquire python;
        if (began_.load() == began) (void)PyThreadState_SetAsyncExc(thread_, raised_.ptr());
      }
      lock.lock();
    }
  }
  // The library's calls come first: they say more.
  bool is_due(Clock::rep began) const {
    const Clock::duration since = Clock::now().time_since_epoch() - Clock::duration(began);
    return std::chrono::duration<double>(since).count() > patience_ + 0.2;
  }

  nb::object raised_;
  double patience_;
  unsigned long thread_;
  std::atomic<Clock::rep> began_{0};  // 0: the function does not run
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread watcher_;
};

/// A function of Python's, for code that runs without Python's lock. What it raises becomes an
/// exception whose text is type and message alone: those are compared, and a traceback is not. An
/// interruption ends the whole call, and is raised by it.
class Called {
 public:
  explicit Called(const nb::callable& function, Ending* ending = nullptr)
      : function_(function), ending_(ending) {}

  void call() {
    (void)ask([](const nb::object&) { return true; });
  }
  /// Whether what it answers counts as true.
  bool holds() {
    return ask([](const nb::object& answer) {
      const int truth = PyObject_IsTrue(answer.ptr());
      if (truth < 0) throw nb::python_error();
      return truth != 0;
    });
  }
  /// Calls `use()` without Python's lock. Not by unlocked(): the calls within note where they stand
  /// by themselves.
  template <class Use>
  auto without_lock(const Use& use) {
    try {
      const Unlocked released;
      return use();
    } catch (const AcceleratorError&) {
      if (interruption_) throw nb::python_error(*interruption_);
      throw;
    }
  }

 private:
  template <class Read>
  bool ask(const Read& read) {
    const nb::gil_scoped_acquire lock;
    try {
      const Running running(ending_);
      return read(function_());
    } catch (nb::python_error& error) {
      if (ending_ != nullptr && ending_->is_raised(error)) throw sim::Overdue();
      if (error.matches(PyExc_KeyboardInterrupt)) {
        interruption_.emplace(error);
        throw AcceleratorError(Status(Code::interrupted, "the program was interrupted"));
      }
      throw Error(nb::cast<std::string>(error.type().attr("__name__")) + ": " +
                  nb::cast<std::string>(nb::str(error.value())));
    }
  }

  struct Running {
    explicit Running(Ending* of) : ending(of) {
      if (ending != nullptr) ending->begin();
    }
    ~Running() {
      if (ending != nullptr) ending->end();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    Ending* ending;
  };

  const nb::callable& function_;
  Ending* ending_;
  std::optional<nb::python_error> interruption_;
};

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::proved: return "proved";
    case Verdict::same: return "same";
    case Verdict::differs: return "differs";
    case Verdict::not_proved: break;
  }
  return "not_proved";
}

void bind_exploration(nb::module_& made) {
  nb::class_<Exploration> of(made, "Exploration", "What is known of a program's schedules.");
  of.def_prop_ro(
      "verdict", [](const Exploration& self) { return text_of(self.verdict); },
      "'proved', 'same', 'differs' or 'not_proved'.");
  of.def_ro("reasons", &Exploration::reasons, "Why it is not proved, and what was left out.");
  of.def_ro("operations", &Exploration::operations, "Work, and accesses of the host, of one run.");
  of.def_ro("tasks", &Exploration::tasks, "Tasks of one run.");
  of.def_ro("pairs", &Exploration::pairs, "Pairs of accesses that conflict, which nothing orders.");
  of.def_ro("both", &Exploration::both, "How many of these were seen in both orders.");
  of.def_ro("overlapped", &Exploration::overlapped, "How many of these were seen to overlap.");
  of.def_ro("fixed", &Exploration::fixed,
            "How many of these never come in the other order on simulated devices.");
  of.def_ro("classes", &Exploration::classes, "Classes of orders that ran.");
  of.def_ro("runs", &Exploration::runs, "Runs of the program, in all.");
  of.def_ro("complete", &Exploration::complete, "There are no other classes.");
  of.def_ro("several_orders", &Exploration::several_orders,
            "What is ordered leaves more than one order of all events.");
  of.def_ro("races", &Exploration::races, "What the sanitizer says of each pair.");
  of.def_ro("first", &Exploration::first, "Of two schedules that differ, the one.");
  of.def_ro("second", &Exploration::second, "And the other, which is a shortest one.");
  of.def_ro("difference", &Exploration::difference, "What is different.");
  of.def_ro("deciding", &Exploration::deciding, "The pairs that come in another order there.");
  of.def_prop_ro("clean", &Exploration::clean, "No pair, and no work on memory that is free.");
  of.def("__str__", &Exploration::str);
}

}  // namespace

void bind_sim(nb::module_& m) {
  nb::module_ made = m.def_submodule("sim", "Runs of simulated devices in which a seed decides.");
  made.def(
      "schedule", [](const std::string& text) { unlocked([&] { sim::schedule(text); }); },
      nb::arg("text"),
      "Who decides the order of the simulated devices to be made, in place of EMBER_SIM_SCHEDULE: "
      "'threads', 'random:SEED', 'pct:SEED:DEPTH',"
      " 'replay:FILE' or 'steps:...'.\n\nValueError for another "
      "text; RuntimeError once devices are in use.");
  made.def("seeded", &sim::seeded,
           "Whether a seed decides in this process. False before the first use of a device.");
  made.def(
      "begin_run", [](std::uint64_t seed) { unlocked([&] { sim::begin_run(seed); }); },
      nb::arg("seed"),
      "Ends the present run and begins another of the same kind, with this seed: waits until all "
      "work is done, then numbers streams, clock, log, caches of memory and default generators "
      "afresh. What the program holds stays as it is.\n\nRuntimeError where no seed decides.");
  made.def(
      "begin_run", [](const std::string& schedule) { unlocked([&] { sim::begin_run(schedule); }); },
      nb::arg("schedule"),
      "The same with a schedule in full, which must not be 'threads'. ValueError for a malformed "
      "one, or a file that is no log of a run.");
  made.def(
      "log", [] { return unlocked([] { return sim::log(); }); },
      "The decisions of the present run so far, as 'replay:FILE' reads them; empty where no seed "
      "decides.");
  made.def(
      "save_log", [](const FileName& file) { unlocked([&] { sim::save_log(file.path); }); },
      nb::arg("file"), "Writes log() to a file, anew. RuntimeError if that fails.");
  made.def(
      "replay_line", [] { return unlocked([] { return sim::replay_line(); }); },
      "The setting that repeats the present run, such as EMBER_SIM_SCHEDULE=random:7; empty where "
      "no seed decides.");
  bind_faults(made);
  bind_exploration(made);
  made.def(
      "explore",
      [](const nb::callable& program, std::size_t max_runs, double max_seconds) {
        Ending ending(max_seconds);
        Called called(program, &ending);
        return called.without_lock([&] {
          return sim::explore([&] { called.call(); },
                              {.max_runs = max_runs, .max_seconds = max_seconds});
        });
      },
      nb::arg("program"), nb::kw_only(), nb::arg("max_runs") = sim::ExploreOptions().max_runs,
      nb::arg("max_seconds") = sim::ExploreOptions().max_seconds,
      nb::sig(
          "def explore(program: collections.abc.Callable[[], object], *, max_runs: int = 10000, "
          "max_seconds: float = 60.0) -> Exploration"),
      "Runs a program in the orders that can matter, or once if that proves that none does. "
      "docs/order.md, \"Proof and exploration\".");
  made.def(
      "result", [](const Tensor& tensor, const std::string& name) { sim::result(tensor, name); },
      nb::arg("tensor"), nb::arg("name") = "tensor",
      "Names a result of the program that is explored; does nothing elsewhere.");
  made.def(
      "shrink",
      [](const std::string& schedule, const nb::callable& fails, double max_seconds) {
        Called called(fails);
        return called.without_lock([&] {
          return sim::shrink(
              schedule, [&] { return called.holds(); }, max_seconds);
        });
      },
      nb::arg("schedule"), nb::arg("fails"), nb::kw_only(), nb::arg("max_seconds") = 60.0,
      nb::sig("def shrink(schedule: str, fails: collections.abc.Callable[[], object], *, "
              "max_seconds: float = 60.0) -> str"),
      "A schedule of single steps with which `fails` still answers True, and False without any one "
      "of them.");
}

}  // namespace ember::python
