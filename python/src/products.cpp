// Products of matrices and vectors, and tensors side by side.
#include <string>

#include "define.h"

namespace ember::python {
namespace {

/// A product of two tensors, as a function with out= and as a method.
template <class Make, class Into>
void define_product(nb::class_<Tensor>& tensor, nb::module_& m, const char* name,
                    const char* second, Make make, Into into, const char* doc) {
  m.def(
      name,
      [make, into](const Tensor& input, const Tensor& other, Tensor* out) {
        return maybe_into(
            out, [&] { return make(input, other); },
            [&](Tensor& result) { (void)into(result, input, other); });
      },
      nb::arg("input"), nb::arg(second), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(("def " + std::string(name) + "(input: Tensor, " + second +
               ": Tensor, *, out: Tensor | None = None) -> Tensor")
                  .c_str()),
      doc);
  tensor.def(
      name,
      [make](const Tensor& self, const Tensor& other) {
        return unlocked([&] { return make(self, other); });
      },
      nb::arg(second), doc);
}

/// addmm and its relatives: beta * input + alpha * (x @ y).
template <class Make, class Into>
void define_added(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, const char* x_name,
                  const char* y_name, Make make, Into into, const char* doc) {
  const std::string between =
      std::string(x_name) + ": Tensor, " + y_name +
      ": Tensor, *, beta: Tensor | complex = 1, alpha: Tensor | complex = 1";
  m.def(
      name,
      [make, into](const Tensor& input, const Tensor& x, const Tensor& y, const Operand& beta,
                   const Operand& alpha, Tensor* out) {
        return maybe_into(
            out,
            [&] { return make(input, x, y, scalar_of(beta, "beta"), scalar_of(alpha, "alpha")); },
            [&](Tensor& result) {
              (void)into(result, input, x, y, scalar_of(beta, "beta"), scalar_of(alpha, "alpha"));
            });
      },
      nb::arg("input"), nb::arg(x_name), nb::arg(y_name), nb::kw_only(), nb::arg("beta") = 1,
      nb::arg("alpha") = 1, nb::arg("out") = nb::none(),
      nb::sig(("def " + std::string(name) + "(input: Tensor, " + between +
               ", out: Tensor | None = None) -> Tensor")
                  .c_str()),
      doc);
  tensor.def(
      name,
      [make](const Tensor& self, const Tensor& x, const Tensor& y, const Operand& beta,
             const Operand& alpha) {
        return unlocked(
            [&] { return make(self, x, y, scalar_of(beta, "beta"), scalar_of(alpha, "alpha")); });
      },
      nb::arg(x_name), nb::arg(y_name), nb::kw_only(), nb::arg("beta") = 1, nb::arg("alpha") = 1,
      nb::sig(("def " + std::string(name) + "(self, " + between + ") -> Tensor").c_str()), doc);
  const std::string in_place = std::string(name) + "_";
  tensor.def(
      in_place.c_str(),
      [into](Tensor& self, const Tensor& x, const Tensor& y, const Operand& beta,
             const Operand& alpha) {
        unlocked([&] {
          (void)into(self, Tensor(self), x, y, scalar_of(beta, "beta"), scalar_of(alpha, "alpha"));
        });
        return same_object(self);
      },
      nb::arg(x_name), nb::arg(y_name), nb::kw_only(), nb::arg("beta") = 1, nb::arg("alpha") = 1,
      nb::sig(("def " + in_place + "(self, " + between + ") -> Tensor").c_str()), doc);
}

std::vector<Tensor> tensors_of(nb::handle list) {
  std::vector<Tensor> tensors;
  if (PyDict_Check(list.ptr()) || PyAnySet_Check(list.ptr()) || PyUnicode_Check(list.ptr()) ||
      PyBytes_Check(list.ptr()))
    throw TypeError(std::string("argument 'tensors' must be a tuple or list of Tensors, not ") +
                    Py_TYPE(list.ptr())->tp_name);
  for (const nb::handle item : list) {
    if (!nb::isinstance<Tensor>(item))
      throw TypeError("expected Tensor as element " + std::to_string(tensors.size()) +
                      " in argument 0, but got " + Py_TYPE(item.ptr())->tp_name);
    tensors.push_back(nb::cast<const Tensor&>(item));
  }
  return tensors;
}

template <class Make, class Into>
void define_joined(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  const auto call = [make, into](nb::handle tensors, std::int64_t dim, Tensor* out) {
    const std::vector<Tensor> list = tensors_of(tensors);
    return maybe_into(
        out, [&] { return make(list, dim); },
        [&](Tensor& result) { (void)into(result, std::span<const Tensor>(list), dim); });
  };
  const std::string signature =
      "def " + std::string(name) +
      "(tensors: collections.abc.Iterable[Tensor], dim: int = 0, *, out: Tensor | None = None) -> "
      "Tensor";
  with_names(
      [&](const auto& rename, const auto&... named) {
        m.def(name, call, named..., nb::sig(rename(signature).c_str()), doc);
      },
      kSameNames, nb::arg("tensors"), nb::arg("dim") = 0, nb::kw_only(),
      nb::arg("out") = nb::none());
}

template <class Make, class Into>
void define_stacked(nb::module_& m, const char* name, Make make, Into into, const char* doc) {
  m.def(
      name,
      [make, into](nb::handle tensors, Tensor* out) {
        const std::vector<Tensor> list = tensors_of(tensors);
        return maybe_into(
            out, [&] { return make(list); }, [&](Tensor& result) { (void)into(result, list); });
      },
      nb::arg("tensors"), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(
          ("def " + std::string(name) +
           "(tensors: collections.abc.Iterable[Tensor], *, out: Tensor | None = None) -> Tensor")
              .c_str()),
      doc);
}

}  // namespace

void bind_products(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_product(tensor, m, "mm", "mat2", EMBER_CALL(mm), EMBER_CALL(mm_out),
                 "The product of two matrices.");
  define_product(tensor, m, "bmm", "mat2", EMBER_CALL(bmm), EMBER_CALL(bmm_out),
                 "The products of two batches of matrices.");
  define_product(tensor, m, "mv", "vec", EMBER_CALL(mv), EMBER_CALL(mv_out),
                 "The product of a matrix and a vector.");
  define_product(tensor, m, "dot", "tensor", EMBER_CALL(dot), EMBER_CALL(dot_out),
                 "The sum of the products of two vectors' elements.");
  define_product(tensor, m, "outer", "vec2", EMBER_CALL(outer), EMBER_CALL(outer_out),
                 "The products of every element of a vector with every one of another.");
  define_product(tensor, m, "matmul", "other", EMBER_CALL(matmul), EMBER_CALL(matmul_out),
                 "The product of vectors, matrices or batches of matrices, broadcast.");
  define_added(tensor, m, "addmm", "mat1", "mat2", EMBER_CALL(addmm), EMBER_CALL(addmm_out),
               "beta * input + alpha * (mat1 @ mat2).");
  define_added(tensor, m, "baddbmm", "batch1", "batch2", EMBER_CALL(baddbmm),
               EMBER_CALL(baddbmm_out), "beta * input + alpha * (batch1 @ batch2).");
  define_added(tensor, m, "addr", "vec1", "vec2", EMBER_CALL(addr), EMBER_CALL(addr_out),
               "beta * input + alpha * (vec1 as a column times vec2 as a row).");
  tensor.def(
      "__matmul__",
      [](const Tensor& self, const Tensor& other) {
        return unlocked([&] { return matmul(self, other); });
      },
      nb::is_operator());
  tensor.def(
      "__rmatmul__",
      [](const Tensor& self, const Tensor& other) {
        return unlocked([&] { return matmul(other, self); });
      },
      nb::is_operator());
  define_joined(m, "cat", EMBER_CALL(cat), EMBER_CALL(cat_out),
                "The tensors, one behind the other along a dimension.");
  for (const char* name : {"concat", "concatenate"})
    define_joined(m, name, EMBER_CALL(cat), EMBER_CALL(cat_out), "The same as cat.");
  define_joined(m, "stack", EMBER_CALL(stack), EMBER_CALL(stack_out),
                "The tensors, all of one shape, along a new dimension.");
  define_stacked(m, "hstack", EMBER_CALL(hstack), EMBER_CALL(hstack_out),
                 "Beside each other: along the second dimension, vectors along their one.");
  for (const char* name : {"vstack", "row_stack"})
    define_stacked(m, name, EMBER_CALL(vstack), EMBER_CALL(vstack_out),
                   "Below each other: along the first dimension, vectors as rows.");
  define_stacked(m, "dstack", EMBER_CALL(dstack), EMBER_CALL(dstack_out),
                 "Behind each other: along the third dimension.");
  define_stacked(m, "column_stack", EMBER_CALL(column_stack), EMBER_CALL(column_stack_out),
                 "Beside each other, vectors as columns.");
}

}  // namespace ember::python
