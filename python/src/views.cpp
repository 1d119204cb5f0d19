// Views: other sizes and strides over the same memory. As methods, and most of them as functions.
#include "ember/tensor/views.h"

#include "define.h"
#include "ember/ops/factories.h"

namespace ember::python {
namespace {

nb::typed<nb::tuple, Tensor, nb::ellipsis> to_tuple(std::vector<Tensor> tensors) {
  nb::list list;
  for (Tensor& tensor : tensors) list.append(std::move(tensor));
  return nb::tuple(list);
}

// What is neither a number of pieces nor a list of indices is no such overload: a bool, an array, a
// tensor with dimensions.

std::int64_t sections_of(nb::handle given) {
  const Tensor* tensor = nullptr;
  if (PyBool_Check(given.ptr()) ||
      (nb::try_cast(given, tensor) && (tensor->dim() != 0 || tensor->dtype() == Dtype::bool_)))
    throw nb::next_overload();
  if (const auto number = index_from(given)) return *number;
  throw nb::next_overload();
}
std::vector<std::int64_t> indices_of(nb::handle given) {
  if (!PyList_Check(given.ptr()) && !PyTuple_Check(given.ptr())) throw nb::next_overload();
  std::vector<std::int64_t> indices;
  for (const nb::handle one : given) {
    const auto index = PyBool_Check(one.ptr()) ? std::nullopt : index_from(one);
    if (!index) throw nb::next_overload();
    indices.push_back(*index);
  }
  return indices;
}

/// hsplit and its relatives; `call` takes a number or indices.
template <class Call>
void bind_split(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, const char* doc,
                Call call) {
  both_as(
      tensor, m, name, "sections: int) -> tuple[Tensor, ...]",
      [call](const Tensor& self, nb::handle sections) {
        return to_tuple(call(self, sections_of(sections)));
      },
      doc, nb::arg("sections"));
  both_as(
      tensor, m, name, "indices: collections.abc.Sequence[int]) -> tuple[Tensor, ...]",
      [call](const Tensor& self, nb::handle indices) {
        return to_tuple(call(self, indices_of(indices)));
      },
      "", nb::arg("indices"));
  // x.hsplit(1, 3), as in torch of methods only.
  tensor.def(
      name,
      [call](const Tensor& self, const nb::args& indices) {
        if (indices.size() == 0) throw nb::next_overload();
        return to_tuple(call(self, indices_of(indices)));
      },
      nb::sig(
          ("def " + std::string(name) + "(self, *indices: int) -> tuple[Tensor, ...]").c_str()));
}

/// Pieces at even distances, and at given indices; windows.
void bind_splits(nb::class_<Tensor>& tensor, nb::module_& m) {
  using I = std::int64_t;
  both(
      tensor, m, "tensor_split",
      [](const Tensor& self, const Tensor& given, I dim) {
        return to_tuple(tensor_split(self, given, dim));
      },
      "So many pieces along a dimension, the first ones longer by one where need be, or pieces "
      "that end at indices.",
      nb::arg("tensor_indices_or_sections"), nb::arg("dim") = 0);
  both_as(
      tensor, m, "tensor_split", "sections: int, dim: int = 0) -> tuple[Tensor, ...]",
      [](const Tensor& self, nb::handle sections, I dim) {
        return to_tuple(tensor_split(self, sections_of(sections), dim));
      },
      "", nb::arg("sections"), nb::arg("dim") = 0);
  both_as(
      tensor, m, "tensor_split",
      "indices: collections.abc.Sequence[int], dim: int = 0) -> tuple[Tensor, ...]",
      [](const Tensor& self, nb::handle indices, I dim) {
        return to_tuple(tensor_split(self, indices_of(indices), dim));
      },
      "", nb::arg("indices"), nb::arg("dim") = 0);
  bind_split(tensor, m, "hsplit", "tensor_split of the columns, in equal pieces.",
             [](const Tensor& x, const auto& at) { return hsplit(x, at); });
  bind_split(tensor, m, "vsplit", "tensor_split of the rows, in equal pieces.",
             [](const Tensor& x, const auto& at) { return vsplit(x, at); });
  bind_split(tensor, m, "dsplit", "tensor_split of the third dimension, in equal pieces.",
             [](const Tensor& x, const auto& at) { return dsplit(x, at); });
  tensor.def(
      "unfold",
      [](const Tensor& self, I dimension, I size, I step) {
        return unfold(self, dimension, size, step);
      },
      nb::arg("dimension"), nb::arg("size"), nb::arg("step"),
      "Windows along a dimension, whose elements are a last one; they may overlap.");
}

/// What changes the tensor object itself.
void bind_views_in_place(nb::class_<Tensor>& tensor) {
  using I = std::int64_t;
  const std::pair<const char*, std::array<const char*, 2>> exchanges[] = {
      {"transpose_", {"dim0", "dim1"}},
      {"swapdims_", {"dim0", "dim1"}},
      {"swapaxes_", {"axis0", "axis1"}}};
  for (const auto& [name, dims] : exchanges)
    tensor.def(
        name, [](Tensor& self, I dim0, I dim1) { return same_object(self.transpose_(dim0, dim1)); },
        nb::arg(dims[0]), nb::arg(dims[1]),
        nb::sig(("def " + std::string(name) + "(self, " + dims[0] + ": int, " + dims[1] +
                 ": int) -> Tensor")
                    .c_str()),
        "transpose, of this tensor object.");
  tensor.def(
      "t_", [](Tensor& self) { return same_object(self.t_()); }, nb::sig("def t_(self) -> Tensor"),
      "t, of this tensor object.");
  const auto in_place = [&](const char* name, const char* rest, const auto& call, const char* doc,
                            const auto&... extra) {
    const std::string signature = "def " + std::string(name) + "(self, " + rest + ") -> Tensor";
    with_names(
        [&](const auto& rename, const auto&... named) {
          tensor.def(name, call, doc, named..., nb::sig(rename(signature).c_str()));
        },
        kSameNames, extra...);
  };
  in_place(
      "squeeze_", "dim: int | None = None",
      [](Tensor& self, std::optional<I> dim) {
        return same_object(dim ? self.squeeze_(*dim) : self.squeeze_());
      },
      "squeeze, of this tensor object.", nb::arg("dim") = nb::none());
  in_place(
      "squeeze_", "dim: collections.abc.Sequence[int]",
      [](Tensor& self, const Sizes& dims) { return same_object(self.squeeze_(dims.shape())); }, "",
      nb::arg("dim"));
  tensor.def("squeeze_", [](Tensor& self, const nb::args& dims) {
    return same_object(self.squeeze_(shape_of(dims)));
  });
  in_place(
      "unsqueeze_", "dim: int",
      [](Tensor& self, I dim) { return same_object(self.unsqueeze_(dim)); },
      "unsqueeze, of this tensor object.", nb::arg("dim"));
}

bool is_list(nb::handle given) { return PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()); }

std::vector<Tensor> tensors_among(const nb::tuple& given, const char* name) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor* tensor = nullptr;
    if (!nb::try_cast(nb::handle(given[i]), tensor) || tensor == nullptr)
      throw TypeError(std::string(name) + "(): expected Tensor as element " + std::to_string(i) +
                      " in argument 0, but got " + Py_TYPE(nb::handle(given[i]).ptr())->tp_name);
    tensors.push_back(*tensor);
  }
  return tensors;
}

