// How the names of Tensor and of the module are defined: most are a function and a method at once.
#pragma once

#include <string>

#include "results.h"

/// A function of ember's with all its overloads; each call chooses one.
#define EMBER_CALL(name) [](auto&&... arguments) { return ember::name(arguments...); }

namespace ember::python {

/// A method, and a function of the same name whose first parameter is `input`.
template <class Call, class... Extra>
void both(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Call call, const char* doc,
          const Extra&... extra) {
  tensor.def(name, call, doc, extra...);
  m.def(name, call, doc, nb::arg("input"), extra...);
}

/// The same where Python's types cannot be read from C++'s: `tail` is the signature from the second
/// parameter on, such as "dim: int) -> Tensor".
template <class Call, class... Extra>
void both_as(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name,
             const std::string& tail, Call call, const char* doc, const Extra&... extra) {
  tensor.def(name.c_str(), call, doc, extra...,
             nb::sig(("def " + name + "(self, " + tail).c_str()));
  m.def(name.c_str(), call, doc, nb::arg("input"), extra...,
        nb::sig(("def " + name + "(input: Tensor, " + tail).c_str()));
}

/// __exit__, which lets exceptions pass. A with block calls it with three arguments; taken one by
/// one they need no tuple.
template <class Leave, class Self, class... Extra>
void define_exit(nb::class_<Self, Extra...>& bound, Leave leave) {
  bound.def(
      "__exit__",
      [leave](Self& self, nb::handle, nb::handle, nb::handle) {
        leave(self);
        return false;
      },
      nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
      nb::sig("def __exit__(self, type: object, value: object, traceback: object, /) -> bool"));
}

/// A function of ember.cuda that takes an optional device and may wait.
template <class Call>
void define_for_device(nb::module_& m, const char* name, Call call, const char* doc) {
  m.def(
      name,
      [call](const DeviceLike& device) {
        const cuda::DeviceArg given = device.arg();
        return unlocked([&] { return call(given); });
      },
      nb::arg("device") = nb::none(), doc);
}

}  // namespace ember::python
