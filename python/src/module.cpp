// The extension module ember._C, with its submodule cuda.
#include "ember/version.h"
#include "python.h"

namespace ember::python {

void warn_future(const char* text) {
  if (PyErr_WarnEx(PyExc_FutureWarning, text, 1) < 0) throw nb::python_error();
}

void warn_user(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw nb::python_error();
}

}  // namespace ember::python

NB_MODULE(_C, m) {
  using namespace ember::python;  // NOLINT
  nb::set_leak_warnings(false);   // dtypes live until the end, as torch's do
  m.doc() = "Tensors and CUDA semantics on real and simulated devices.";
  m.attr("__version__") = EMBER_VERSION_STRING;
  bind_embedding();
  bind_errors(m);
  bind_dtypes(m);
  bind_size(m);
  bind_device(m);
  nb::module_ cuda = m.def_submodule("cuda", "Devices, streams, events and memory.");
  bind_runtime(cuda);
  bind_streams(cuda);
  bind_memory(cuda);
  bind_tensor(m);
  bind_cuda_random(cuda);
  bind_comm(cuda);
}
