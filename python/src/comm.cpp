// ember.cuda.comm: tensors between the devices of one process.
#include "ember/comm/comm.h"

#include <vector>

#include "python.h"

namespace ember::python {
namespace {

namespace comm = cuda::comm;

/// What an argument that may be any iterable has in it.
nb::list items_of(nb::handle given, const char* name, const char* expected) {
  const auto items = nb::steal(PyObject_GetIter(given.ptr()));
  if (items.is_valid()) {
    PyObject* const list = PySequence_List(items.ptr());
    if (list == nullptr) throw nb::python_error();  // the iterator's own
    return nb::steal<nb::list>(list);
  }
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
  PyErr_Clear();
  throw TypeError(std::string(name) + ": expected " + expected + ", but got " +
                  Py_TYPE(given.ptr())->tp_name);
}

std::vector<Tensor> tensors_of(const nb::list& list, const char* name) {
  std::vector<Tensor> tensors;
  tensors.reserve(list.size());
  for (const nb::handle item : list) {
    const Tensor* tensor = nullptr;
    if (item.is_none() || !nb::try_cast(item, tensor))
      throw TypeError(std::string(name) + ": expected a sequence of Tensors, but got one with " +
                      Py_TYPE(item.ptr())->tp_name);
    tensors.push_back(*tensor);
  }
  return tensors;
}
nb::list list_of_tensors(nb::handle given, const char* name) {
  return items_of(given, name, "a sequence of Tensors");
}

/// Objects of results; one that is the tensor of `given` at the same position is that very object.
nb::list objects_of(std::vector<Tensor>&& results, const std::vector<Tensor>& tensors,
                    const nb::list& given) {
  nb::list list;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < tensors.size() && results[i].is(tensors[i]))
      list.append(given[i]);
    else
      list.append(nb::cast(std::move(results[i])));
  }
  return list;
}

/// The pieces or copies of a tensor; where they are the tensor itself, its own object.
nb::tuple objects_of(std::vector<Tensor>&& results, const Tensor& argument) {
  nb::list list;
  for (Tensor& result : results)
    list.append(result.is(argument) ? same_object(argument) : nb::cast(std::move(result)));
  return nb::tuple(list);
}

comm::Devices devices_of(nb::handle devices) {
  if (devices.is_none()) return {};
  if (PyUnicode_Check(devices.ptr()))
    throw TypeError("devices: expected a sequence of ints, strs or devices, but got str");
  std::vector<cuda::DeviceArg> list;
  constexpr const char* kExpected = "a sequence of ints, strs or devices";
  for (const nb::handle device : items_of(devices, "devices", kExpected)) {
    if (device.is_none() || !is_device_like(device))
      throw TypeError(std::string("devices: expected ") + kExpected + ", but got one with " +
                      Py_TYPE(device.ptr())->tp_name);
    list.push_back(DeviceLike{device}.arg());
  }
  return list;
}

/// The argument `out`: tensors, or nothing.
struct Out {
  explicit Out(nb::handle out) {
    if (out.is_none()) return;
    given = list_of_tensors(out, "out");
    tensors = tensors_of(given, "out");
  }
  nb::list given;
  comm::Outputs tensors;
};

nb::object broadcast(const Tensor& tensor, nb::handle devices, nb::handle given_out) {
  const comm::Devices where = devices_of(devices);
  const Out out(given_out);
  auto results = unlocked([&] { return comm::broadcast(tensor, where, out.tensors); });
  if (out.tensors) return nb::tuple(out.given);
  return objects_of(std::move(results), tensor);
}

nb::object broadcast_coalesced(nb::handle tensors, nb::handle devices, std::size_t buffer_size) {
  const nb::list given = list_of_tensors(tensors, "tensors");
  const comm::Devices where = devices_of(devices);
  const std::vector<Tensor> inputs = tensors_of(given, "tensors");
  auto results = unlocked([&] { return comm::broadcast_coalesced(inputs, where, buffer_size); });
  nb::list lists;
  for (auto& of_device : results) lists.append(objects_of(std::move(of_device), inputs, given));
  return lists;
}

nb::object reduce_add(nb::handle inputs, const DeviceLike& destination) {
  const nb::list given = list_of_tensors(inputs, "inputs");
  const std::vector<Tensor> tensors = tensors_of(given, "inputs");
  const cuda::DeviceArg where = destination.arg();
  Tensor sum = unlocked([&] { return comm::reduce_add(tensors, where); });
  // A single input is its own sum.
  if (tensors.size() == 1 && sum.is(tensors[0])) return given[0];
  return nb::cast(std::move(sum));
}

nb::object reduce_add_coalesced(nb::handle inputs, const DeviceLike& destination,
                                std::size_t buffer_size) {
  std::vector<std::vector<Tensor>> lists;
  for (const nb::handle list : items_of(inputs, "inputs", "a sequence of sequences of Tensors"))
    lists.push_back(tensors_of(list_of_tensors(list, "inputs"), "inputs"));
  const cuda::DeviceArg where = destination.arg();
  auto results = unlocked([&] { return comm::reduce_add_coalesced(lists, where, buffer_size); });
  return nb::tuple(objects_of(std::move(results), {}, {}));
}

