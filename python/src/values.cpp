// Elements as Python's own objects, and tensors from them.
#include <cstring>

#include "define.h"

namespace ember::python {
namespace {

nb::object element(const std::byte* at, Dtype dtype) {
  return with_type(dtype, [&]<class T>() -> nb::object {
    T value;
    std::memcpy(&value, at, sizeof value);
    return to_python(Scalar(value));
  });
}

nb::object nested(const Tensor& tensor, const std::byte* at, int dim) {
  if (dim == tensor.dim()) return element(at, tensor.dtype());
  const std::int64_t size = tensor.sizes()[dim];
  const std::int64_t step =
      tensor.strides()[dim] * static_cast<std::int64_t>(tensor.element_size());
  nb::object list = nb::steal(PyList_New(size));
  if (!list.is_valid()) throw nb::python_error();
  for (std::int64_t i = 0; i < size; ++i)
    PyList_SET_ITEM(list.ptr(), i, nested(tensor, at + i * step, dim + 1).release().ptr());
  return list;
}

nb::object to_list(const Tensor& self) {
  const Tensor host = self.is_cuda() ? unlocked([&] { return self.cpu(); }) : self;
  unlocked([&] { ops::host_reads("tolist", host); });
  return nested(host, static_cast<const std::byte*>(host.address()), 0);
}

Scalar item(const Tensor& self) {
  return unlocked([&] { return self.item(); });
}

/// What float(), int() and complex() convert.
Scalar only_element(const Tensor& self) {
  if (self.numel() != 1)
    throw ValueError("only one element tensors can be converted to Python scalars");
  return item(self);
}

/// The same without an imaginary part, which must be zero.
Scalar real_element(const Tensor& self, const char* type) {
  const Scalar number = only_element(self);
  if (!is_complex_dtype(number.dtype())) return number;
  const auto value = number.to<Complex<double>>();
  if (value.im != 0)
    throw Error(std::string("value cannot be converted to type ") + type + " without overflow");
  return value.re;
}

/// What a condition needs: torch's words where there is no single truth.
bool truth(const Tensor& self) {
  if (self.numel() == 0) throw Error("Boolean value of Tensor with no values is ambiguous");
  if (self.numel() > 1)
    throw Error("Boolean value of Tensor with more than one value is ambiguous");
  return item(self).to<bool>();
}

// ---- Python's objects as tensors

bool is_sequence(nb::handle object) {
  return PySequence_Check(object.ptr()) != 0 && !nb::isinstance<Tensor>(object);
}

const char* kind_name(nb::handle object) { return Py_TYPE(object.ptr())->tp_name; }

[[noreturn]] void throw_too_deep(nb::handle level) {
  throw ValueError(std::string("too many dimensions '") + kind_name(level) + "'");
}

/// Sizes by the first element of each level; whether the others agree is seen when they are read.
Shape sizes_of(nb::handle data) {
  if (PyUnicode_Check(data.ptr()) || PyBytes_Check(data.ptr()))
    throw TypeError(std::string("new(): invalid data type '") + kind_name(data) + "'");
  Shape sizes;
  nb::object level = nb::borrow(data);
  while (is_sequence(level)) {
    const Py_ssize_t length = PySequence_Size(level.ptr());
    if (length < 0) throw nb::python_error();
    if (PyUnicode_Check(level.ptr()) || PyBytes_Check(level.ptr()) || sizes.size() == kMaxDims)
      throw_too_deep(level);
    sizes.push_back(length);
    if (length == 0) break;
    nb::object first = nb::steal(PySequence_GetItem(level.ptr(), 0));
    if (!first.is_valid()) throw nb::python_error();
    level = std::move(first);
  }
  return sizes;
}

std::optional<Dtype> joined(std::optional<Dtype> a, Dtype b) {
  return a ? promote_types(*a, b) : b;
}

/// The dtype of an array of NumPy's, if a tensor can have it; nothing for other objects.
std::optional<Dtype> array_dtype(nb::handle object) {
  if (std::string_view(kind_name(object)) != "numpy.ndarray") return std::nullopt;
  return numpy_scalar_dtype(object.attr("dtype").attr("type")());
}

/// The dtype of all elements together: tensors and NumPy's scalars and arrays have one, numbers of
/// Python's are bool, int64, float32 or complex64, and so is a sequence of nothing float32.
/// `levels`: how many may lie in each other, for a list may contain itself.
void join_dtypes(nb::handle data, std::optional<Dtype>& dtype, int levels = kMaxDims) {
  if (nb::isinstance<Tensor>(data)) {
    dtype = joined(dtype, nb::cast<const Tensor&>(data).dtype());
    return;
  }
  if (is_sequence(data) && !PyUnicode_Check(data.ptr())) {
    // Without dimensions it has no elements to ask, and with a size of zero none either.
    if (const auto own = array_dtype(data)) {
      dtype = joined(dtype, *own);
      return;
    }
    if (levels == 0) throw_too_deep(data);
    const nb::object items = nb::steal(PySequence_Fast(data.ptr(), "not a sequence"));
    if (!items.is_valid()) throw nb::python_error();
    if (PySequence_Fast_GET_SIZE(items.ptr()) == 0) dtype = joined(dtype, default_dtype());
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i)
      join_dtypes(nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), i)), dtype, levels - 1);
    return;
  }
  if (PyUnicode_Check(data.ptr())) throw TypeError("new(): invalid data type 'str'");
  if (const auto own = numpy_scalar_dtype(data)) {
    dtype = joined(dtype, *own);
    return;
  }
  const auto number = number_from(data);
  if (!number && !is_beyond_64_bits(data))
    throw Error(std::string("Could not infer dtype of ") + kind_name(data));
  Dtype own = number ? number->dtype() : Dtype::int64;
  if (own == Dtype::float64) own = default_dtype();
  if (own == Dtype::complex128) own = complex_dtype(default_dtype());
  dtype = joined(dtype, own);
}

