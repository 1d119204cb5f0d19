// ember.fuse: functions of element-wise operations as one kernel.
#include "ember/fuse/fuse.h"

#include <memory>
#include <string>

#include "python.h"

namespace ember::python {
namespace {

/// One call of a fused function.
class Call {
 public:
  Call(std::string name, bool precise) : options_{precise, std::move(name)} {}
  void enter() { scope_ = std::make_unique<FusedScope>(options_); }
  void exit(bool failed) {
    const std::unique_ptr<FusedScope> scope = std::move(scope_);
    if (scope == nullptr) return;
    unlocked([&] {
      if (!failed) scope->finish();
    });
  }

 private:
  FuseOptions options_;
  std::unique_ptr<FusedScope> scope_;
};

}  // namespace

void bind_fuse(nb::module_& m) {
  nb::class_<Call>(m, "_FusedCall", "One call of a fused function: a context manager.")
      .def(nb::init<std::string, bool>(), nb::arg("name"), nb::arg("precise"))
      .def("__enter__", [](Call& self) { self.enter(); })
      .def(
          "__exit__",
          [](Call& self, const nb::object& type, const nb::object&, const nb::object&) {
            self.exit(!type.is_none());
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none());
}

}  // namespace ember::python
