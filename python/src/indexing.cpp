// x[...] and x[...] = value, and the operations that take index tensors.
#include <string>
#include <vector>

#include "define.h"
#include "ember/ops/recorder.h"

namespace ember::python {
namespace {

using I = std::int64_t;

std::optional<I> bound(PyObject* object) {
  if (object == Py_None) return std::nullopt;
  if (const auto value = index_from(object)) return value;
  if (PyIndex_Check(object) != 0) {  // beyond 64 bits: as far as it goes
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    return overflow == 0 ? value : overflow > 0 ? INT64_MAX : -INT64_MAX;
  }
  throw TypeError("slice indices must be integers or None or have an __index__ method");
}

constexpr const char* kTooLargeIndex = "index: overflow, an integer beyond 64 bits";

Tensor signed_indices(const Tensor& unsigned_ones) {
  const Tensor made = unsigned_ones.to(Dtype::int64);
  if (ops::value_of(made.lt(0).any()).to<bool>()) throw ValueError(kTooLargeIndex);
  return made;
}

/// An array of unsigned integers (but bytes, which are a mask) as int64: others are no indices.
nb::object signed_array(nb::handle object) {
  const nb::object type = nb::getattr(object, "dtype", nb::none());
  const nb::object kind = nb::getattr(type, "kind", nb::none());
  if (kind.is_none() || !kind.equal(nb::str("u")) || type.attr("itemsize").equal(nb::int_(1)))
    return nb::borrow(object);
  if (!object.attr("size").equal(nb::int_(0)) && is_beyond_64_bits(object.attr("max")()))
    throw ValueError(kTooLargeIndex);
  return object.attr("astype")("int64");
}

/// A short list with something in it that is no number is a tuple of items, as torch has it, with a
/// warning: to NumPy it is an array.
bool means_tuple(nb::handle index) {
  constexpr Py_ssize_t kShort = 32;
  if (PyTuple_Check(index.ptr())) return true;
  if (!PyList_Check(index.ptr()) || PyList_GET_SIZE(index.ptr()) >= kShort) return false;
  for (const nb::handle item : nb::borrow<nb::list>(index))
    if (item.is_none() || item.is(Py_Ellipsis) || PySlice_Check(item.ptr()) ||
        nb::isinstance<Tensor>(item) || PySequence_Check(item.ptr()) != 0) {
      warn_user(
          "A list as an index, x[[a, b]], is taken for the tuple x[a, b] where it holds more than "
          "numbers, which is deprecated: write x[tuple(list)], or x[ember.tensor(list)].");
      return true;
    }
  return false;
}

/// One item of an index. Tensors without dimensions stay tensors: they are not read here.
Index item_from(nb::handle object) {
  if (object.is_none()) return None;
  if (object.is(Py_Ellipsis)) return Ellipsis;
  if (PyBool_Check(object.ptr())) return object.is(Py_True);
  if (nb::isinstance<Tensor>(object)) return nb::cast<const Tensor&>(object);
  if (PySlice_Check(object.ptr())) {
    auto* slice = reinterpret_cast<PySliceObject*>(object.ptr());
    return Slice(bound(slice->start), bound(slice->stop), bound(slice->step).value_or(1));
  }
  if (const auto number = index_from(object)) return *number;
  if (PyLong_Check(object.ptr())) throw ValueError("index: overflow, an integer beyond 64 bits");
  const nb::object plain = signed_array(object);
  const bool text = PyUnicode_Check(plain.ptr()) || PyBytes_Check(plain.ptr());
  if ((PySequence_Check(plain.ptr()) != 0 && !text) || array_from(plain)) {
    Tensor made = tensor_from(plain, {});
    // Any integers are indices here, but no mask; and nothing is nothing, of whatever dtype.
    const bool mask = made.dtype() == Dtype::bool_ || made.dtype() == Dtype::uint8;
    if (!mask && (made.numel() == 0 || is_integral(made.dtype())))
      made = made.dtype() == Dtype::uint64 ? signed_indices(made) : made.to(Dtype::int64);
    return made;
  }
  throw IndexError(
      std::string("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                  "are valid indices (got ") +
      Py_TYPE(object.ptr())->tp_name + ")");
}

std::vector<Index> items_from(nb::handle index) {
  std::vector<Index> items;
  if (means_tuple(index)) {
    for (const nb::handle item : nb::borrow<nb::sequence>(index)) items.push_back(item_from(item));
  } else {
    items.push_back(item_from(index));
  }
  return items;
}

Tensor get(const Tensor& self, nb::handle index) {
  // Tensors first: to ask one of many elements for a number costs an exception.
  if (const Tensor* places = nullptr; nb::try_cast(index, places) && places != nullptr) {
    const Index item(*places);
    return unlocked_warning([&] { return self.index(std::span(&item, 1)); });
  }
  if (const auto at = index_from(index)) {
    if (self.dim() == 0)
      throw IndexError(
          "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
          "C++ to convert a 0-dim tensor to a number");
    const I size = self.sizes()[0];
    if (*at >= -size && *at < size) return self.select(0, *at);
  }
  const std::vector<Index> items = items_from(index);
  return unlocked_warning([&] { return self.index(items); });
}

void set(Tensor& self, nb::handle index, nb::handle value) {
  const std::vector<Index> items = items_from(index);
  if (nb::isinstance<Tensor>(value)) {
    const Tensor& source = nb::cast<const Tensor&>(value);
    unlocked_warning([&] { self.index_put_(items, source); });
    return;
  }
  if (const auto number = number_from(value)) {
    unlocked_warning([&] { self.index_put_(items, *number); });
    return;
  }
  const Tensor source = tensor_from(value, {self.dtype(), self.device()});
  unlocked_warning([&] { self.index_put_(items, source); });
}

/// Index tensors for the first dimensions, as a sequence.
void put_at(Tensor& self, nb::handle indices, const Tensor& values, bool accumulate) {
  if (!PyTuple_Check(indices.ptr()) && !PyList_Check(indices.ptr()))
    throw TypeError("index_put_: indices: expected a tuple of tensors");
  std::vector<Index> items;
  for (const nb::handle item : indices) {
    if (!nb::isinstance<Tensor>(item))
      throw TypeError("index_put_: indices: expected a tuple of tensors, but got one with a " +
                      std::string(Py_TYPE(item.ptr())->tp_name));
    const auto& index = nb::cast<const Tensor&>(item);
    // One without dimensions would be an integer of any dtype.
    if (const Dtype dtype = index.dtype(); dtype != Dtype::int64 && dtype != Dtype::int32 &&
                                           dtype != Dtype::uint8 && dtype != Dtype::bool_)
      throw IndexError("tensors used as indices must be long, int, byte or bool tensors");
    items.emplace_back(index);
  }
  if (items.empty()) throw Error("index_put_: indices: expected at least one tensor");
  unlocked_warning([&] { self.index_put_(items, values, accumulate); });
}

/// Goes through the first dimension.
struct Iterator {
  Tensor tensor;
  I next = 0;
};

/// A method that changes the tensor and returns it.
template <class... Arguments, class Call, class... Extra>
void in_place(nb::class_<Tensor>& tensor, const char* name, Call call, const char* doc,
              const Extra&... extra) {
  const auto method = [call](Tensor& self, Arguments... arguments) -> TensorObject {
    unlocked([&] { call(self, arguments...); });
    return same_object(self);
  };
  with_names([&](const auto&, const auto&... named) { tensor.def(name, method, doc, named...); },
             kSameNames, extra...);
}

void bind_gather(nb::class_<Tensor>& tensor, nb::module_& m) {
  const nb::arg dim("dim");
  const nb::arg index("index");
  const auto out = nb::arg("out") = nb::none();
  both(
      tensor, m, "index_select",
      [](const Tensor& input, I along, const Tensor& places, Tensor* result) {
        return maybe_into(
            result, [&] { return index_select(input, along, places); },
            [&](Tensor& into) { index_select_out(into, input, along, places); });
      },
      "The slices along a dimension that an index tensor names.", dim, index, nb::kw_only(), out);
  both(
      tensor, m, "gather",
      [](const Tensor& input, I along, const Tensor& places, bool /*sparse_grad*/, Tensor* result) {
        return maybe_into(
            result, [&] { return gather(input, along, places); },
            [&](Tensor& into) { gather_out(into, input, along, places); });
      },
      "Elements along a dimension, one for each element of an index tensor. sparse_grad concerns "
      "gradients, and there are none.",
      dim, index, nb::kw_only(), nb::arg("sparse_grad") = false, out);
  both(
      tensor, m, "take_along_dim",
      [](const Tensor& input, const Tensor& places, std::optional<I> along, Tensor* result) {
        return maybe_into(
            result, [&] { return take_along_dim(input, places, along); },
            [&](Tensor& into) { take_along_dim_out(into, input, places, along); });
      },
      "Elements along a dimension at what argsort and its like find; without one, of all.",
      nb::arg("indices"), nb::arg("dim") = nb::none(), nb::kw_only(), out);
  both(
      tensor, m, "take",
      [](const Tensor& input, const Tensor& places, Tensor* result) {
        return maybe_into(
            result, [&] { return take(input, places); },
            [&](Tensor& into) { take_out(into, input, places); });
      },
      "Elements of a tensor that is taken as one row.", index, nb::kw_only(), out);
  both_as(
      tensor, m, "nonzero",
      "*, out: Tensor | None = None, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]",
      [](const Tensor& input, Tensor* result, bool as_tuple) -> nb::object {
        if (as_tuple && result != nullptr)
          throw Error("nonzero(): out is for as_tuple=False, but got as_tuple=True");
        if (as_tuple) return tuple_of(unlocked([&] { return where(input); }));
        return maybe_into(
            result, [&] { return nonzero(input); },
            [&](Tensor& into) { nonzero_out(into, input); });
      },
      "The coordinates of all elements that are not zero: a row for each, or a tensor for each "
      "dimension. Waits for a device.",
      nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("as_tuple") = false);
  both(
      tensor, m, "argwhere",
      [](const Tensor& input) { return unlocked([&] { return argwhere(input); }); },
      "The coordinates of all elements that are not zero, a row for each. Waits for a device.");
  both(
      tensor, m, "masked_select",
      [](const Tensor& input, const Tensor& mask, Tensor* result) {
        return maybe_into(
            result, [&] { return masked_select(input, mask); },
            [&](Tensor& into) { masked_select_out(into, input, mask); });
      },
      "The elements where a mask is true, in one dimension. Waits for a device.", nb::arg("mask"),
      nb::kw_only(), out);
}

/// scatter_ and scatter with a tensor, called src, or a number, called value.
template <class Taken>
void bind_scatter_of(nb::class_<Tensor>& tensor, nb::module_& m, const char* name,
                     const Taken& taken) {
  const nb::arg dim("dim");
  const nb::arg index("index");
  const nb::arg source(name);
  const nb::arg reduce("reduce");
  const auto out = nb::arg("out") = nb::none();
  constexpr const char* kDoc =
      "self[i][index[i][j]] = src[i][j] for dim 1, and so on; a number, value, may stand for src.";
  constexpr const char* kReducing =
      "The same with += for reduce='add' and *= for reduce='multiply', in float for 16-bit floats.";
  using Reduce = const std::string&;
  in_place<I, const Tensor&, const Operand&>(
      tensor, "scatter_",
      [taken](Tensor& self, I along, const Tensor& places, const Operand& from) {
        self.scatter_(along, places, taken(from));
      },
      kDoc, dim, index, source);
  in_place<I, const Tensor&, const Operand&, Reduce>(
      tensor, "scatter_",
      [taken](Tensor& self, I along, const Tensor& places, const Operand& from, Reduce how) {
        self.scatter_(along, places, taken(from), how);
      },
      kReducing, dim, index, source, nb::kw_only(), reduce);
  both(
      tensor, m, "scatter",
      [taken](const Tensor& input, I along, const Tensor& places, const Operand& from,
              Tensor* result) {
        return maybe_into(
            result, [&] { return scatter(input, along, places, taken(from)); },
            [&](Tensor& into) { scatter_out(into, input, along, places, taken(from)); });
      },
      kDoc, dim, index, source, nb::kw_only(), out);
  both(
      tensor, m, "scatter",
      [taken](const Tensor& input, I along, const Tensor& places, const Operand& from, Reduce how,
              Tensor* result) {
        return maybe_into(
            result, [&] { return scatter(input, along, places, taken(from), how); },
            [&](Tensor& into) { scatter_out(into, input, along, places, taken(from), how); });
      },
      kReducing, dim, index, source, nb::kw_only(), reduce, out);
}

void bind_scatter(nb::class_<Tensor>& tensor, nb::module_& m) {
  const nb::arg dim("dim");
  const nb::arg index("index");
  const auto out = nb::arg("out") = nb::none();
  bind_scatter_of(tensor, m, "src", [](const Operand& from) -> const Operand& { return from; });
  bind_scatter_of(tensor, m, "value",
                  [](const Operand& from) { return Operand(scalar_of(from, "value")); });
  in_place<I, const Tensor&, const Tensor&>(
      tensor, "scatter_add_",
      [](Tensor& self, I along, const Tensor& places, const Tensor& source) {
        self.scatter_add_(along, places, source);
      },
      "The same, but added.", dim, index, nb::arg("src"));
  both(
      tensor, m, "scatter_add",
      [](const Tensor& input, I along, const Tensor& places, const Tensor& source, Tensor* result) {
        return maybe_into(
            result, [&] { return scatter_add(input, along, places, source); },
            [&](Tensor& into) { scatter_add_out(into, input, along, places, source); });
      },
      "The same as scatter, but added.", dim, index, nb::arg("src"), nb::kw_only(), out);
  in_place<I, const Tensor&, const Tensor&, const Operand&>(
      tensor, "index_add_",
      [](Tensor& self, I along, const Tensor& places, const Tensor& source, const Operand& alpha) {
        self.index_add_(along, places, source, scalar_of(alpha, "alpha"));
      },
      "Slice index[i] += alpha * slice i of the source.", dim, index, nb::arg("source"),
      nb::kw_only(), nb::arg("alpha") = 1);
  both(
      tensor, m, "index_add",
      [](const Tensor& input, I along, const Tensor& places, const Tensor& source,
         const Operand& alpha, Tensor* result) {
        return maybe_into(
            result,
            [&] { return index_add(input, along, places, source, scalar_of(alpha, "alpha")); },
            [&](Tensor& into) {
              index_add_out(into, input, along, places, source, scalar_of(alpha, "alpha"));
            });
      },
      "A copy with slice index[i] += alpha * slice i of the source.", dim, index, nb::arg("source"),
      nb::kw_only(), nb::arg("alpha") = 1, out);
  in_place<I, const Tensor&, const Tensor&>(
      tensor, "index_copy_",
      [](Tensor& self, I along, const Tensor& places, const Tensor& source) {
        self.index_copy_(along, places, source);
      },
      "Slice index[i] = slice i of the source.", dim, index, nb::arg("source"));
  both(
      tensor, m, "index_copy",
      [](const Tensor& input, I along, const Tensor& places, const Tensor& source, Tensor* result) {
        return maybe_into(
            result, [&] { return index_copy(input, along, places, source); },
            [&](Tensor& into) { index_copy_out(into, input, along, places, source); });
      },
      "A copy with slice index[i] = slice i of the source.", dim, index, nb::arg("source"),
      nb::kw_only(), out);
  in_place<I, const Tensor&, const Operand&>(
      tensor, "index_fill_",
      [](Tensor& self, I along, const Tensor& places, const Operand& value) {
        self.index_fill_(along, places, value);
      },
      "The slices that an index tensor names = a number.", dim, index, nb::arg("value"));
  both(
      tensor, m, "index_fill",
      [](const Tensor& input, I along, const Tensor& places, const Operand& value) {
        return unlocked([&] { return index_fill(input, along, places, value); });
      },
      "A copy with a number in the slices that an index tensor names.", dim, index,
      nb::arg("value"));
  in_place<const Tensor&, const Tensor&, bool>(
      tensor, "put_",
      [](Tensor& self, const Tensor& places, const Tensor& source, bool accumulate) {
        self.put_(places, source, accumulate);
      },
      "Elements of the tensor as one row = (or +=) those of the source.", index, nb::arg("source"),
      nb::arg("accumulate") = false);
  in_place<const Tensor&, const Operand&>(
      tensor, "masked_fill_",
      [](Tensor& self, const Tensor& mask, const Operand& value) {
        self.masked_fill_(mask, value);
      },
      "Elements where a mask is true = a number.", nb::arg("mask"), nb::arg("value"));
  both(
      tensor, m, "masked_fill",
      [](const Tensor& input, const Tensor& mask, const Operand& value) {
        return unlocked([&] { return masked_fill(input, mask, value); });
      },
      "A copy with a number where a mask is true.", nb::arg("mask"), nb::arg("value"));
}

void bind_rearranging(nb::class_<Tensor>& tensor, nb::module_& m) {
  both(
      tensor, m, "flip",
      [](const Tensor& input, const Sizes& dims) {
        return unlocked([&] { return input.flip(dims.shape()); });
      },
      "The order reversed along dimensions.", nb::arg("dims"));
  tensor.def("flip", [](const Tensor& self, const nb::args& dims) {
    if (dims.size() == 0) throw TypeError("flip: dims: expected at least one");
    const Shape turned = shape_of(dims, "dims");
    return unlocked([&] { return self.flip(turned); });
  });
  both(
      tensor, m, "roll",
      [](const Tensor& input, const Sizes& shifts, const std::optional<Sizes>& dims) {
        return unlocked([&] { return input.roll(shifts.shape(), dims ? dims->shape() : Shape()); });
      },
      "Moved along dimensions; what falls off one end comes in at the other.", nb::arg("shifts"),
      nb::arg("dims") = nb::none());
  both(
      tensor, m, "fliplr",
      [](const Tensor& input) { return unlocked([&] { return fliplr(input); }); },
      "The columns in the reverse order.");
  both(
      tensor, m, "flipud",
      [](const Tensor& input) { return unlocked([&] { return flipud(input); }); },
      "The rows in the reverse order.");
  const auto in_place = [&](const char* name, Tensor& (Tensor::*make)(I) const, const char* doc) {
    tensor.def(
        name,
        [make](Tensor& self, I diagonal) {
          unlocked([&] { (self.*make)(diagonal); });
          return same_object(self);
        },
        nb::arg("diagonal") = 0,
        nb::sig(("def " + std::string(name) + "(self, diagonal: int = 0) -> Tensor").c_str()), doc);
  };
  in_place("tril_", &Tensor::tril_, "tril, in place.");
  in_place("triu_", &Tensor::triu_, "triu, in place.");
  both(
      tensor, m, "tril",
      [](const Tensor& input, I diagonal, Tensor* result) {
        return maybe_into(
            result, [&] { return input.tril(diagonal); },
            [&](Tensor& into) { tril_out(into, input, diagonal); });
      },
      "The lower triangle of matrices, zero elsewhere.", nb::arg("diagonal") = 0, nb::kw_only(),
      nb::arg("out") = nb::none());
  both(
      tensor, m, "triu",
      [](const Tensor& input, I diagonal, Tensor* result) {
        return maybe_into(
            result, [&] { return input.triu(diagonal); },
            [&](Tensor& into) { triu_out(into, input, diagonal); });
      },
      "The upper triangle of matrices, zero elsewhere.", nb::arg("diagonal") = 0, nb::kw_only(),
      nb::arg("out") = nb::none());
  tensor.def(
      "repeat",
      [](const Tensor& self, const nb::args& repeats) {
        if (repeats.size() == 0) throw TypeError("repeat: repeats: expected at least one number");
        const Shape counts = shape_of(repeats, "repeats");
        return unlocked([&] { return self.repeat(counts); });
      },
      "Side by side, as often as the numbers say.");
  tensor.def(
      "repeat",
      [](const Tensor& self, const Sizes& repeats) {
        return unlocked([&] { return self.repeat(repeats.shape()); });
      },
      nb::arg("repeats"), "The same.");
  both(
      tensor, m, "diag",
      [](const Tensor& input, I diagonal, Tensor* result) {
        return maybe_into(
            result, [&] { return diag(input, diagonal); },
            [&](Tensor& into) { diag_out(into, input, diagonal); });
      },
      "A matrix with a vector on a diagonal, or the diagonal of a matrix.", nb::arg("diagonal") = 0,
      nb::kw_only(), nb::arg("out") = nb::none());
}

/// Along one dimension, with a dtype that the elements are converted to first.
template <class Make, class Into>
void define_along(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make,
                  Into into, const char* doc) {
  both(
      tensor, m, name,
      [make, into](const Tensor& input, I along, std::optional<Dtype> dtype, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, along, dtype); },
            [&](Tensor& result) { (void)into(result, input, along, dtype); });
      },
      doc, nb::arg("dim"), nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("out") = nb::none());
}

void bind_along(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_along(tensor, m, "cumsum", EMBER_CALL(cumsum), EMBER_CALL(cumsum_out),
               "The sum of each element and those before it.");
  define_along(tensor, m, "cumprod", EMBER_CALL(cumprod), EMBER_CALL(cumprod_out),
               "The product of each element and those before it.");
  const auto dim = nb::arg("dim");
  const auto dtype = nb::arg("dtype") = nb::none();
  in_place<I, std::optional<Dtype>>(
      tensor, "cumsum_",
      [](Tensor& self, I along, std::optional<Dtype> type) { self.cumsum_(along, type); },
      "cumsum() in place.", dim, nb::kw_only(), dtype);
  in_place<I, std::optional<Dtype>>(
      tensor, "cumprod_",
      [](Tensor& self, I along, std::optional<Dtype> type) { self.cumprod_(along, type); },
      "cumprod() in place.", dim, nb::kw_only(), dtype);
  define_along(tensor, m, "softmax", EMBER_CALL(softmax), EMBER_CALL(softmax_out),
               "exp(x) over the sum of it along a dimension.");
  define_along(tensor, m, "log_softmax", EMBER_CALL(log_softmax), EMBER_CALL(log_softmax_out),
               "The logarithm of softmax.");
}

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor, nb::module_& m) {
  both_as(
      tensor, m, "index_put_",
      "indices: collections.abc.Sequence[Tensor], values: Tensor, accumulate: bool = False) -> "
      "Tensor",
      [](Tensor& self, nb::handle indices, const Tensor& values, bool accumulate) {
        put_at(self, indices, values, accumulate);
        return same_object(self);
      },
      "Writes values, or adds them, at the places that index tensors name, one for each of the "
      "first dimensions.",
      nb::arg("indices"), nb::arg("values"), nb::arg("accumulate") = false);
  nb::class_<Iterator>(tensor, "_Iterator")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](Iterator& self) {
        if (self.next == self.tensor.sizes()[0]) throw nb::stop_iteration();
        return self.tensor.select(0, self.next++);
      });
  tensor
      .def("__getitem__", &get, nb::arg("index").none(),
           nb::sig("def __getitem__(self, index: typing.Any, /) -> Tensor"),
           "A view for ints, slices, None and ...; a copy for index tensors and masks.")
      .def("__setitem__", &set, nb::arg("index").none(), nb::arg("value").none(),
           nb::sig("def __setitem__(self, index: typing.Any, value: typing.Any, /) -> None"))
      .def(
          "__delitem__",
          [](const Tensor&, nb::handle) {
            throw TypeError(
                "Tensor does not support deleting items: its size is fixed. ember.cat([x[:i], "
                "x[i + 1:]]) makes a new one without element i");
          },
          nb::arg("index").none())
      .def("__iter__", [](const Tensor& self) {
        if (self.dim() == 0) throw TypeError("iteration over a 0-d tensor");
        return Iterator{self, 0};
      });
  bind_gather(tensor, m);
  bind_scatter(tensor, m);
  bind_rearranging(tensor, m);
  bind_along(tensor, m);
}

}  // namespace ember::python
