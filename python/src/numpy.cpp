// Arrays of NumPy's, and whatever else offers Python's buffer protocol, as tensors and back; no
// copying on the way. NumPy is imported when it is first needed.
#include <cstring>
#include <memory>

#include "python.h"

namespace ember::python {
namespace {

struct Format {
  Dtype dtype;
  const char* numpy;  ///< the type string of __array_interface__
};
constexpr Format kFormats[] = {
    {Dtype::bool_, "|b1"},     {Dtype::uint8, "|u1"},       {Dtype::int8, "|i1"},
    {Dtype::int16, "<i2"},     {Dtype::int32, "<i4"},       {Dtype::int64, "<i8"},
    {Dtype::float16, "<f2"},   {Dtype::float32, "<f4"},     {Dtype::float64, "<f8"},
    {Dtype::complex64, "<c8"}, {Dtype::complex128, "<c16"}, {Dtype::uint16, "<u2"},
    {Dtype::uint32, "<u4"},    {Dtype::uint64, "<u8"},
};

const char* type_string(Dtype dtype) {
  for (const Format& format : kFormats)
    if (format.dtype == dtype) return format.numpy;
  throw TypeError(std::string("Got unsupported ScalarType ") + legacy_name(dtype));
}

nb::object numpy() { return nb::module_::import_("numpy"); }

/// Releases a buffer of Python's from whatever thread the last tensor goes in.
struct HeldBuffer {
  Py_buffer view{};
  ~HeldBuffer() {
    if (view.obj == nullptr) return;
    if (const LockFromAnywhere lock; lock) PyBuffer_Release(&view);
  }
};

[[noreturn]] void throw_unsupported(nb::handle array) {
  const nb::object name = nb::getattr(array.attr("dtype"), "type", nb::none());
  throw TypeError(
      std::string("can't convert np.ndarray of type ") +
      nb::str(nb::getattr(name, "__module__", nb::str("?"))).c_str() + "." +
      nb::str(nb::getattr(name, "__name__", nb::str("?"))).c_str() +
      ". The only supported types are: float64, float32, float16, complex64, "
      "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.");
}

Dtype dtype_of_array(nb::handle array) {
  const nb::object type = array.attr("dtype");
  const std::string text = nb::cast<std::string>(type.attr("str"));
  for (const Format& format : kFormats)
    if (text == format.numpy) return format.dtype;
  if (text.size() > 1 && text[0] == '>') {
    for (const Format& format : kFormats)
      if (text.substr(1) == format.numpy + 1)
        throw ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported.");
  }
  throw_unsupported(array);
}

/// Once per process, as torch does: whoever gets arrays of this kind gets many.
void warn_read_only() {
  static bool warned = false;  // guarded by Python's lock
  if (std::exchange(warned, true)) return;
  warn_user(
      "The given NumPy array is not writable, and tensors have no such state: writing to the "
      "tensor would write to the array. Copy the array, or the tensor, before writing to it. This "
      "warning comes once.");
}

/// The array's own memory as a tensor, which keeps the array.
Tensor share(nb::handle array, bool warn = false) {
  const Dtype dtype = dtype_of_array(array);
  auto held = std::make_shared<HeldBuffer>();
  if (PyObject_GetBuffer(array.ptr(), &held->view, PyBUF_STRIDED_RO) != 0) {
    held->view.obj = nullptr;
    throw nb::python_error();
  }
  const Py_buffer& view = held->view;
  if (warn && view.readonly != 0) warn_read_only();
  const auto item = static_cast<std::int64_t>(item_size(dtype));
  Shape sizes;
  Shape strides;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.strides[i] < 0)
      throw ValueError(
          "At least one stride in the given numpy array is negative, and tensors with negative "
          "strides are not currently supported. (You can probably work around this by making a "
          "copy of your array  with array.copy().) ");
    if (view.strides[i] % item != 0)
      throw ValueError(
          "given numpy array strides not a multiple of the element byte size. Copy the numpy "
          "array to reallocate the memory.");
    sizes.push_back(view.shape[i]);
    strides.push_back(view.strides[i] / item);
  }
  return from_blob(
      view.buf, sizes, dtype, [held] {}, strides);
}

bool is_array(nb::handle object) {
  // Without NumPy in the process there are no arrays.
  const nb::dict modules = nb::borrow<nb::dict>(PyImport_GetModuleDict());
  if (!modules.contains("numpy")) return false;
  return PyObject_IsInstance(object.ptr(), nb::object(modules["numpy"].attr("ndarray")).ptr()) == 1;
}

/// What NumPy asks for a tensor's memory. A tensor object of its own, which nobody can redirect.
struct SharedMemory {
  Tensor tensor;
};

