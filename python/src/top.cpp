// ember.top: who holds how much of which device.
#include "ember/memory/top.h"

#include "python.h"

namespace ember::python {

void bind_top(nb::module_& m) {
  m.def(
      "_allow_top", [] { unlocked([] { cuda::top::allow(); }); },
      "Lets processes of the same user see in `ember top` what this one holds, as EMBER_TOP=1 "
      "does.");
  m.def(
      "_top_table", [] { return unlocked([] { return cuda::top::table(); }); },
      "Devices and the processes that use them, as a table.");
}

}  // namespace ember::python