nb::object scatter(const Tensor& tensor, nb::handle devices,
                   const std::optional<std::vector<std::int64_t>>& chunk_sizes, std::int64_t dim,
                   nb::handle streams, nb::handle given_out) {
  const comm::Devices where = devices_of(devices);
  const Out out(given_out);
  comm::Streams list;
  if (!streams.is_none())
    for (const nb::handle stream : items_of(streams, "streams", "a sequence of streams or None"))
      list.push_back(argument<std::optional<cuda::Stream>>(stream, "streams", "streams or None"));
  auto results =
      unlocked([&] { return comm::scatter(tensor, where, chunk_sizes, dim, list, out.tensors); });
  if (out.tensors) return nb::tuple(out.given);
  return objects_of(std::move(results), tensor);
}

comm::Destination destination_of(nb::handle destination) {
  if (destination.is_none()) return {};
  if (!is_device_like(destination))
    throw TypeError(std::string("destination: expected an int, a str or a device, but got ") +
                    Py_TYPE(destination.ptr())->tp_name);
  if (PyLong_Check(destination.ptr())) {
    const cuda::DeviceArg given = DeviceLike{destination}.arg();
    const std::int64_t index = given.index();
    if (index != -1) return index;
    warn_future(
        "Using -1 to represent CPU tensor is deprecated. Please use a device object or string "
        "instead, e.g., \"cpu\".");
    return Device(Device::Type::cpu);
  }
  return DeviceLike{destination}.place().value();
}

nb::object gather(nb::handle tensors, std::int64_t dim, nb::handle destination, Tensor* out) {
  const std::vector<Tensor> inputs = tensors_of(list_of_tensors(tensors, "tensors"), "tensors");
  const comm::Destination where = destination_of(destination);
  const std::optional<Tensor> into = out != nullptr ? std::optional(*out) : std::nullopt;
  Tensor result = unlocked([&] { return comm::gather(inputs, dim, where, into); });
  return out != nullptr ? same_object(*out) : nb::cast(std::move(result));
}

}  // namespace

#define EMBER_TENSORS "collections.abc.Iterable[ember._C.Tensor]"
#define EMBER_DEVICES "collections.abc.Iterable[ember._C.device | int | str]"

void bind_comm(nb::module_& cuda) {
  nb::module_ m = cuda.def_submodule("comm", "Tensors between the devices of one process.");
  m.def("broadcast", &broadcast, nb::arg("tensor"), nb::arg("devices") = nb::none(), nb::kw_only(),
        nb::arg("out") = nb::none(),
        nb::sig("def broadcast(tensor: ember._C.Tensor, devices: " EMBER_DEVICES
                " | None = None, *, out: " EMBER_TENSORS
                " | None = None) -> tuple[ember._C.Tensor, ...]"),
        "A tensor on every device of a list, or in out.");
  m.def("broadcast_coalesced", &broadcast_coalesced, nb::arg("tensors"), nb::arg("devices"),
        nb::arg("buffer_size") = comm::kBufferSize,
        nb::sig("def broadcast_coalesced(tensors: " EMBER_TENSORS ", devices: " EMBER_DEVICES
                ", buffer_size: int = 10485760) -> list[list[ember._C.Tensor]]"),
        "Many tensors on every device of a list; small ones travel together.");
  m.def("reduce_add", &reduce_add, nb::arg("inputs"), nb::arg("destination") = nb::none(),
        nb::sig("def reduce_add(inputs: " EMBER_TENSORS
                ", destination: ember._C.device | int | str | None = None) -> ember._C.Tensor"),
        "The sum of tensors of several devices, where one of them lives.");
  m.def("reduce_add_coalesced", &reduce_add_coalesced, nb::arg("inputs"),
        nb::arg("destination") = nb::none(), nb::arg("buffer_size") = comm::kBufferSize,
        nb::sig("def reduce_add_coalesced(inputs: collections.abc.Iterable[" EMBER_TENSORS
                "], destination: ember._C.device | int | str | None = None, buffer_size: int = "
                "10485760) -> tuple[ember._C.Tensor, ...]"),
        "The same for lists of tensors, one list per device.");
  m.def("scatter", &scatter, nb::arg("tensor"), nb::arg("devices") = nb::none(),
        nb::arg("chunk_sizes") = nb::none(), nb::arg("dim") = 0, nb::arg("streams") = nb::none(),
        nb::kw_only(), nb::arg("out") = nb::none(),
        nb::sig("def scatter(tensor: ember._C.Tensor, devices: " EMBER_DEVICES
                " | None = None, chunk_sizes: collections.abc.Sequence[int] | None = None, dim: "
                "int = 0, streams: collections.abc.Iterable[ember._C.cuda.Stream | None] | None = "
                "None, *, out: " EMBER_TENSORS " | None = None) -> tuple[ember._C.Tensor, ...]"),
        "A tensor in pieces along a dimension, one per device, or in out.");
  m.def("gather", &gather, nb::arg("tensors"), nb::arg("dim") = 0,
        nb::arg("destination") = nb::none(), nb::kw_only(), nb::arg("out") = nb::none(),
        nb::sig("def gather(tensors: " EMBER_TENSORS
                ", dim: int = 0, destination: ember._C.device | int | str | None = None, *, out: "
                "ember._C.Tensor | None = None) -> ember._C.Tensor"),
        "Tensors of several devices as one, along a dimension, on a device, the CPU, or in out.");
}

#undef EMBER_TENSORS
#undef EMBER_DEVICES

}  // namespace ember::python
