// x[...] with ints, slices, None and ..., which gives views.
#include "python.h"

namespace ember::python {
namespace {

struct Item {
  nb::handle object;
};

/// The dimensions that an index takes.
int dims_taken(nb::handle index) { return index.is_none() || index.is(Py_Ellipsis) ? 0 : 1; }

std::optional<std::int64_t> bound(PyObject* object) {
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

Tensor sliced(const Tensor& tensor, int dim, nb::handle index) {
  auto* slice = reinterpret_cast<PySliceObject*>(index.ptr());
  return tensor.slice(dim, bound(slice->start), bound(slice->stop), bound(slice->step).value_or(1));
}

[[noreturn]] void throw_invalid(nb::handle index) {
  throw IndexError(
      std::string("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                  "are valid indices (got ") +
      Py_TYPE(index.ptr())->tp_name + ")");
}

Tensor view(const Tensor& self, nb::handle index) {
  if (const auto at = index_from(index)) {
    if (self.dim() == 0)
      throw IndexError(
          "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
          "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    const std::int64_t size = self.sizes()[0];
    if (*at < -size || *at >= size)
      throw IndexError("index " + std::to_string(*at) +
                       " is out of bounds for dimension 0 with size " + std::to_string(size));
    return self.select(0, *at);
  }
  const nb::tuple items = nb::isinstance<nb::tuple>(index) ? nb::borrow<nb::tuple>(index)
                                                           : nb::make_tuple(nb::borrow(index));
  int taken = 0;
  for (const nb::handle item : items) taken += dims_taken(item);
  if (taken > self.dim())
    throw IndexError("too many indices for tensor of dimension " + std::to_string(self.dim()));
  Tensor at = self.alias();
  int dim = 0;
  bool open = false;
  for (const nb::handle item : items) {
    if (item.is_none()) {
      at = at.unsqueeze(dim++);
    } else if (item.is(Py_Ellipsis)) {
      if (open) throw IndexError("an index can only have a single ellipsis ('...')");
      open = true;
      dim += self.dim() - taken;
    } else if (PySlice_Check(item.ptr())) {
      at = sliced(at, dim++, item);
    } else if (const auto number = index_from(item)) {
      const std::int64_t size = at.sizes()[dim];
      if (*number < -size || *number >= size)
        throw IndexError("index " + std::to_string(*number) + " is out of bounds for dimension " +
                         std::to_string(dim) + " with size " + std::to_string(size));
      at = at.select(dim, *number);
    } else {
      throw_invalid(item);
    }
  }
  return at;
}

void assign(const Tensor& self, nb::handle index, nb::handle value) {
  Tensor target = view(self, index);
  if (nb::isinstance<Tensor>(value)) {
    const Tensor& source = nb::cast<const Tensor&>(value);
    unlocked([&] {
      // Leading dimensions of one may be too many.
      Tensor from = source;
      while (from.dim() > target.dim() && from.sizes()[0] == 1) from = from.squeeze(0);
      target.copy_(from);
    });
    return;
  }
  if (const auto number = number_from(value)) {
    unlocked([&] { target.fill_(*number); });
    return;
  }
  Options options(target.dtype());
  const Tensor source = tensor_from(value, options);
  unlocked([&] { target.copy_(source); });
}

/// Goes through the first dimension.
struct Iterator {
  Tensor tensor;
  std::int64_t next = 0;
};

}  // namespace

void bind_indexing(nb::class_<Tensor>& tensor) {
  nb::class_<Iterator>(tensor, "_Iterator")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](Iterator& self) {
        if (self.next == self.tensor.sizes()[0]) throw nb::stop_iteration();
        return self.tensor.select(0, self.next++);
      });
  tensor
      .def("__getitem__", &view, nb::arg("index"),
           nb::sig("def __getitem__(self, index: typing.Any, /) -> Tensor"),
           "A view for ints, slices, None and ...; negative steps are refused.")
      .def("__setitem__", &assign, nb::arg("index"), nb::arg("value"),
           nb::sig("def __setitem__(self, index: typing.Any, value: typing.Any, /) -> None"))
      .def("__iter__", [](const Tensor& self) {
        if (self.dim() == 0) throw TypeError("iteration over a 0-d tensor");
        return Iterator{self, 0};
      });
}

}  // namespace ember::python
