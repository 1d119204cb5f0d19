// ember.dtype and its objects: ember.float32 and so on.
#include "python.h"

namespace ember::python {
namespace {

/// Every dtype is one Python object, so that `x.dtype is ember.float32` holds.
struct DtypeObject {
  Dtype dtype;
};

PyObject* objects[kDtypes];
PyTypeObject* dtype_class = nullptr;

struct DtypeAlias {
  const char* name;
  Dtype dtype;
};
constexpr DtypeAlias kDtypeAliases[] = {
    {"half", Dtype::float16},       {"double", Dtype::float64},  {"short", Dtype::int16},
    {"long", Dtype::int64},         {"chalf", Dtype::complex32}, {"cfloat", Dtype::complex64},
    {"cdouble", Dtype::complex128},
};

/// In the module. Names of Python's own types are left to the package, so that the module's stub
/// can use them.
const char* module_name(Dtype dtype) { return dtype == Dtype::bool_ ? "bool_" : dtype_name(dtype); }

}  // namespace

nb::handle dtype_object(Dtype dtype) noexcept { return objects[static_cast<int>(dtype)]; }

std::optional<Dtype> dtype_from(nb::handle object) noexcept {
  if (Py_TYPE(object.ptr()) == dtype_class) return nb::inst_ptr<DtypeObject>(object)->dtype;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return Dtype::float64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return Dtype::int64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyBool_Type)))) return Dtype::bool_;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type)))) return Dtype::complex128;
  return std::nullopt;
}

void bind_dtypes(nb::module_& m) {
  auto bound =
      nb::class_<DtypeObject>(m, "dtype", "The type of a tensor's elements.", nb::is_final());
  bound
      .def("__repr__",
           [](const DtypeObject& self) { return std::string("torch.") + dtype_name(self.dtype); })
      .def("__reduce__", [](const DtypeObject& self) { return module_name(self.dtype); })
      .def_prop_ro("itemsize", [](const DtypeObject& self) { return item_size(self.dtype); })
      .def_prop_ro("is_floating_point",
                   [](const DtypeObject& self) { return is_floating_point(self.dtype); })
      .def_prop_ro("is_complex",
                   [](const DtypeObject& self) { return is_complex_dtype(self.dtype); })
      .def_prop_ro("is_signed", [](const DtypeObject& self) { return is_signed(self.dtype); })
      .def("to_real", [](const DtypeObject& self) { return real_dtype(self.dtype); })
      .def("to_complex", [](const DtypeObject& self) {
        if (is_integral(self.dtype))
          throw Error(std::string("Unknown Complex ScalarType for ") + legacy_name(self.dtype));
        return complex_dtype(self.dtype);
      });
  dtype_class = reinterpret_cast<PyTypeObject*>(bound.ptr());
  for (int i = 0; i < kDtypes; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    objects[i] = nb::cast(DtypeObject{dtype}).release().ptr();  // never freed
    m.attr(module_name(dtype)) = nb::handle(objects[i]);
  }
  for (const DtypeAlias& alias : kDtypeAliases) m.attr(alias.name) = dtype_object(alias.dtype);

  m.def("get_default_dtype", &default_dtype, "The dtype that floating-point numbers get: float32.");
  m.def("promote_types", &promote_types, nb::arg("type1"), nb::arg("type2"),
        "The smallest dtype that holds both.");
  m.def("can_cast", &can_cast, nb::arg("from_"), nb::arg("to"),
        "Whether a result of one dtype may be stored in a tensor of another.");
}

}  // namespace ember::python
