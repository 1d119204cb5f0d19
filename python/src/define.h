// How the names of Tensor and of the module are defined: most are a function and a method at once.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "results.h"

/// A function of ember's with all its overloads; each call chooses one.
#define EMBER_CALL(name) [](auto&&... arguments) { return ember::name(arguments...); }

namespace ember::python {

/// A parameter that torch also takes by NumPy's name.
struct OtherName {
  const char* name;
  const char* other;
};
inline constexpr OtherName kOtherNames[] = {{"dim", "axis"}, {"keepdim", "keepdims"}};

/// A part of a definition, with another name if it is that parameter; and a signature's text.
template <class Extra>
Extra renamed(Extra extra, const OtherName& parameter) {
  if constexpr (nb::detail::arg_traits<Extra>::is_arg)
    if (std::string_view(extra.name_) == parameter.name) extra.name_ = parameter.other;
  return extra;
}
std::string renamed(std::string signature, const OtherName& parameter);

template <class Extra>
bool has_name(const Extra& extra, const OtherName& parameter) {
  if constexpr (nb::detail::arg_traits<Extra>::is_arg)
    return std::string_view(extra.name_) == parameter.name;
  return false;
}

/// Calls `define(rename, extra...)` for the parameters as they are, and again for each choice of
/// other names: overloads, since nanobind knows a parameter by one name. `rename` does the same to
/// the text of a signature.
template <std::size_t I = 0, class Define, class Rename, class... Extra>
void with_names(const Define& define, const Rename& rename, const Extra&... extra) {
  if constexpr (I == std::size(kOtherNames)) {
    define(rename, extra...);
  } else {
    constexpr const OtherName& parameter = kOtherNames[I];
    with_names<I + 1>(define, rename, extra...);
    if ((has_name(extra, parameter) || ...))
      with_names<I + 1>(
          define, [&](std::string text) { return renamed(rename(std::move(text)), parameter); },
          renamed(extra, parameter)...);
  }
}
inline constexpr auto kSameNames = [](std::string text) { return text; };

/// A method, and a function of the same name whose first parameter is `input`.
template <class Call, class... Extra>
void both(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Call call, const char* doc,
          const Extra&... extra) {
  with_names(
      [&](const auto&, const auto&... named) {
        tensor.def(name, call, doc, named...);
        m.def(name, call, doc, nb::arg("input"), named...);
      },
      kSameNames, extra...);
}

/// The same where Python's types cannot be read from C++'s: `tail` is the signature from the second
/// parameter on, such as "dim: int) -> Tensor".
template <class Call, class... Extra>
void both_as(nb::class_<Tensor>& tensor, nb::module_& m, const std::string& name,
             const std::string& tail, Call call, const char* doc, const Extra&... extra) {
  with_names(
      [&](const auto& rename, const auto&... named) {
        tensor.def(name.c_str(), call, doc, named...,
                   nb::sig(rename("def " + name + "(self, " + tail).c_str()));
        m.def(name.c_str(), call, doc, nb::arg("input"), named...,
              nb::sig(rename("def " + name + "(input: Tensor, " + tail).c_str()));
      },
      kSameNames, extra...);
}

/// Error if gradients are asked for, which ember does not compute.
void require_no_gradient(bool requires_grad);

template <class Call, class Result, class... Given>
auto with_requires_grad(Call call, Result (Call::*)(Given...) const) {
  return [call](Given... given, bool requires_grad) -> Result {
    require_no_gradient(requires_grad);
    return call(std::forward<Given>(given)...);
  };
}
/// A function or method that makes new tensors: as def(), with a last parameter `requires_grad` by
/// keyword.
template <class Scope, class Call, class... Extra>
void define_factory(Scope& scope, const char* name, Call call, const Extra&... extra) {
  scope.def(name, with_requires_grad(call, &Call::operator()), extra...,
            nb::arg("requires_grad") = false);
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

/// __call__ for what may also decorate a function, as contextlib.ContextDecorator has it: around
/// each call a context of its own, which `another` makes.
template <class Another, class Self, class... Extra>
void define_decorator(nb::class_<Self, Extra...>& bound, Another another) {
  bound
      .def(
          "__call__",
          [](nb::object self, nb::object function) {
            const nb::object base = nb::module_::import_("contextlib").attr("ContextDecorator");
            return base.attr("__call__")(self, function);
          },
          nb::arg("func"),
          nb::sig("def __call__(self, func: collections.abc.Callable[..., typing.Any]) -> "
                  "collections.abc.Callable[..., typing.Any]"),
          "As a decorator: around each call.")
      .def("_recreate_cm", another);
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
