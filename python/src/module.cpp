// The extension module ember._C, with its submodule cuda.
#include "ember/base/team.h"
#include "ember/version.h"
#include "python.h"

namespace ember::python {

void warn_future(const char* text) {
  if (PyErr_WarnEx(PyExc_FutureWarning, text, 1) < 0) throw nb::python_error();
}

void warn_user(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw nb::python_error();
}

namespace {

/// What the package's modules answer for names that they do not have.
[[noreturn]] void refuse_name(const std::string& module, const std::string& name) {
  std::string text = "module '" + module + "' has no attribute '" + name + "'";
  if (!name.starts_with("_"))
    text +=
        ". If torch has it, it is not in ember yet: docs/coverage.md and docs/operations.md list "
        "what is, docs/differences.md what will not be";
  throw nb::attribute_error(text.c_str());
}

}  // namespace

}  // namespace ember::python

NB_MODULE(_C, m) {
  using namespace ember::python;  // NOLINT
  nb::set_leak_warnings(false);   // dtypes live until the end, as torch's do
  m.doc() = "Tensors and CUDA semantics on real and simulated devices.";
  m.attr("__version__") = EMBER_VERSION_STRING;
  m.def("_refuse_name", &refuse_name);
  m.def("get_num_threads", &ember::get_num_threads,
        "How many threads an operation on CPU tensors uses at most.");
  m.def("set_num_threads", &ember::set_num_threads, nb::arg("threads"),
        "Sets how many threads an operation on CPU tensors uses at most. ValueError unless it is "
        "positive.");
  bind_embedding();
  bind_errors(m);
  bind_dtypes(m);
  bind_size(m);
  bind_device(m);
  nb::module_ cuda = m.def_submodule("cuda", "Devices, streams, events and memory.");
  bind_runtime(cuda);
  bind_streams(cuda);
  bind_memory(cuda);
  bind_pools(cuda);
  bind_integrations(cuda);
  bind_fuse(m);
  bind_graphs(cuda);
  bind_history(cuda);
  bind_tensor(m);
  bind_cuda_random(cuda);
  bind_comm(cuda);
  bind_tools(m, cuda);
  bind_nvtx(cuda);
  bind_telemetry(cuda);
  bind_visible(cuda);
  bind_top(cuda);
  bind_sanitizer(cuda);
  bind_sim(m);
  bind_timeline(cuda);
  bind_sync_debug(cuda);
  bind_recent_launches(cuda);
  bind_precision(m, cuda);
  bind_fft_plans(cuda);
  bind_jiterator(cuda);
  bind_ops(m);
}
