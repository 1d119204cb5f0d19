// ember.device, and how arguments become devices, sizes and numbers.
#include <vector>

#include "define.h"

namespace ember::python {
namespace {

PyTypeObject* device_class = nullptr;

/// Where the calling thread makes new tensors: what it has entered, the last one first, before what
/// set_default_device() said. The CPU without both.
struct DefaultDevice {
  std::optional<Device> given;
  std::vector<Device> entered;
};
thread_local DefaultDevice default_device;

/// A subclass of int, float or complex counts as one; bool is an int of its own.
Scalar number_of_builtin(PyObject* object, bool& known) {
  known = true;
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    known = overflow == 0;
    return static_cast<std::int64_t>(value);
  }
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (PyComplex_Check(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return Complex<double>(value.real, value.imag);
  }
  known = false;
  return {};
}

/// np.float32 and the like: of a type of NumPy's, without dimensions.
bool is_numpy_scalar(PyObject* object) {
  const char* name = Py_TYPE(object)->tp_name;
  return std::string_view(name).starts_with("numpy.") && name != std::string_view("numpy.ndarray");
}

std::int64_t index_of(nb::handle object) {
  const auto index = index_from(object);
  if (index) return *index;
  if (PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr()))
    throw ValueError("device index out of range: " + std::string(nb::str(object).c_str()));
  throw TypeError(std::string("expected a device: an int, a str or a device, but got ") +
                  Py_TYPE(object.ptr())->tp_name);
}

/// The index of a Device, which holds an int.
int checked_index(std::int64_t index) {
  if (index < 0) throw Error("Device index must not be negative");
  if (index > INT32_MAX) throw ValueError("device index out of range: " + std::to_string(index));
  return static_cast<int>(index);
}

Device parse(nb::handle text) {
  Py_ssize_t length = 0;
  const char* begin = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
  if (begin == nullptr) throw nb::python_error();
  return Device(std::string_view(begin, static_cast<std::size_t>(length)));
}

Device indexed(const std::string& kind, std::optional<std::int64_t> index) {
  const int checked = index ? checked_index(*index) : 0;
  const Device plain{std::string_view(kind)};
  if (plain.has_index())
    throw Error("type (string) must not include an index because index was passed explicitly: " +
                kind);
  if (!index) return plain;
  return {plain.type(), checked};
}

/// An int, an integer of NumPy's, or the index of an ember.cuda.device.
nb::object device_number(nb::handle object) {
  if (PyIndex_Check(object.ptr()) != 0) return nb::borrow(object);
  return nb::getattr(object, "idx", nb::none());
}

}  // namespace