/// What an object's own __float__, __index__ or __complex__ gives, whichever the dtype asks for;
/// nothing if it has none.
std::optional<Scalar> converted(nb::handle object, Dtype dtype) {
  std::optional<Scalar> made;
  if (is_complex_dtype(dtype)) {
    const Py_complex value = PyComplex_AsCComplex(object.ptr());
    made = Complex<double>(value.real, value.imag);
  } else if (is_floating_point(dtype)) {
    made = PyFloat_AsDouble(object.ptr());
  } else {
    const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
    if (number.is_valid()) return number_from(number);
  }
  if (PyErr_Occurred() == nullptr) return made;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
  PyErr_Clear();
  return std::nullopt;
}

/// An element of a tensor of the given dtype.
Scalar number_of(nb::handle object, Dtype dtype) {
  if (nb::isinstance<Tensor>(object)) {
    const Tensor& given = nb::cast<const Tensor&>(object);
    if (is_integral(dtype, false) && (given.numel() != 1 || !is_integral(given.dtype())))
      throw TypeError("only integer tensors of a single element can be converted to an index");
    return only_element(given);
  }
  if (const auto number = number_from(object)) return *number;
  if (is_beyond_64_bits(object)) {
    if (dtype == Dtype::bool_) return true;
    if (is_integral(dtype) && dtype != Dtype::uint64)
      throw ValueError("Overflow when unpacking long: " + overflow_text(object));
    return NumberLike{object, std::nullopt}.number(dtype);
  }
  if (const auto number = converted(object, dtype)) return *number;
  throw TypeError(std::string("must be real number, not ") + kind_name(object));
}

bool is_negative(const Scalar& number) {
  return is_integral(number.dtype()) && !number.beyond_int64() && number.to<std::int64_t>() < 0;
}

void require_length(const Tensor& into, int dim, std::int64_t length) {
  if (length != into.sizes()[dim])
    throw ValueError("expected sequence of length " + std::to_string(into.sizes()[dim]) +
                     " at dim " + std::to_string(dim) + " (got " + std::to_string(length) + ")");
}

void store(const Tensor& into, std::byte* at, int dim, nb::handle data);

