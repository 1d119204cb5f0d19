// How exact products are: ember.backends.cuda.matmul; and the handle of cuBLAS.
#include "define.h"

namespace ember::python {
namespace {

namespace of_products = backends::cuda::matmul;

/// Stands for ember.backends.cuda.matmul, whose settings are attributes.
struct MatmulSettings {};

/// An attribute that is a bool, and nothing that is like one; `refuse` says so.
template <class Get, class Set, class Refuse>
void define_switch(nb::class_<MatmulSettings>& settings, const char* name, Get get, Set set,
                   Refuse refuse, const char* doc) {
  const std::string signature = std::string("def ") + name + "(self, value: bool, /) -> None";
  settings.def_prop_rw(
      name, [get](const MatmulSettings&) { return get(); },
      [set, refuse](const MatmulSettings&, nb::handle value) {
        if (!PyBool_Check(value.ptr())) refuse(Py_TYPE(value.ptr())->tp_name);
        set(value.is(nb::handle(Py_True)));
      },
      nb::for_setter(nb::arg("value").none()), nb::for_setter(nb::sig(signature.c_str())),
      nb::for_getter(doc));
}

/// The same for sums of 16-bit floats, where torch's error is another one.
template <class Get, class Set>
void define_sums(nb::class_<MatmulSettings>& settings, const char* name, Get get, Set set,
                 const char* doc) {
  define_switch(
      settings, name, get, set,
      [name](const char* type) {
        throw TypeError(std::string(name) + " expects a bool, but got <class '" + type + "'>");
      },
      doc);
}

}  // namespace

void bind_precision(nb::module_& m, nb::module_& cuda) {
  m.def("get_float32_matmul_precision", &get_float32_matmul_precision,
        "How exact products of float32 are: 'highest', 'high' or 'medium'.");
  m.def(
      "set_float32_matmul_precision",
      [](nb::handle precision) {
        if (!PyUnicode_Check(precision.ptr()))
          throw Error(std::string("set_float32_matmul_precision expects a str, but got ") +
                      Py_TYPE(precision.ptr())->tp_name);
        WarningsRaised warnings;
        set_float32_matmul_precision(nb::cast<std::string>(precision));
        warnings.raise();
      },
      nb::arg("precision"), nb::sig("def set_float32_matmul_precision(precision: str) -> None"),
      "How exact products of float32 are on CUDA devices: 'highest' (float32), 'high' or 'medium' "
      "(factors may be rounded to TF32).");
  nb::class_<MatmulSettings> settings(
      m, "_MatmulSettings", "How exact products of matrices are on CUDA devices, and how quick.");
  define_switch(
      settings, "allow_tf32", &of_products::allow_tf32, &of_products::set_allow_tf32,
      [](const char* type) {
        throw Error(std::string("set_allow_tf32_cublas expects a bool, but got ") + type);
      },
      "Whether factors of float32 may be rounded to TF32.");
  define_sums(settings, "allow_fp16_reduced_precision_reduction",
              &of_products::allow_fp16_reduced_precision_reduction,
              &of_products::set_allow_fp16_reduced_precision_reduction,
              "Whether partial sums of float16 may be added up in float16.");
  define_sums(settings, "allow_bf16_reduced_precision_reduction",
              &of_products::allow_bf16_reduced_precision_reduction,
              &of_products::set_allow_bf16_reduced_precision_reduction,
              "Whether partial sums of bfloat16 may be added up in bfloat16.");
  define_switch(
      settings, "allow_fp16_accumulation", &of_products::allow_fp16_accumulation,
      &of_products::set_allow_fp16_accumulation,
      [](const char* type) {
        throw Error(std::string("set_allow_fp16_accumulation_cublas expects a bool, but got ") +
                    type);
      },
      "Whether products of float16 may be added up in float16 all the way.");
  settings.def_prop_rw(
      "fp32_precision", [](const MatmulSettings&) { return of_products::fp32_precision(); },
      [](const MatmulSettings&, const std::string& value) {
        of_products::set_fp32_precision(value);
      },
      nb::for_getter("The setting of allow_tf32 by another name: 'none', 'ieee' or 'tf32'."));
  m.attr("_matmul_settings") = nb::cast(MatmulSettings());
  m.def(
      "_cuda_clearCublasWorkspaces", [] { unlocked([] { cuda::clear_blas_workspaces(); }); },
      "Gives the workspaces of matrix products back to the caching allocator.");
  cuda.def(
      "current_blas_handle",
      [] {
        return reinterpret_cast<std::uintptr_t>(
            unlocked([] { return cuda::current_blas_handle(); }));
      },
      "The address of a cublasHandle_t of the calling thread, set to its current stream.");
}

}  // namespace ember::python
