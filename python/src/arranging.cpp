// Tensors as grids, and what is one line of other operations; what numbers of a dtype can be.
#include <cstdio>
#include <string>

#include "define.h"

namespace ember::python {
namespace {

using I = std::int64_t;

void define_meshgrid(nb::module_& m) {
  m.def(
      "meshgrid",
      [](const nb::args& tensors, const std::string& indexing) {
        const bool one_list = tensors.size() == 1 && !nb::isinstance<Tensor>(tensors[0]);
        const nb::object given = one_list ? nb::object(tensors[0]) : nb::object(tensors);
        const auto list = argument<std::vector<Tensor>>(given, "tensors", "tensors");
        return tuple_of(unlocked([&] { return meshgrid(list, indexing); }));
      },
      nb::arg("tensors"), nb::arg("indexing") = "ij",
      nb::sig("def meshgrid(*tensors: Tensor | collections.abc.Sequence[Tensor], indexing: str = "
              "'ij') -> tuple[Tensor, ...]"),
      "Vectors as the coordinates of a grid: views with the sizes of all.");
}

void define_logsumexp(nb::class_<Tensor>& tensor, nb::module_& m) {
  constexpr const char* kDoc = "The logarithm of the sum of exp(x) along dimensions.";
  with_names(
      [&](const auto&, const auto&... named) {
        tensor.def(
            "logsumexp",
            [](const Tensor& self, const Sizes& dims, bool keepdim) {
              return unlocked([&] { return logsumexp(self, dims.shape(), keepdim); });
            },
            named..., kDoc);
        m.def(
            "logsumexp",
            [](const Tensor& input, const Sizes& dims, bool keepdim, Tensor* out) {
              return maybe_into(
                  out, [&] { return logsumexp(input, dims.shape(), keepdim); },
                  [&](Tensor& result) { logsumexp_out(result, input, dims.shape(), keepdim); });
            },
            nb::arg("input"), named..., nb::kw_only(), nb::arg("out") = nb::none(), kDoc);
      },
      kSameNames, nb::arg("dim"), nb::arg("keepdim") = false);
}

void define_diff(nb::class_<Tensor>& tensor, nb::module_& m) {
  using MaybeTensor = std::optional<Tensor>;
  constexpr const char* kDoc =
      "Each element less the one before, n times; prepend and append are set before and behind "
      "first.";
  with_names(
      [&](const auto&, const auto&... named) {
        tensor.def(
            "diff",
            [](const Tensor& self, I n, I dim, const MaybeTensor& prepend,
               const MaybeTensor& append) -> TensorObject {
              return itself_or(self, unlocked([&] { return diff(self, n, dim, prepend, append); }));
            },
            named..., kDoc);
        m.def(
            "diff",
            [](const Tensor& input, I n, I dim, const MaybeTensor& prepend,
               const MaybeTensor& append, Tensor* out) -> TensorObject {
              if (out == nullptr)
                return itself_or(input,
                                 unlocked([&] { return diff(input, n, dim, prepend, append); }));
              return maybe_into(
                  out, [&] { return Tensor(); },
                  [&](Tensor& result) { diff_out(result, input, n, dim, prepend, append); });
            },
            nb::arg("input"), named..., nb::kw_only(), nb::arg("out") = nb::none(), kDoc);
      },
      kSameNames, nb::arg("n") = 1, nb::arg("dim") = -1, nb::arg("prepend") = nb::none(),
      nb::arg("append") = nb::none());
}

/// As printf's %g.
std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

void define_limits(nb::module_& m) {
  nb::class_<FloatLimits>(m, "finfo", "What numbers of a floating-point dtype can be.")
      .def(
          "__init__", [](FloatLimits* self, Dtype dtype) { new (self) FloatLimits(finfo(dtype)); },
          nb::arg("type"))
      .def("__init__", [](FloatLimits* self) { new (self) FloatLimits(finfo()); })
      .def_ro("bits", &FloatLimits::bits)
      .def_ro("eps", &FloatLimits::eps)
      .def_ro("max", &FloatLimits::max)
      .def_ro("min", &FloatLimits::min)
      .def_ro("tiny", &FloatLimits::smallest_normal)
      .def_ro("smallest_normal", &FloatLimits::smallest_normal)
      .def_ro("resolution", &FloatLimits::resolution)
      .def_prop_ro("dtype", [](const FloatLimits& self) { return dtype_name(self.dtype); })
      .def(
          "__eq__",
          [](const FloatLimits& self, const FloatLimits& other) {
            return self.dtype == other.dtype;
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const FloatLimits& self) { return static_cast<int>(self.dtype); })
      .def("__repr__", [](const FloatLimits& self) {
        const std::string normal = text_of(self.smallest_normal);
        return "finfo(resolution=" + text_of(self.resolution) + ", min=" + text_of(self.min) +
               ", max=" + text_of(self.max) + ", eps=" + text_of(self.eps) +
               ", smallest_normal=" + normal + ", tiny=" + normal +
               ", dtype=" + dtype_name(self.dtype) + ")";
      });
  nb::class_<IntegerLimits>(m, "iinfo", "What numbers of an integer dtype can be.")
      .def(
          "__init__",
          [](IntegerLimits* self, Dtype dtype) { new (self) IntegerLimits(iinfo(dtype)); },
          nb::arg("type"))
      .def_ro("bits", &IntegerLimits::bits)
      .def_ro("max", &IntegerLimits::max)
      .def_ro("min", &IntegerLimits::min)
      .def_prop_ro("dtype", [](const IntegerLimits& self) { return dtype_name(self.dtype); })
      .def(
          "__eq__",
          [](const IntegerLimits& self, const IntegerLimits& other) {
            return self.dtype == other.dtype;
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const IntegerLimits& self) { return static_cast<int>(self.dtype); })
      .def("__repr__", [](const IntegerLimits& self) {
        return "iinfo(min=" + text_of(static_cast<double>(self.min)) +
               ", max=" + text_of(static_cast<double>(self.max)) +
               ", dtype=" + dtype_name(self.dtype) + ")";
      });
}

}  // namespace

void bind_arranging(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_meshgrid(m);
  both(
      tensor, m, "tile",
      [](const Tensor& self, const Sizes& dims) {
        return unlocked([&] { return tile(self, dims.shape()); });
      },
      "Side by side several times.", nb::arg("dims"));
  tensor.def("tile", [](const Tensor& self, const nb::args& dims) {
    const Shape counts = shape_of(dims, "dims");
    return unlocked([&] { return tile(self, counts); });
  });
  define_diff(tensor, m);
  both(
      tensor, m, "trace", [](const Tensor& self) { return unlocked([&] { return trace(self); }); },
      "The sum of the main diagonal of a matrix.");
  define_logsumexp(tensor, m);
  define_limits(m);
}

}  // namespace ember::python