/// A tensor among sequences: one that comes first is an element, and later ones may be rows.
void store_row(const Tensor& into, std::byte* at, int dim, const Tensor& data) {
  if (data.dim() == 0) throw TypeError("not a sequence");
  require_length(into, dim, data.sizes()[0]);
  const std::int64_t step = into.strides()[dim] * static_cast<std::int64_t>(into.element_size());
  const Tensor here = unlocked([&] { return data.cpu(); });
  for (std::int64_t i = 0; i < data.sizes()[0]; ++i)
    store(into, at + i * step, dim + 1, nb::cast(here[i]));
}

void store(const Tensor& into, std::byte* at, int dim, nb::handle data) {
  const Dtype dtype = into.dtype();
  if (dim == into.dim()) {
    const Scalar number = number_of(data, dtype);
    if (is_complex_dtype(number.dtype()) && !is_complex_dtype(dtype) && dtype != Dtype::bool_)
      throw TypeError("must be real number, not complex");
    if (is_integral(dtype)) require_fits(number, dtype);
    if (dtype == Dtype::uint64 && is_negative(number)) {
      PyErr_SetString(PyExc_OverflowError, "can't convert negative int to unsigned");
      throw nb::python_error();
    }
    with_type(dtype, [&]<class T>() {
      const T value = number.to<T>();
      std::memcpy(at, &value, sizeof value);
    });
    return;
  }
  const std::int64_t step = into.strides()[dim] * static_cast<std::int64_t>(into.element_size());
  if (nb::isinstance<Tensor>(data)) return store_row(into, at, dim, nb::cast<const Tensor&>(data));
  if (!is_sequence(data)) throw TypeError("not a sequence");
  const nb::object items = nb::steal(PySequence_Fast(data.ptr(), "not a sequence"));
  if (!items.is_valid()) throw nb::python_error();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(items.ptr());
  require_length(into, dim, size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    // Reading an element may call Python, and a list be another one afterwards.
    if (PySequence_Fast_GET_SIZE(items.ptr()) != size)
      throw ValueError("the sequence at dim " + std::to_string(dim) + " changed while it was read");
    store(into, at + i * step, dim + 1, nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), i)));
  }
}

}  // namespace

Scalar scalar_of(const Operand& given, const char* name) {
  if (given.tensor() == nullptr) return given.number();
  if (given.tensor()->dim() != 0)
    throw TypeError(std::string(name) +
                    ": expected a number or a tensor without dimensions, got a tensor of shape " +
                    given.tensor()->sizes().str());
  return given.tensor()->item();
}

Tensor tensor_from(nb::handle data, const Options& options) {
  if (nb::isinstance<Tensor>(data)) {
    const Tensor& source = nb::cast<const Tensor&>(data);
    return unlocked([&] { return source.to(options, false, true); });
  }
  if (const auto array = array_from(data)) {
    const Tensor host = *array;
    return unlocked([&] { return host.to(options, false, true); });
  }
  if (const auto other = dlpack_from(data))
    return unlocked([&] { return other->to(options, false, true); });
  Options here = options;
  here.device = Device(Device::Type::cpu);
  const Shape sizes = sizes_of(data);
  if (!here.dtype) {
    join_dtypes(data, here.dtype);
    if (!here.dtype) here.dtype = default_dtype();
  }
  const bool elsewhere = options.device && options.device->is_cuda();
  if (elsewhere) here.pinned = false;
  const Tensor made = unlocked([&] { return empty(sizes, here); });
  if (made.numel() > 0) store(made, static_cast<std::byte*>(made.address()), 0, data);
  if (!elsewhere) return made;
  Options there = options;
  there.dtype.reset();
  return unlocked([&] { return made.to(there); });
}