/// Functions of any number of tensors or sizes.
void bind_together(nb::module_& m) {
  const auto at_least = [&](const char* name, Tensor (*one)(const Tensor&),
                            std::vector<Tensor> (*several)(std::span<const Tensor>),
                            const char* doc) {
    m.def(
        name, [one](const Tensor& x) -> TensorObject { return itself_or(x, one(x)); },
        nb::sig(("def " + std::string(name) + "(input: Tensor, /) -> Tensor").c_str()), doc);
    // None, or two at least.
    m.def(
        name,
        [name, several](const nb::args& tensors) {
          if (tensors.size() == 1 && is_list(tensors[0])) throw nb::next_overload();
          return to_tuple(several(tensors_among(tensors, name)));
        },
        nb::sig(("def " + std::string(name) +
                 "(first: Tensor, second: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]")
                    .c_str()));
    m.def(
        name,
        [name, several](const nb::object& tensors) {
          return to_tuple(several(tensors_among(nb::tuple(tensors), name)));
        },
        nb::sig(("def " + std::string(name) +
                 "(tensors: collections.abc.Sequence[Tensor], /) -> tuple[Tensor, ...]")
                    .c_str()));
  };
  at_least("atleast_1d", &atleast_1d, &atleast_1d, "With one dimension at least.");
  at_least("atleast_2d", &atleast_2d, &atleast_2d,
           "With two dimensions at least: a vector is a row.");
  at_least("atleast_3d", &atleast_3d, &atleast_3d,
           "With three dimensions at least: a vector is in the middle, a matrix in front.");
  m.def(
      "broadcast_tensors",
      [](const nb::args& tensors) {
        return to_tuple(broadcast_tensors(tensors_among(tensors, "broadcast_tensors")));
      },
      nb::sig("def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]"),
      "Views of all, in the sizes that they have together.");
  m.def(
      "broadcast_shapes",
      [](const nb::args& shapes) {
        std::vector<Shape> all;
        for (const nb::handle shape : shapes)
          all.push_back(argument<Sizes>(shape, "shapes", "an int or a sequence of ints").shape());
        return broadcast_shapes(all);
      },
      nb::sig("def broadcast_shapes(*shapes: int | collections.abc.Sequence[int]) -> Size"),
      "The sizes that tensors of these sizes have together.");
}

}  // namespace

