// ember.sim: runs of simulated devices in which a seed decides the order.
#include "ember/runtime/simulation.h"

#include "python.h"

namespace ember::python {

void bind_sim(nb::module_& m) {
  nb::module_ made = m.def_submodule("sim", "Runs in which a seed decides the order.");
  made.def(
      "schedule", [](const std::string& text) { unlocked([&] { sim::schedule(text); }); },
      nb::arg("text"),
      "Who decides the order of the simulated devices to be made, in place of EMBER_SIM_SCHEDULE: "
      "'threads', 'random:SEED', 'pct:SEED:DEPTH' or 'replay:FILE'.\n\nValueError for another "
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
      "save_log", [](const std::string& file) { unlocked([&] { sim::save_log(file); }); },
      nb::arg("file"), "Writes log() to a file, anew. RuntimeError if that fails.");
  made.def(
      "replay_line", [] { return unlocked([] { return sim::replay_line(); }); },
      "The setting that repeats the present run, such as EMBER_SIM_SCHEDULE=random:7; empty where "
      "no seed decides.");
}

}  // namespace ember::python