void bind_values(nb::class_<Tensor>& tensor, nb::module_& m) {
  tensor.def("item", &item, "The one element as a number of Python's. Waits until it is there.")
      .def("tolist", &to_list, nb::sig("def tolist(self) -> typing.Any"),
           "All elements as nested lists. Waits until they are there.")
      .def("__bool__", &truth)
      .def("__float__",
           [](const Tensor& self) { return real_element(self, "double").to<double>(); })
      .def(
          "__int__",
          [](const Tensor& self) -> nb::object {
            const Scalar element = real_element(self, "int64_t");
            // As torch has it: the real part of a complex number has to fit into 64 bits, and a
            // float becomes the int that Python makes of it.
            if (is_complex_dtype(self.dtype()) && !fits(element, Dtype::int64))
              throw Error("value cannot be converted to type int64_t without overflow");
            return nb::steal(PyNumber_Long(to_python(element).ptr()));
          },
          nb::sig("def __int__(self) -> int"))
      .def(
          "__complex__",
          [](const Tensor& self) {
            const auto value = only_element(self).to<Complex<double>>();
            return nb::object(nb::steal(PyComplex_FromDoubles(value.re, value.im)));
          },
          nb::sig("def __complex__(self) -> complex"))
      .def("__index__",
           [](const Tensor& self) -> std::int64_t {
             if (self.numel() != 1 || !is_integral(self.dtype()))
               throw TypeError(
                   "only integer tensors of a single element can be converted to an index");
             const Scalar number = item(self);
             require_fits(number, Dtype::int64);
             return number.to<std::int64_t>();
           })
      .def(
          "__format__",
          [](nb::handle self, const std::string& format) -> nb::object {
            const auto& value = nb::cast<const Tensor&>(self);
            if (value.dim() > 0 && !format.empty())
              throw TypeError("unsupported format string passed to Tensor.__format__");
            const nb::object plain = value.dim() == 0 ? to_python(item(value)) : nb::str(self);
            return nb::steal(PyObject_Format(plain.ptr(), nb::str(format.c_str()).ptr()));
          },
          nb::sig("def __format__(self, format_spec: str, /) -> str"))
      .def(
          "__contains__",
          [](const Tensor& self, const Operand& element) {
            return unlocked([&] { return eq(self, element).any().item<bool>(); });
          },
          nb::sig("def __contains__(self, element: Tensor | complex, /) -> bool"),
          "Whether an element equals a number, or the element of a tensor beside it.")
      .def(
          "__contains__",
          [](const Tensor&, nb::handle element) -> bool {
            throw Error(std::string("Tensor.__contains__ only supports Tensor or scalar, but you "
                                    "passed in a ") +
                        nb::repr(element.type()).c_str() + ".");
          },
          nb::arg().none(), nb::sig("def __contains__(self, element: object, /) -> bool"));
  const auto make = [](nb::handle data, std::optional<Dtype> dtype, const DeviceLike& device,
                       MaybeBool pin_memory) {
    return tensor_from(data, new_options(dtype, device, pin_memory));
  };
  define_factory(
      m, "tensor", make, nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "A new tensor with the elements of nested sequences, a number, an array or a tensor. "
      "Without a dtype that of the elements: bool, int64, float32 or complex64; of arrays and "
      "NumPy's scalars, and of what has __dlpack__, their own.");
  define_factory(
      m, "scalar_tensor",
      [](const NumberLike& value, std::optional<Dtype> dtype, const DeviceLike& device,
         MaybeBool pin_memory) {
        Options options = new_options(dtype, device, pin_memory);
        if (!options.dtype) options.dtype = default_dtype();
        const Scalar number = value.number(options.dtype);
        return unlocked([&] { return scalar_tensor(number, options); });
      },
      nb::arg("s"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::arg("pin_memory") = false, "One number without dimensions.");
  define_factory(
      tensor, "new_tensor",
      [](const Tensor& self, nb::handle data, std::optional<Dtype> dtype, const DeviceLike& device,
         MaybeBool pin_memory) {
        Options options = options_of(dtype, device, pin_memory);
        if (!options.dtype) options.dtype = self.dtype();
        if (!options.device) options.device = self.device();
        return tensor_from(data, options);
      },
      nb::arg("data").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::arg("pin_memory") = false,
      "The same as ember.tensor, with this tensor's dtype and device unless given.");
}

}  // namespace ember::python