void bind_views(nb::class_<Tensor>& tensor, nb::module_& m) {
  using I = std::int64_t;
  bind_views_in_place(tensor);
  bind_together(m);
  both(
      tensor, m, "transpose",
      [](const Tensor& self, I dim0, I dim1) { return self.transpose(dim0, dim1); },
      "Two dimensions exchanged.", nb::arg("dim0"), nb::arg("dim1"));
  both(
      tensor, m, "swapaxes",
      [](const Tensor& self, I dim0, I dim1) { return self.transpose(dim0, dim1); },
      "The same as transpose.", nb::arg("axis0"), nb::arg("axis1"));
  both(
      tensor, m, "swapdims",
      [](const Tensor& self, I dim0, I dim1) { return self.transpose(dim0, dim1); },
      "The same as transpose.", nb::arg("dim0"), nb::arg("dim1"));
  both(
      tensor, m, "t", [](const Tensor& self) { return self.t(); },
      "At most two dimensions, exchanged.");
  both(
      tensor, m, "adjoint",
      [](const Tensor& self) -> TensorObject {
        return itself_or(self, unlocked([&] { return self.adjoint(); }));
      },
      "The last two dimensions exchanged, conjugated.");
  both(
      tensor, m, "select",
      [](const Tensor& self, I dim, I index) { return self.select(dim, index); },
      "One index along a dimension, which goes.", nb::arg("dim"), nb::arg("index"));
  both(
      tensor, m, "narrow",
      [](const Tensor& self, I dim, I start, I length) { return self.narrow(dim, start, length); },
      "A range along a dimension.", nb::arg("dim"), nb::arg("start"), nb::arg("length"));
  both(
      tensor, m, "flatten",
      [](const Tensor& self, I start, I end) -> TensorObject {
        return itself_or(self, unlocked([&] { return self.flatten(start, end); }));
      },
      "A run of dimensions as one; a view where possible.", nb::arg("start_dim") = 0,
      nb::arg("end_dim") = -1);
  both(
      tensor, m, "squeeze",
      [](const Tensor& self, std::optional<I> dim) {
        return dim ? self.squeeze(*dim) : self.squeeze();
      },
      "Without dimensions of size one, or only without those given.", nb::arg("dim") = nb::none());
  both(
      tensor, m, "squeeze",
      [](const Tensor& self, const Sizes& dims) { return self.squeeze(dims.shape()); }, "",
      nb::arg("dim"));
  both(
      tensor, m, "unsqueeze", [](const Tensor& self, I dim) { return self.unsqueeze(dim); },
      "A new dimension of size one.", nb::arg("dim"));
  both(
      tensor, m, "permute",
      [](const Tensor& self, const Sizes& dims) { return self.permute(dims.shape()); },
      "The dimensions in another order.", nb::arg("dims"));
  for (const char* name : {"movedim", "moveaxis"}) {
    constexpr const char* kDoc = "Some dimensions at other places; the others keep their order.";
    both(
        tensor, m, name,
        [](const Tensor& self, I source, I destination) {
          return self.movedim(source, destination);
        },
        kDoc, nb::arg("source"), nb::arg("destination"));
    both(
        tensor, m, name,
        [](const Tensor& self, const std::vector<I>& source, const std::vector<I>& destination) {
          return self.movedim(source, destination);
        },
        kDoc, nb::arg("source"), nb::arg("destination"));
  }
  both(
      tensor, m, "ravel", [](const Tensor& self) { return unlocked([&] { return self.ravel(); }); },
      "All dimensions as one; a view where possible, else a copy.");
  both(
      tensor, m, "unflatten",
      [](const Tensor& self, I dim, const Sizes& sizes) {
        return self.unflatten(dim, sizes.shape());
      },
      "One dimension as several, of which one size may be -1.", nb::arg("dim"), nb::arg("sizes"));
  both(
      tensor, m, "broadcast_to",
      [](const Tensor& self, const Sizes& size) { return self.broadcast_to(size.shape()); },
      "expand().", nb::arg("size"));
  tensor.def("broadcast_to", [](const Tensor& self, const nb::args& size) {
    return self.broadcast_to(shape_of(size));
  });
  both(
      tensor, m, "reshape",
      [](const Tensor& self, const Sizes& shape) {
        return unlocked([&] { return self.reshape(shape.shape()); });
      },
      "Other sizes; a view where possible, else a copy.", nb::arg("shape"));
  both(
      tensor, m, "as_strided",
      [](const Tensor& self, const Sizes& size, const Sizes& stride, std::optional<I> offset) {
        return self.as_strided(size.shape(), stride.shape(), offset);
      },
      "Any sizes and strides over the same storage.", nb::arg("size"), nb::arg("stride"),
      nb::arg("storage_offset") = nb::none());
  both(
      tensor, m, "chunk",
      [](const Tensor& self, I chunks, I dim) { return to_tuple(self.chunk(chunks, dim)); },
      "At most so many pieces along a dimension, all but the last of one size.", nb::arg("chunks"),
      nb::arg("dim") = 0);
  const auto split = [](const Tensor& self, nb::handle size, I dim) {
    if (const auto one = index_from(size)) return to_tuple(self.split(*one, dim));
    if (is_beyond_64_bits(size)) throw_overflow(size);
    return to_tuple(self.split(
        argument<std::vector<I>>(size, "split_size", "an int or a sequence of ints"), dim));
  };
  tensor.def("split", split, "Pieces of a size, or of several sizes, along a dimension.",
             nb::arg("split_size"), nb::arg("dim") = 0,
             nb::sig("def split(self, split_size: int | collections.abc.Sequence[int], dim: int = "
                     "0) -> tuple[Tensor, ...]"));
  m.def("split", split, "Pieces of a size, or of several sizes, along a dimension.",
        nb::arg("tensor"), nb::arg("split_size_or_sections"), nb::arg("dim") = 0,
        nb::sig("def split(tensor: Tensor, split_size_or_sections: int | "
                "collections.abc.Sequence[int], dim: int = 0) -> tuple[Tensor, ...]"));
  bind_splits(tensor, m);
  both(
      tensor, m, "unbind", [](const Tensor& self, I dim) { return to_tuple(self.unbind(dim)); },
      "The slices along a dimension.", nb::arg("dim") = 0);
  both(
      tensor, m, "diagonal",
      [](const Tensor& self, I offset, I dim1, I dim2) {
        return self.diagonal(offset, dim1, dim2);
      },
      "The diagonal of two dimensions, as the last one.", nb::arg("offset") = 0,
      nb::arg("dim1") = 0, nb::arg("dim2") = 1);
  m.def(
      "view_as_real", [](const Tensor& self) { return self.view_as_real(); }, nb::arg("input"),
      "Complex numbers as a last dimension of two.");
  m.def(
      "view_as_complex", [](const Tensor& self) { return self.view_as_complex(); },
      nb::arg("input"), "A last dimension of two as complex numbers.");

  both(
      tensor, m, "detach", [](const Tensor& self) { return self.detach(); },
      "A new tensor object with the same elements.");
  both_as(
      tensor, m, "detach_", ") -> Tensor", [](Tensor& self) { return same_object(self); },
      "The tensor itself.");
  const auto real = [](const Tensor& input) -> TensorObject {
    return itself_or(input, input.real());
  };
  const auto imag = [](const Tensor& input) { return input.imag(); };
  m.def("real", real, nb::arg("input"), "The real parts; a view, or the tensor itself.");
  m.def("imag", imag, nb::arg("input"), "The imaginary parts, as a view.");

  // Sizes one by one.
  tensor
      .def("permute", [](const Tensor& self,
                         const nb::args& dims) { return self.permute(shape_of(dims, "dims")); })
      .def("squeeze", [](const Tensor& self,
                         const nb::args& dims) { return self.squeeze(shape_of(dims, "dim")); })
      .def("reshape",
           [](const Tensor& self, const nb::args& shape) {
             const Shape sizes = shape_of(shape, "shape");
             return unlocked([&] { return self.reshape(sizes); });
           })
      .def(
          "view", [](const Tensor& self, const Sizes& size) { return self.view(size.shape()); },
          nb::arg("size"), "Other sizes over the same elements; an error where that needs a copy.")
      .def(
          "view", [](const Tensor& self, Dtype dtype) { return self.view(dtype); },
          nb::arg("dtype"), nb::sig("def view(self, dtype: dtype) -> Tensor"),
          "The same bytes as elements of another dtype; the last dimension becomes longer or "
          "shorter where those have another size.")
      .def("view",
           [](const Tensor& self, const nb::args& size) { return self.view(shape_of(size)); })
      .def(
          "view_as",
          [](const Tensor& self, const Tensor& other) { return self.view(other.sizes()); },
          nb::arg("other"))
      .def(
          "reshape_as",
          [](const Tensor& self, const Tensor& other) {
            return unlocked([&] { return self.reshape(other.sizes()); });
          },
          nb::arg("other"))
      .def(
          "expand", [](const Tensor& self, const Sizes& size) { return self.expand(size.shape()); },
          nb::arg("size"), "Dimensions of size one repeated, without copying; -1 keeps a size.")
      .def("expand",
           [](const Tensor& self, const nb::args& size) { return self.expand(shape_of(size)); })
      .def(
          "expand_as",
          [](const Tensor& self, const Tensor& other) { return self.expand_as(other); },
          nb::arg("other"))
      .def_prop_rw(
          "data", [](const Tensor& self) { return self.alias(); },
          [](Tensor& self, nb::handle source) {
            if (!nb::isinstance<Tensor>(source))
              throw TypeError(std::string("Variable data has to be a tensor, but got ") +
                              Py_TYPE(source.ptr())->tp_name);
            self.set_data(nb::cast<const Tensor&>(source));
          },
          nb::for_setter(nb::sig("def data(self, source: Tensor) -> None")),
          nb::for_setter(nb::arg("source").none()),
          "detach(). What is assigned to it, of any dtype and device, is what this object is from "
          "now "
          "on.")
      .def_prop_ro(
          "T", [](const Tensor& self) { return self.numpy_T(); },
          "All dimensions, in reverse order.")
      .def_prop_ro(
          "mT", [](const Tensor& self) -> TensorObject { return itself_or(self, self.mT()); },
          "The last two dimensions exchanged.")
      .def_prop_ro(
          "H",
          [](const Tensor& self) -> TensorObject {
            return itself_or(self, unlocked([&] { return self.H(); }));
          },
          "A matrix, transposed and conjugated.")
      .def_prop_ro(
          "mH",
          [](const Tensor& self) -> TensorObject {
            return itself_or(self, unlocked([&] { return self.mH(); }));
          },
          "The last two dimensions exchanged, conjugated.")
      .def_prop_rw("real", real,
                   [](const Tensor& self, const Operand& value) {
                     unlocked([&] { self.real().index_put_({Ellipsis}, value); });
                   })
      .def_prop_rw("imag", imag,
                   [](const Tensor& self, const Operand& value) {
                     unlocked([&] { self.imag().index_put_({Ellipsis}, value); });
                   })
      .def(
          "set_", [](Tensor& self, const Tensor& source) { return same_object(self.set_(source)); },
          nb::arg("source"), nb::sig("def set_(self, source: Tensor) -> Tensor"),
          "Makes this tensor object the view that another one of its dtype and device is; without "
          "one, empty.")
      .def(
          "set_",
          [](Tensor& self) {
            return same_object(self.set_(empty({0}, {self.dtype(), self.device()})));
          },
          nb::sig("def set_(self) -> Tensor"));
}

}  // namespace ember::python
