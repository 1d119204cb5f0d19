// Exceptions: each class of base/error.h becomes the Python exception that it stands for.
#include <cstring>

#include "python.h"

namespace ember::python {
namespace {

PyObject* out_of_memory = nullptr;
PyObject* accelerator_error = nullptr;
PyObject* deferred_call_error = nullptr;
PyObject* invalid_value = nullptr;

PyObject* new_exception(nb::module_& m, const char* name, PyObject* base, const char* doc) {
  const std::string full = std::string("ember.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (made == nullptr) throw nb::python_error();
  m.attr(name) = nb::handle(made);
  return made;  // lives as long as the process
}

/// Settings and files may hold any bytes: those that are no text stand as \xNN.
nb::object text_of(const char* what) {
  return nb::steal(
      PyUnicode_DecodeUTF8(what, static_cast<Py_ssize_t>(std::strlen(what)), "backslashreplace"));
}

void raise_as(PyObject* type, const char* what) {
  if (const nb::object text = text_of(what); text.is_valid()) PyErr_SetObject(type, text.ptr());
}

void raise_accelerator_error(const AcceleratorError& error) {
  const nb::object made = nb::steal(
      PyObject_CallFunctionObjArgs(accelerator_error, text_of(error.what()).ptr(), nullptr));
  if (!made.is_valid()) return;
  const nb::object code = nb::int_(error.error_code());
  if (PyObject_SetAttrString(made.ptr(), "error_code", code.ptr()) == 0)
    PyErr_SetObject(accelerator_error, made.ptr());
}

/// The class of OSError that the number stands for.
void raise_file_error(const FileError& error) {
  const nb::object path = nb::steal(PyUnicode_DecodeFSDefault(error.path().c_str()));
  if (!path.is_valid()) return;
  const nb::object made = nb::steal(PyObject_CallFunction(
      PyExc_OSError, "isO", error.number(), std::strerror(error.number()), path.ptr()));
  if (made.is_valid()) PyErr_SetObject(made.type().ptr(), made.ptr());
}

/// With `report`; None where it was not the caching allocator that ran out.
void raise_out_of_memory(const OutOfMemoryError& error) {
  const nb::object made =
      nb::steal(PyObject_CallFunctionObjArgs(out_of_memory, text_of(error.what()).ptr(), nullptr));
  if (!made.is_valid()) return;
  const nb::object report = error.report() != nullptr ? nb::cast(*error.report()) : nb::none();
  if (PyObject_SetAttrString(made.ptr(), "report", report.ptr()) == 0)
    PyErr_SetObject(out_of_memory, made.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    if (raise_interruption()) return;  // whatever became of the call that waited
    std::rethrow_exception(thrown);
  } catch (const AcceleratorError& error) {
    raise_accelerator_error(error);
  } catch (const OutOfMemoryError& error) {
    raise_out_of_memory(error);
  } catch (const DeferredCudaCallError& error) {
    raise_as(deferred_call_error, error.what());
  } catch (const ValueError& error) {
    raise_as(invalid_value, error.what());
  } catch (const TypeError& error) {
    raise_as(PyExc_TypeError, error.what());
  } catch (const IndexError& error) {
    raise_as(PyExc_IndexError, error.what());
  } catch (const NotImplementedError& error) {
    raise_as(PyExc_NotImplementedError, error.what());
  } catch (const AssertionError& error) {
    raise_as(PyExc_AssertionError, error.what());
  } catch (const FileError& error) {
    raise_file_error(error);
  } catch (const std::bad_cast&) {  // of nanobind; argument() names what was given
    PyErr_SetString(PyExc_TypeError, "an argument is of a kind that was not expected");
  } catch (const Error& error) {
    raise_as(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  out_of_memory = new_exception(m, "OutOfMemoryError", PyExc_RuntimeError,
                                "No memory is left on a device; the text says what holds it, and "
                                "`report` the same as figures.");
  nb::handle(out_of_memory).attr("report") = nb::none();
  accelerator_error =
      new_exception(m, "AcceleratorError", PyExc_RuntimeError,
                    "An error that a device reported; error_code is CUDA's number of it.");
  deferred_call_error =
      new_exception(m, "DeferredCudaCallError", PyExc_Exception,
                    "A call that was put off until CUDA was initialised has failed.");
  invalid_value = new_exception(
      m, "InvalidValueError",
      nb::make_tuple(nb::handle(PyExc_ValueError), nb::handle(PyExc_RuntimeError)).ptr(),
      "A value that makes no sense. A RuntimeError too, as torch often has that in its place.");
  nb::register_exception_translator(translate);
}

}  // namespace ember::python