nb::dict array_interface(const Tensor& tensor) {
  nb::list sizes;
  nb::list strides;
  for (int i = 0; i < tensor.dim(); ++i) {
    sizes.append(tensor.sizes()[i]);
    strides.append(tensor.strides()[i] * static_cast<std::int64_t>(tensor.element_size()));
  }
  nb::dict about;
  about["version"] = 3;
  about["shape"] = nb::tuple(sizes);
  about["strides"] = nb::tuple(strides);
  about["typestr"] = type_string(tensor.dtype());
  unlocked([] {
    cuda::settle_deferred();
    cuda::Batch::hand_over();
  });
  about["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.address()), false);
  return about;
}

/// The tensor's memory as an array, which keeps the tensor's memory.
nb::object to_numpy(const Tensor& self) {
  require_cpu_for_numpy(self);
  const char* type = type_string(self.dtype());
  if (self.numel() == 0) return numpy().attr("empty")(self.sizes(), type);
  tell_exposed(self, "numpy");
  return numpy().attr("asarray")(SharedMemory{self.alias()});
}

Dtype dtype_of_text(const std::string& text) {
  for (const Format& format : kFormats)
    if (text == format.numpy) return format.dtype;
  throw TypeError("__cuda_array_interface__: typestr: got '" + text +
                  "', expected that of a dtype, such as '<f4'");
}

/// The strides of the protocol, which are bytes, in elements; nothing for an array without gaps.
std::optional<Shape> strides_from(const nb::dict& about, std::int64_t item) {
  const nb::object given = about.attr("get")("strides");
  if (given.is_none()) return std::nullopt;
  Shape strides;
  for (const auto bytes :
       argument<std::vector<std::int64_t>>(given, "strides", "a tuple of ints or None")) {
    if (bytes % item != 0)
      throw ValueError("__cuda_array_interface__: strides: got " + std::to_string(bytes) +
                       " bytes, expected a multiple of the element's " + std::to_string(item));
    strides.push_back(bytes / item);
  }
  return strides;
}

/// Work that is enqueued from now on comes after what the owner's stream holds.
void wait_for_owner(const nb::dict& about, const Device& device) {
  const nb::object given = about.attr("get")("stream");
  if (given.is_none()) return;
  const auto handle = argument<std::uintptr_t>(given, "stream", "an int or None");
  unlocked([&] {
    // 1 stands for the default stream.
    const cuda::ExternalStream owner(
        reinterpret_cast<void*>(handle == 1 ? 0 : handle),  // NOLINT(performance-no-int-to-ptr)
        device);
    cuda::current_stream(device).wait_stream(owner);
  });
}

/// A tensor over the memory of an object with `__cuda_array_interface__`, which it keeps; nothing
/// for other objects.
std::optional<Tensor> cuda_array_from(nb::handle object) {
  if (PyType_Check(object.ptr()) != 0 || !nb::hasattr(object, "__cuda_array_interface__"))
    return std::nullopt;
  if (unlocked([] { return cuda::device_count() > 0 && cuda::is_simulated(); }))
    throw TypeError(std::string("a ") + Py_TYPE(object.ptr())->tp_name +
                    " offers its memory by __cuda_array_interface__ alone, which is that of a real "
                    "GPU, and the devices here are simulated: copy it to the host first, such as "
                    "by its get() or copy_to_host()");
  const auto about = argument<nb::dict>(nb::object(object.attr("__cuda_array_interface__")),
                                        "__cuda_array_interface__", "a dict");
  if (!about.attr("get")("mask").is_none())
    throw TypeError("__cuda_array_interface__: mask: got one, expected None");
  const Dtype dtype = dtype_of_text(nb::cast<std::string>(about["typestr"]));
  Shape sizes;
  for (const auto size :
       argument<std::vector<std::int64_t>>(about["shape"], "shape", "a tuple of ints"))
    sizes.push_back(size);
  const auto strides = strides_from(about, static_cast<std::int64_t>(item_size(dtype)));
  const auto place =
      argument<std::pair<std::uintptr_t, bool>>(about["data"], "data", "an address and a bool");
  auto* const data = reinterpret_cast<void*>(place.first);  // NOLINT(performance-no-int-to-ptr)
  const Device device(Device::Type::cuda, unlocked([&] {
                        return data == nullptr ? cuda::current_device()
                                               : cuda::device_of_pointer(data);
                      }));
  wait_for_owner(about, device);
  // Whoever lets the last tensor go need not have Python's lock.
  auto release = [kept = nb::object(nb::borrow(object)).release().ptr()] {
    if (const LockFromAnywhere lock; lock) Py_DECREF(kept);
  };
  return from_blob(data, sizes, Options(dtype, device), release, strides);
}

}  // namespace

void tell_exposed(const Tensor& tensor, const char* name) {
  if (!cuda::observed()) [[likely]]
    return;
  unlocked([&] { ops::tell_exposed(name, tensor); });
}

