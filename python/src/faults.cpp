// ember.sim: faults on request.
#include "ember/runtime/simulation.h"
#include "python.h"

namespace ember::python {

void bind_faults(nb::module_& sim) {
  sim.def(
      "faults", [](const std::string& text) { unlocked([&] { sim::faults(text); }); },
      nb::arg("text"),
      "What is to go wrong on simulated devices from now on, as EMBER_SIM_FAULTS has it, such as\n"
      "'alloc:3,lost:1@50', in place of what was asked for before; '' asks for nothing.\n\n"
      "ValueError for a malformed text; RuntimeError without simulated devices.");
  sim.def("faults_happened", &sim::faults_happened,
          "How many of these faults have happened since.");
}

}  // namespace ember::python
