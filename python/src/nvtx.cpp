// ember.cuda.nvtx: ranges and marks for profilers.
#include <nanobind/stl/variant.h>

#include <variant>

#include "python.h"

namespace ember::python {
namespace {

namespace nvtx = cuda::nvtx;

/// A category by its name in the domain, or by its number.
using Category = std::variant<std::uint32_t, std::string>;

nvtx::Payload payload_from(nb::handle given) {
  if (given.is_none()) return {};
  if (PyFloat_Check(given.ptr())) return nb::cast<double>(given);
  if (const auto number = index_from(given)) return *number;
  std::uint64_t large = 0;
  if (nb::try_cast(given, large)) return large;
  if (PyLong_Check(given.ptr())) throw_overflow(given);
  throw TypeError(std::string("payload: expected an int or a float, got ") +
                  Py_TYPE(given.ptr())->tp_name);
}

void set_message(nvtx::Attributes& attributes, const char* msg) { attributes.message = msg; }
void set_message(nvtx::Attributes& attributes, nvtx::RegisteredString msg) {
  attributes.registered = msg;
}

template <class Message>
nvtx::Attributes attributes_of(const nvtx::Domain& domain, Message msg, const Category& category,
                               std::optional<std::uint32_t> color, nb::handle payload) {
  nvtx::Attributes made{.color = color, .payload = payload_from(payload)};
  set_message(made, msg);
  const auto* name = std::get_if<std::string>(&category);
  made.category = name != nullptr ? domain.category(*name) : std::get<std::uint32_t>(category);
  return made;
}

/// Calls `report` with a message, or with all that is said. An observer may want Python's lock on
/// another thread.
template <class Message, class Report>
auto say(const nvtx::Domain& domain, Message msg, const Category& category,
         std::optional<std::uint32_t> color, nb::handle payload, const Report& report) {
  const nvtx::Attributes said = attributes_of(domain, msg, category, color, payload);
  const bool plain = said.category == 0 && !said.color && said.payload.index() == 0;
  const auto call = [&] { return plain ? report(msg) : report(said); };
  return cuda::observed() ? unlocked(call) : call();
}

template <class Call>
auto quickly(const Call& call) {
  return cuda::observed() ? unlocked(call) : call();
}

/// Defines a function of a message of a kind, in the module and in the class Domain.
template <class Message, class Report>
void define_for(nb::module_& m, nb::class_<nvtx::Domain>& domain, const char* name,
                const char* kind, const char* result, const Report& report, const char* doc) {
  const std::string tail = std::string("msg: ") + kind +
                           ", *, category: int | str = 0, color: int | None = None, payload: int "
                           "| float | None = None) -> " +
                           result;
  const auto call = [report](const nvtx::Domain& in, Message msg, const Category& category,
                             std::optional<std::uint32_t> color, nb::handle payload) {
    return say(in, msg, category, color, payload,
               [&](const auto& said) { return report(in, said); });
  };
  domain.def(name, call, nb::arg("msg"), nb::kw_only(), nb::arg("category") = 0,
             nb::arg("color") = nb::none(), nb::arg("payload") = nb::none(),
             nb::sig((std::string("def ") + name + "(self, " + tail).c_str()), doc);
  m.def(
      name,
      [call](Message msg, const Category& category, std::optional<std::uint32_t> color,
             nb::handle payload) { return call({}, msg, category, color, payload); },
      nb::arg("msg"), nb::kw_only(), nb::arg("category") = 0, nb::arg("color") = nb::none(),
      nb::arg("payload") = nb::none(), nb::sig((std::string("def ") + name + "(" + tail).c_str()),
      doc);
}

/// The same of text, and of a registered string.
template <class Report>
void define(nb::module_& m, nb::class_<nvtx::Domain>& domain, const char* name, const char* result,
            const Report& report, const char* doc) {
  define_for<const char*>(m, domain, name, "str", result, report, doc);
  define_for<nvtx::RegisteredString>(m, domain, name, "RegisteredString", result, report, "");
}

}  // namespace

void bind_nvtx(nb::module_& cuda) {
  nb::module_ m = cuda.def_submodule("nvtx", "Ranges and marks for profilers.");
  m.def("is_compiled_in", &nvtx::is_compiled_in,
        "Whether profilers can see ranges: whether NVTX's header was there when ember was built.");
  nb::class_<nvtx::RegisteredString>(
      m, "RegisteredString",
      "A message whose text a profiler knows already, for ranges that come again and again.")
      .def("__str__", &nvtx::RegisteredString::text)
      .def("__eq__",
           [](const nvtx::RegisteredString& self, nb::handle other) {
             const nvtx::RegisteredString* right = nullptr;
             return nb::try_cast(other, right) && right != nullptr && self == *right;
           })
      .def("__hash__", [](const nvtx::RegisteredString& self) {
        return std::hash<std::string_view>()(self.text());
      });
  nb::class_<nvtx::Domain> domain(
      m, "Domain",
      "The ranges of one library or part of a program: stacks and categories of their own.");
  domain.def(nb::init<const std::string&>(), nb::arg("name"))
      .def_prop_ro("name", &nvtx::Domain::name)
      .def("category", &nvtx::Domain::category, nb::arg("name"),
           "The number of the category with that name in this domain, made at its first use.")
      .def("registered", &nvtx::Domain::registered, nb::arg("msg"),
           "A message of this domain that the profiler learns now, and once.")
      .def(
          "range_pop",
          [](const nvtx::Domain& self) { return quickly([&] { return self.range_pop(); }); },
          "Ends the innermost range of the calling thread in this domain. Returns its depth.")
      .def(
          "range_end",
          [](const nvtx::Domain& self, nvtx::RangeId range) {
            quickly([&] { self.range_end(range); });
          },
          nb::arg("range_id"), "Ends a range of range_start.")
      .def("__eq__",
           [](const nvtx::Domain& self, nb::handle other) {
             const nvtx::Domain* right = nullptr;
             return nb::try_cast(other, right) && right != nullptr && self == *right;
           })
      .def("__hash__",
           [](const nvtx::Domain& self) { return std::hash<std::string_view>()(self.name()); });
  define(
      m, domain, "mark", "None", [](const nvtx::Domain& in, const auto& said) { in.mark(said); },
      "Reports something that happens now.");
  define(
      m, domain, "range_push", "int",
      [](const nvtx::Domain& in, const auto& said) { return in.range_push(said); },
      "Begins a range of the calling thread. Returns its depth, from 0 on; negative without a "
      "tool.");
  define(
      m, domain, "range_start", "int",
      [](const nvtx::Domain& in, const auto& said) { return in.range_start(said); },
      "Begins a range that any thread may end, with range_end and the number that this returns.");
  m.def("registered", &nvtx::registered, nb::arg("msg"),
        "A message that the profiler learns now, and once: for ranges that come again and again.");
  m.def(
      "range_pop", [] { return quickly([] { return nvtx::range_pop(); }); },
      "Ends the calling thread's innermost range. Returns its depth; negative without one, or a "
      "tool.");
  m.def(
      "range_end", [](nvtx::RangeId range) { quickly([&] { nvtx::range_end(range); }); },
      nb::arg("range_id"), "Ends a range of range_start.");
}

}  // namespace ember::python