void require_cpu_for_numpy(const Tensor& tensor) {
  if (tensor.is_cuda())
    throw TypeError("can't convert " + tensor.device().str() +
                    " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                    "memory first.");
}

std::optional<Tensor> array_from(nb::handle object) {
  if (!is_array(object)) return std::nullopt;
  // Negative strides and the like are no obstacle where the elements are copied anyway.
  nb::object array = numpy().attr("ascontiguousarray")(object);
  if (nb::cast<int>(object.attr("ndim")) == 0) array = array.attr("reshape")(nb::tuple());
  return share(array);
}

void bind_numpy(nb::class_<Tensor>& tensor, nb::module_& m) {
  nb::class_<SharedMemory>(m, "_SharedMemory", "The owner of an array's memory.")
      .def_prop_ro("__array_interface__",
                   [](const SharedMemory& self) { return array_interface(self.tensor); });
  tensor
      .def(
          "numpy",
          [](const Tensor& self, bool force) {
            return to_numpy(force ? unlocked([&] { return self.cpu(); }) : self);
          },
          nb::kw_only(), nb::arg("force") = false,
          nb::sig("def numpy(self, *, force: bool = False) -> typing.Any"),
          "A NumPy array over the same memory; of a copy on the CPU if force and need be.")
      .def(
          "__array__",
          [](const Tensor& self, nb::handle dtype, nb::handle copy) -> nb::object {
            const nb::object array = to_numpy(self);
            const nb::object wanted =
                dtype.is_none() ? nb::none() : nb::object(numpy().attr("dtype")(dtype));
            if (!wanted.is_none() && !array.attr("dtype").equal(wanted)) {
              if (copy.is(Py_False))
                throw ValueError("__array__: a dtype other than the tensor's needs a copy");
              return array.attr("astype")(wanted);
            }
            // In the order of the strides, as NumPy copies arrays of its own.
            return copy.is(Py_True) ? nb::object(array.attr("copy")("K")) : array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                  "typing.Any"))
      // NumPy's operators leave operands of ours to ours; what its functions make of tensors is a
      // tensor again.
      .def_prop_ro_static("__array_priority__", [](nb::handle) { return 1000; })
      .def(
          "__array_wrap__",
          [](const Tensor&, nb::handle array, nb::handle, bool) {
            return share(numpy().attr("asarray")(array));
          },
          nb::arg("array"), nb::arg("context") = nb::none(), nb::arg("return_scalar") = false,
          nb::sig("def __array_wrap__(self, array: typing.Any, context: typing.Any = None, "
                  "return_scalar: bool = False) -> Tensor"))
      .def_prop_ro(
          "__cuda_array_interface__",
          [](const Tensor& self) {
            if (!self.is_cuda())
              throw nb::attribute_error(
                  "Can't get __cuda_array_interface__ on non-CUDA tensor. If CUDA data is required "
                  "use tensor.cuda() to copy tensor to device memory.");
            if (cuda::is_simulated())
              throw nb::attribute_error(
                  "Can't get __cuda_array_interface__ on a tensor of a simulated device: no CUDA "
                  "library can use its memory. Use tensor.cpu() or tensor.cpu().numpy().");
            nb::dict about = array_interface(self);
            if (self.is_contiguous()) about["strides"] = nb::none();
            // 1 stands for the default stream.
            const auto stream =
                reinterpret_cast<std::uintptr_t>(cuda::current_stream(self.device()).native());
            about["stream"] = stream == 0 ? 1 : stream;
            return about;
          },
          "Version 3 of the protocol. AttributeError on the CPU and on simulated devices.");
  m.def(
      "from_numpy",
      [](nb::handle ndarray) {
        if (!is_array(ndarray))
          throw TypeError(std::string("expected np.ndarray (got ") +
                          Py_TYPE(ndarray.ptr())->tp_name + ")");
        return share(ndarray, true);
      },
      nb::arg("ndarray").none(), nb::sig("def from_numpy(ndarray: typing.Any) -> Tensor"),
      "A tensor over the same memory. Arrays with negative strides are refused with ValueError: "
      "pass a copy. The first that is not writable is a UserWarning.");
  m.def(
      "as_tensor",
      [](nb::object data, std::optional<Dtype> dtype, const DeviceLike& device) -> nb::object {
        const Options options = new_options(dtype, device);
        if (!nb::isinstance<Tensor>(data)) {
          if (is_array(data)) {
            data = nb::cast(share(data, true));
          } else if (auto other = dlpack_from(data)) {
            data = nb::cast(std::move(*other));
          } else if (auto array = cuda_array_from(data)) {
            data = nb::cast(std::move(*array));
          } else {
            return nb::cast(tensor_from(data, options));
          }
        }
        const auto& given = nb::cast<const Tensor&>(data);
        Tensor made = unlocked([&] { return given.to(options); });
        return made.is(given) ? data : nb::cast(std::move(made));
      },
      nb::arg("data").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def as_tensor(data: typing.Any, dtype: dtype | None = None, device: device | int | "
              "str | None = None) -> Tensor"),
      "The same as tensor, but shares memory with arrays and what has __dlpack__ or "
      "__cuda_array_interface__, and returns tensors as they are, where neither dtype nor device "
      "change.");
}

}  // namespace ember::python