std::optional<Scalar> number_from(nb::handle object) noexcept {
  bool known = false;
  const Scalar number = number_of_builtin(object.ptr(), known);
  if (known) return number;
  if (PyLong_Check(object.ptr()) || !is_numpy_scalar(object.ptr())) return std::nullopt;
  const nb::object plain = nb::steal(PyObject_CallMethod(object.ptr(), "item", nullptr));
  if (!plain.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Scalar value = number_of_builtin(plain.ptr(), known);
  return known ? std::optional(value) : std::nullopt;
}

std::optional<Dtype> numpy_scalar_dtype(nb::handle object) noexcept {
  if (!is_numpy_scalar(object.ptr())) return std::nullopt;
  std::string_view name = Py_TYPE(object.ptr())->tp_name;
  name.remove_prefix(std::string_view("numpy.").size());
  if (name == "bool_") name = "bool";
  for (int i = 0; i < kDtypes; ++i)
    if (name == dtype_name(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  return std::nullopt;
}

bool is_beyond_64_bits(nb::handle object) noexcept {
  if (PyLong_Check(object.ptr())) return !number_from(object);
  if (!is_numpy_scalar(object.ptr()) || PyIndex_Check(object.ptr()) == 0) return false;
  const nb::object integer = nb::steal(PyNumber_Index(object.ptr()));
  if (!integer.is_valid()) PyErr_Clear();
  return integer.is_valid() && !number_from(integer);
}

std::string overflow_text(nb::handle integer) {
  // Python refuses to write very long ints, and nobody would read them.
  const auto bits = nb::cast<std::size_t>(nb::int_(integer).attr("bit_length")());
  const std::string value = bits <= 256 ? std::string(nb::str(integer).c_str())
                                        : "an int of " + std::to_string(bits) + " bits";
  return value + " is outside the range of int64";
}

void throw_overflow(nb::handle integer) {
  PyErr_SetString(PyExc_OverflowError, overflow_text(integer).c_str());
  throw nb::python_error();
}

bool load_number(nb::handle object, NumberLike& number) noexcept {
  number.given = object;
  number.plain = number_from(object);
  return number.plain || nb::isinstance<Tensor>(object) || is_beyond_64_bits(object);
}

bool load_file_name(nb::handle object, FileName& name) noexcept {
  // Python's own converter refuses nulls, in other words than everything that opens files here.
  nb::object given = nb::steal(PyOS_FSPath(object.ptr()));
  if (given.is_valid() && PyUnicode_Check(given.ptr()))
    given = nb::steal(PyUnicode_EncodeFSDefault(given.ptr()));
  if (!given.is_valid()) {
    PyErr_Clear();
    return false;
  }
  name.path.assign(PyBytes_AS_STRING(given.ptr()),
                   static_cast<std::size_t>(PyBytes_GET_SIZE(given.ptr())));
  return true;
}

Scalar NumberLike::number(std::optional<Dtype> dtype) const {
  if (plain) return *plain;
  if (nb::isinstance<Tensor>(given)) {
    const auto& tensor = nb::cast<const Tensor&>(given);
    if (tensor.dim() != 0)
      throw TypeError("a tensor of " + std::to_string(tensor.dim()) +
                      " dimensions, expected a number or a tensor without dimensions");
    return unlocked([&] { return tensor.item(); });
  }
  if (dtype == Dtype::uint64) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(nb::int_(given).ptr());
    if (PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
  }
  if (!dtype || is_integral(*dtype)) throw_overflow(given);
  const double value = PyLong_AsDouble(nb::int_(given).ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

std::optional<std::int64_t> index_from(nb::handle object) noexcept {
  PyObject* const given = object.ptr();
  int overflow = 0;
  if (PyLong_CheckExact(given)) {
    const long long value = PyLong_AsLongLongAndOverflow(given, &overflow);
    return overflow == 0 ? std::optional<std::int64_t>(value) : std::nullopt;
  }
  if (PyBool_Check(given) || PyIndex_Check(given) == 0) return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(given));
  if (!number.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  return overflow == 0 ? std::optional<std::int64_t>(value) : std::nullopt;
}

nb::object to_python(const Scalar& number) {
  switch (number.dtype()) {
    case Dtype::bool_: return nb::bool_(number.to<bool>());
    case Dtype::int64:
      if (number.beyond_int64()) return nb::int_(number.to<std::uint64_t>());
      return nb::int_(number.to<std::int64_t>());
    case Dtype::complex128: {
      const auto value = number.to<Complex<double>>();
      return nb::steal(PyComplex_FromDoubles(value.re, value.im));
    }
    default: return nb::float_(number.to<double>());
  }
}

bool is_device_like(nb::handle object) noexcept {
  PyObject* const given = object.ptr();
  if (object.is_none() || PyUnicode_Check(given) || Py_TYPE(given) == device_class) return true;
  if (PyBool_Check(given) || nb::isinstance<Tensor>(object)) return false;
  return PyLong_Check(given) || index_from(object) || PyObject_HasAttrString(given, "idx") != 0;
}

cuda::DeviceArg DeviceLike::arg() const {
  if (!given.is_valid() || given.is_none()) return {};
  if (PyUnicode_Check(given.ptr())) return parse(given);
  if (Py_TYPE(given.ptr()) == device_class) return *nb::inst_ptr<Device>(given);
  return index_of(device_number(given));
}

std::optional<Device> DeviceLike::place() const {
  if (!given.is_valid() || given.is_none()) return std::nullopt;
  if (PyUnicode_Check(given.ptr())) return parse(given);
  if (Py_TYPE(given.ptr()) == device_class) return *nb::inst_ptr<Device>(given);
  return Device(Device::Type::cuda, checked_index(index_of(device_number(given))));
}

Options options_of(std::optional<Dtype> dtype, const DeviceLike& device, MaybeBool pin_memory) {
  Options options;
  options.dtype = dtype;
  options.device = device.place();
  options.pinned = pin_memory.value_or(false);
  return options;
}

void require_no_gradient(bool requires_grad) {
  if (requires_grad)
    throw NotImplementedError(
        "requires_grad=True: ember computes no gradients (docs/differences.md), expected False");
}

Options new_options(std::optional<Dtype> dtype, const DeviceLike& device, MaybeBool pin_memory) {
  Options options = options_of(dtype, device, pin_memory);
  if (options.device) return options;
  options.device =
      default_device.entered.empty() ? default_device.given : default_device.entered.back();
  return options;
}

void require_options_of(const Tensor& out, const Options& options) {
  if (options.dtype && *options.dtype != out.dtype())
    throw Error(std::string("dtype ") + legacy_name(*options.dtype) +
                " does not match dtype of out parameter (" + legacy_name(out.dtype()) + ")");
  const auto& asked = options.device;
  if (asked && (asked->type() != out.device().type() ||
                (out.is_cuda() && asked->has_index() && *asked != out.device())))
    throw Error("device " + options.device->str() + " does not match device of out parameter (" +
                out.device().str() + ")");
}

namespace {

[[noreturn]] void throw_too_large(nb::handle size) {
  const nb::gil_scoped_acquire locked;  // callers may have released it
  throw TypeError("size: " + overflow_text(size) + ", expected sizes that fit");
}

bool has_plain_ints(nb::handle list) noexcept {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.ptr()); ++i)
    if (!PyLong_CheckExact(PyList_GET_ITEM(list.ptr(), i))) return false;
  return true;
}

/// Takes what is no size that fits.
[[gnu::cold]] bool load_odd_size(nb::handle object, Sizes& sizes) noexcept {
  if (!is_beyond_64_bits(object)) return false;
  sizes.too_large = object;
  return true;
}

}  // namespace

Shape Sizes::shape() const {
  if (too_large.is_valid()) [[unlikely]]
    throw_too_large(too_large);
  if (count > kMaxDims)
    throw ValueError("a tensor of " + std::to_string(count) + " dimensions, expected at most " +
                     std::to_string(kMaxDims));
  return Shape(std::span(values, count));
}

bool load_sizes(nb::handle object, Sizes& sizes) noexcept {
  if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
    // Reading what is no plain int may call Python, which may change the list: it counts as it is
    // now.
    nb::object kept;
    if (PyList_Check(object.ptr()) && !has_plain_ints(object)) {
      kept = nb::steal(PySequence_Tuple(object.ptr()));
      if (!kept.is_valid()) return PyErr_Clear(), false;
      object = kept;
    }
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object.ptr());
    sizes.count = static_cast<std::size_t>(count);
    for (Py_ssize_t i = 0; i < count && i < kMaxDims; ++i) {
      const nb::handle item = PySequence_Fast_GET_ITEM(object.ptr(), i);
      // A bool counts as an int behind one that is none, as PyTorch has it.
      const auto size = i > 0 && PyBool_Check(item.ptr())
                            ? std::optional<std::int64_t>(item.is(nb::bool_(true)) ? 1 : 0)
                            : index_from(item);
      // What a list has lost by now may not be told of later.
      if (!size && (kept.is_valid() || !load_odd_size(item, sizes))) return false;
      sizes.values[i] = size.value_or(0);
    }
    return true;
  }
  const auto size = index_from(object);
  if (!size && !load_odd_size(object, sizes)) return false;
  sizes.count = 1;
  sizes.values[0] = size.value_or(0);
  return true;
}

Shape shape_of(const nb::args& args, const char* name) {
  Sizes sizes;
  const nb::handle given = args.size() == 1 ? nb::handle(args[0]) : nb::handle(args);
  if (!load_sizes(given, sizes))
    throw TypeError(name + std::string(": expected ints or one sequence of ints, got ") +
                    nb::repr(args).c_str());
  return sizes.shape();
}

void bind_device(nb::module_& m) {
  auto bound = nb::class_<Device>(
      m, "device", "A place where tensors can be: the CPU, or a CUDA device by index.",
      nb::is_final());
  device_class = reinterpret_cast<PyTypeObject*>(bound.ptr());
  bound
      .def(
          "__init__",
          [](Device* self, const std::string& kind, nb::handle index) {
            const auto number = index_from(index);
            if (is_beyond_64_bits(index)) throw_overflow(index);
            if (!number && !index.is_none())
              throw TypeError("device: index: expected an int, got " +
                              std::string(nb::repr(index).c_str()));
            new (self) Device(indexed(kind, number));
          },
          nb::arg("type"), nb::arg("index").none(),
          nb::sig("def __init__(self, type: str, index: int | None) -> None"))
      .def(
          "__init__",
          [](Device* self, const DeviceLike& device) {
            const auto place = device.place();
            if (!place) throw TypeError("device: expected a str, an int or a device, got None");
            new (self) Device(*place);
          },
          nb::arg("device"))
      .def(
          "__init__",
          [](Device* self, const std::string& kind) { new (self) Device(indexed(kind, {})); },
          nb::arg("type"))
      .def_prop_ro("type", [](const Device& self) { return self.is_cuda() ? "cuda" : "cpu"; })
      .def_prop_ro("index",
                   [](const Device& self) {
                     return self.has_index() ? std::optional(self.index()) : std::nullopt;
                   })
      .def("__str__", &Device::str)
      .def("__repr__",
           [](const Device& self) {
             std::string text = std::string("device(type='") + (self.is_cuda() ? "cuda" : "cpu");
             text += "'";
             if (self.has_index()) text += ", index=" + std::to_string(self.index());
             return text + ")";
           })
      .def(
          "__eq__", [](const Device& self, const Device& other) { return self == other; },
          nb::is_operator())
      .def(
          "__ne__", [](const Device& self, const Device& other) { return self != other; },
          nb::is_operator())
      .def("__hash__",
           [](const Device& self) { return (self.is_cuda() ? 1000 : 0) + self.index(); })
      .def(
          "__enter__",
          [](const Device& self) {
            default_device.entered.push_back(self);
            return nb::find(self);
          },
          nb::sig("def __enter__(self) -> device"))
      .def("__reduce__", [](nb::handle self) {
        const auto& device = nb::cast<const Device&>(self);
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr()))),
                              nb::make_tuple(device.str()));
      });
  define_exit(bound, [](Device&) {
    if (!default_device.entered.empty()) default_device.entered.pop_back();
  });
  m.def(
      "set_default_device", [](const DeviceLike& device) { default_device.given = device.place(); },
      nb::arg("device").none(),
      "Where the calling thread makes new tensors unless device= says; None for the CPU. `with "
      "device:` does so for a block.");
  m.def(
      "get_default_device",
      [] {
        const Device device = new_options({}, {}).device.value_or(Device(Device::Type::cpu));
        return device.is_cuda() && !device.has_index()
                   ? Device(Device::Type::cuda, unlocked([] { return cuda::current_device(); }))
                   : device;
      },
      "Where the calling thread makes new tensors.");
}

}  // namespace ember::python
