// The last operations of each stream, as ember.cuda has them.
#include "ember/runtime/recent_launches.h"

#include <cstdint>
#include <string>

#include "define.h"

namespace ember::python {
namespace {

const char* state_name(cuda::LaunchState state) {
  switch (state) {
    case cuda::LaunchState::unfinished: return "unfinished";
    case cuda::LaunchState::finished: return "finished";
    case cuda::LaunchState::dropped: break;
  }
  return "dropped";
}

}  // namespace

void bind_recent_launches(nb::module_& m) {
  using Launch = cuda::RecentLaunch;
  nb::class_<Launch>(m, "RecentLaunch", "An operation that was enqueued on a stream.")
      .def_ro("name", &Launch::name)
      .def_ro("device", &Launch::device)
      .def_prop_ro(
          "cuda_stream",
          [](const Launch& self) { return reinterpret_cast<std::uintptr_t>(self.stream); },
          "The stream's handle; 0 is the default stream.")
      .def_ro("number", &Launch::number, "Counts the stream's operations, from 1.")
      .def_ro("bytes", &Launch::bytes, "Of a copy or fill.")
      .def_prop_ro(
          "state", [](const Launch& self) { return state_name(self.state); },
          "'finished', 'unfinished' (as far as is known), or 'dropped' by a fault or a reset.")
      .def_prop_ro("stack", &Launch::where,
                   "Where it was enqueued, one or more lines; empty if that is unknown.")
      .def("__repr__", &Launch::str);
  m.def(
      "record_launches", [](int count) { unlocked([&] { cuda::record_launches(count); }); },
      nb::arg("count"),
      "From now on the last `count` operations of each stream are kept (0: none), and faults say\n"
      "where the operation that has failed was enqueued. Not torch's; see docs/faults.md.");
  define_for_device(
      m, "recent_launches", [](cuda::DeviceArg device) { return cuda::recent_launches(device); },
      "What is kept of a device's streams, each stream's oldest first. Works after a fault, too.");
}

}  // namespace ember::python
