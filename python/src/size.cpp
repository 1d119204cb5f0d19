// ember.Size: the tuple that a shape is.
#include "python.h"

namespace ember::python {
namespace {

PyTypeObject* size_class = nullptr;

nb::object as_size(nb::object made) {
  if (!made.is_valid()) throw nb::python_error();
  if (!PyTuple_CheckExact(made.ptr())) return made;
  PyObject* size =
      PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(size_class), made.ptr(), nullptr);
  if (size == nullptr) throw nb::python_error();
  return nb::steal(size);
}

/// Calls what tuple has, for results that are to be sizes again.
template <class Call>
PyObject* guarded(Call&& call) noexcept {
  try {
    return as_size(nb::steal(call())).release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
    return nullptr;
  }
}

PyObject* repr(PyObject* self) {
  std::string text = "torch.Size([";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const nb::object item = nb::steal(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
    if (!item.is_valid()) return nullptr;
    const char* item_text = PyUnicode_AsUTF8(item.ptr());
    if (item_text == nullptr) return nullptr;
    if (i > 0) text += ", ";
    text += item_text;
  }
  text += "])";
  return PyUnicode_FromString(text.c_str());
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return PyTuple_Type.tp_as_mapping->mp_subscript(self, key); });
}
PyObject* concat(PyObject* self, PyObject* other) {
  return guarded([&] { return PyTuple_Type.tp_as_sequence->sq_concat(self, other); });
}
PyObject* repeat(PyObject* self, Py_ssize_t count) {
  return guarded([&] { return PyTuple_Type.tp_as_sequence->sq_repeat(self, count); });
}

/// What a tuple leaves to its left operand: (1,) + size is a size, too.
PyObject* add(PyObject* left, PyObject* right) {
  if (PyTuple_Check(left) == 0 || PyTuple_Check(right) == 0) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] { return PyTuple_Type.tp_as_sequence->sq_concat(left, right); });
}

/// The class, and a tuple that it is made from.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* const sizes = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
  if (sizes == nullptr) return nullptr;
  return Py_BuildValue("(O(N))", reinterpret_cast<PyObject*>(Py_TYPE(self)), sizes);
}

PyObject* numel(PyObject* self, PyObject*) {
  long long count = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    const long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (size == -1 && PyErr_Occurred() != nullptr) return nullptr;
    if (__builtin_mul_overflow(count, size, &count)) {
      PyErr_SetString(PyExc_OverflowError, "numel: more than 2^63 elements");
      return nullptr;
    }
  }
  return PyLong_FromLongLong(count);
}

/// One size as an int of Python's own, from whatever has __index__.
nb::object size_of(nb::handle item, Py_ssize_t at) {
  nb::object size = nb::steal(PyNumber_Index(item.ptr()));
  if (!size.is_valid()) {
    PyErr_Clear();
    throw TypeError("torch.Size() takes an iterable of 'int' (item " + std::to_string(at) +
                    " is '" + Py_TYPE(item.ptr())->tp_name + "')");
  }
  if (is_beyond_64_bits(size)) throw ValueError("torch.Size(): " + overflow_text(size));
  return size;
}

PyObject* make(PyTypeObject* subtype, PyObject* args, PyObject* keywords) {
  PyObject* const made = PyTuple_Type.tp_new(subtype, args, keywords);
  if (made == nullptr) return nullptr;
  try {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made); ++i) {
      const nb::handle item = PyTuple_GET_ITEM(made, i);
      if (PyLong_CheckExact(item.ptr()) && index_from(item)) continue;
      nb::object size = size_of(item, i);
      PyTuple_SET_ITEM(made, i, size.release().ptr());
      item.dec_ref();
    }
    return made;
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (nb::python_error& error) {
    error.restore();
  }
  Py_DECREF(made);
  return nullptr;
}

PyMethodDef methods[] = {
    {"numel", numel, METH_NOARGS,
     "numel($self, /)\n--\n\nThe number of elements of a tensor of this size."},
    {"__reduce__", reduce, METH_NOARGS, "__reduce__($self, /)\n--\n\nFor pickle."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The sizes of a tensor: a tuple of ints.")},
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_nb_add, reinterpret_cast<void*>(add)},
    {Py_sq_concat, reinterpret_cast<void*>(concat)},
    {Py_sq_repeat, reinterpret_cast<void*>(repeat)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"ember._C.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

nb::object make_size(const Shape& shape) {
  PyObject* made = size_class->tp_alloc(size_class, shape.size());
  if (made == nullptr) throw nb::python_error();
  for (int i = 0; i < shape.size(); ++i) PyTuple_SET_ITEM(made, i, PyLong_FromLongLong(shape[i]));
  return nb::steal(made);
}

void bind_size(nb::module_& m) {
  PyObject* made = PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(&PyTuple_Type));
  if (made == nullptr) throw nb::python_error();
  size_class = reinterpret_cast<PyTypeObject*>(made);
  m.attr("Size") = nb::steal(made);
}

}  // namespace ember::python
