// ember.cuda.jiterator: element-wise kernels from a text.
#include "ember/jit/jiterator.h"

#include <vector>

#include "python.h"

namespace ember::python {
namespace {

namespace jiterator = cuda::jiterator;
using jiterator::JitFunction;

jiterator::Keywords keywords_of(const nb::kwargs& given) {
  jiterator::Keywords made;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto number = number_from(value);
    if (!number) {
      if (is_beyond_64_bits(value)) throw_overflow(value);
      throw TypeError(name + ": expected a bool, an int, a float or a complex, got " +
                      Py_TYPE(value.ptr())->tp_name);
    }
    made.push_back({name, *number});
  }
  return made;
}

/// Raises what torch raises where the library's class has no counterpart of its own.
template <class Call>
auto translated(const Call& call) {
  try {
    return call();
  } catch (const jiterator::CodeError& error) {
    PyErr_SetString(PyExc_Exception, error.what());
  } catch (const jiterator::KeywordError& error) {
    PyErr_SetString(PyExc_KeyError, error.what());
  }
  throw nb::python_error();
}

JitFunction make(const std::string& code, const jiterator::JitOptions& options,
                 const nb::kwargs& defaults) {
  return translated([&] { return JitFunction(code, keywords_of(defaults), options); });
}

nb::object call_function(const JitFunction& self, const nb::args& tensors,
                         const nb::kwargs& given) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    inputs.push_back(
        *argument<const Tensor*>(tensors[i], ("tensor " + std::to_string(i)).c_str(), "a tensor"));
  const jiterator::Keywords keywords = keywords_of(given);
  std::vector<Tensor> made =
      translated([&] { return unlocked([&] { return self(inputs, keywords); }); });
  if (made.size() == 1) return nb::cast(std::move(made[0]));
  nb::list list;
  for (Tensor& tensor : made) list.append(nb::cast(std::move(tensor)));
  return nb::tuple(list);
}

}  // namespace

void bind_jiterator(nb::module_& cuda) {
  nb::module_ m = cuda.def_submodule("jiterator", "Element-wise kernels from a text.");
  nb::class_<JitFunction>(m, "_JittedFunction",
                          "A function made from a text of CUDA C++. Its first call for dtypes, a "
                          "kind of layout and a kind of device compiles.")
      .def("__call__", &call_function, nb::arg("tensors"), nb::arg("kwargs"),
           nb::sig("def __call__(self, *tensors: ember._C.Tensor, **kwargs: bool | int | float | "
                   "complex) -> typing.Any"),
           "A new tensor, or a tuple of as many as there are outputs. The tensors lie on one "
           "device, are broadcast, and their dtypes promoted. Keywords replace the numbers that "
           "the function was created with: KeyError for others.")
      .def_prop_ro("kernel_name", &JitFunction::name,
                   "The name of the text's function, which its launches have, too.")
      .def_prop_ro("code_string", &JitFunction::code, "The text.");
  m.def(
      "_create_jit_fn",
      [](const std::string& code, bool strict, const nb::kwargs& defaults) {
        return make(code, {.strict = strict}, defaults);
      },
      nb::arg("code_string"), nb::kw_only(), nb::arg("strict") = false, nb::arg("kwargs"),
      nb::sig("def _create_jit_fn(code_string: str, *, strict: bool = False, **kwargs: bool | int "
              "| float | complex) -> _JittedFunction"),
      "A function of tensors from the text of a template function of C++, which computes one "
      "element. Keywords are numbers that the function gets behind the tensors, in this order. "
      "With strict, torch's limits: CUDA tensors, and at most 8. Exception for a text that is no "
      "template function.");
  m.def(
      "_create_multi_output_jit_fn",
      [](const std::string& code, int num_outputs, bool strict, const nb::kwargs& defaults) {
        return make(code,
                    {.return_by_reference = true, .num_outputs = num_outputs, .strict = strict},
                    defaults);
      },
      nb::arg("code_string"), nb::arg("num_outputs"), nb::kw_only(), nb::arg("strict") = false,
      nb::arg("kwargs"),
      nb::sig("def _create_multi_output_jit_fn(code_string: str, num_outputs: int, *, strict: bool "
              "= False, **kwargs: bool | int | float | complex) -> _JittedFunction"),
      "The same for a function that returns void, and has its outputs as last parameters, by "
      "reference.");
}

}  // namespace ember::python
