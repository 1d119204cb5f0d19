// Names of ember.cuda by which tools ask step by step which devices there are.
#include <string>

#include "define.h"

namespace ember::python {
namespace {

/// Numbers, or prefixes of UUIDs.
nb::object listed(const cuda::VisibleList& list) {
  return list.prefixes.empty() ? nb::cast(list.numbers) : nb::cast(list.prefixes);
}

/// What pynvml calls the device. That module is another one than the library's own NVML, and not
/// there unless somebody has installed it.
nb::object pynvml_handle(const DeviceLike& device) {
  nb::object pynvml;
  try {
    pynvml = nb::module_::import_("pynvml");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    nb::raise_from(error, PyExc_ModuleNotFoundError,
                   "nvidia-ml-py does not seem to be installed or it can't be imported.");
  }
  try {
    pynvml.attr("nvmlInit")();
  } catch (nb::python_error& error) {
    if (!error.matches(pynvml.attr("NVMLError_DriverNotLoaded"))) throw;
    nb::raise_from(error, PyExc_RuntimeError, "cuda driver can't be loaded, is cuda enabled?");
  }
  const cuda::DeviceArg given = device.arg();
  const int index = unlocked([&] {
    const int found = cuda::machine_device_index(given);
    if (cuda::is_simulated())
      throw Error("_get_pynvml_handler: expected a real device, NVML knows no simulated ones");
    return found;
  });
  return pynvml.attr("nvmlDeviceGetHandleByIndex")(index);
}

}  // namespace

void bind_visible(nb::module_& m) {
  m.def(
      "_parse_visible_devices", [] { return listed(cuda::parse_visible_devices()); },
      nb::sig("def _parse_visible_devices() -> list[int] | list[str]"),
      "What CUDA_VISIBLE_DEVICES asks for, whatever the machine has: numbers, or prefixes of "
      "UUIDs.");
  m.def("_transform_uuid_to_ordinals", &cuda::transform_uuid_to_ordinals, nb::arg("candidates"),
        nb::arg("uuids"),
        "The places of the UUIDs that start with the candidates. An unknown or ambiguous one ends "
        "the list, a repeated one empties it.");
  m.def(
      "_raw_device_count_nvml",
      [] { return unlocked([] { return cuda::machine_device_count(); }); },
      "How many devices the machine has; -1 where NVML cannot tell.");
  m.def(
      "_raw_device_uuid_nvml", [] { return unlocked([] { return cuda::machine_uuids(); }); },
      "The UUIDs of the machine's devices; None where NVML cannot tell.");
  m.def(
      "_device_count_nvml", [] { return unlocked([] { return cuda::visible_device_count(); }); },
      "How many devices are visible; -1 where NVML cannot tell.");
  define_for_device(
      m, "_get_nvml_device_index",
      [](cuda::DeviceArg device) { return cuda::machine_device_index(device); },
      "The number of a visible device among all of the machine.");
  m.def("_get_pynvml_handler", &pynvml_handle, nb::arg("device") = nb::none(),
        nb::sig("def _get_pynvml_handler(device: device | int | str | None = None) -> typing.Any"),
        "The handle that the module pynvml has for a real device.");
}

}  // namespace ember::python
