// Reductions, sorting and the largest elements.
#include <cstring>
#include <string>

#include "define.h"

namespace ember::python {

ResultType::ResultType(nb::module_& m, const char* name, const char* first, const char* second) {
  PyStructSequence_Field fields[] = {{first, nullptr}, {second, nullptr}, {nullptr, nullptr}};
  PyStructSequence_Desc about = {name, "What an operation found.", fields, 2};
  type_ = PyStructSequence_NewType(&about);
  if (type_ == nullptr) throw nb::python_error();
  // Each on lines of its own, as torch prints them.
  const std::string head = std::string(name) + "(\n" + first + "=";
  const std::string middle = std::string(",\n") + second + "=";
  const nb::handle type(reinterpret_cast<PyObject*>(type_));
  // Where pickle finds it.
  nb::module_ types = m.def_submodule("return_types", "What several results are returned as.");
  type.attr("__module__") = types.attr("__name__");
  types.attr(std::strrchr(name, '.') + 1) = type;
  type.attr("__repr__") = nb::cpp_function(
      [head, middle](nb::handle self) {
        return head + nb::repr(self[0]).c_str() + middle + nb::repr(self[1]).c_str() + ")";
      },
      nb::is_method());
}

nb::object ResultType::operator()(Tensor values, Tensor indices) const {
  return (*this)(nb::cast(std::move(values)), nb::cast(std::move(indices)));
}

nb::object ResultType::operator()(nb::object values, nb::object indices) const {
  nb::object made = nb::steal(PyStructSequence_New(type_));
  if (!made.is_valid()) throw nb::python_error();
  PyStructSequence_SetItem(made.ptr(), 0, values.release().ptr());
  PyStructSequence_SetItem(made.ptr(), 1, indices.release().ptr());
  return made;
}

namespace {

using MaybeDims = std::optional<Sizes>;
using MaybeDtype = std::optional<Dtype>;
using I = std::int64_t;

// Parts of signatures.
constexpr const char* kDims = "dim: int | collections.abc.Sequence[int] | None = None, ";
constexpr const char* kOut = "out: Tensor | None = None) -> Tensor";

/// sum, prod, mean: (dim, keepdim, dtype).
template <class Make, class Into>
void define_sum(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make, Into into,
                const char* doc) {
  const auto call = [make, into](const Tensor& input, const MaybeDims& dim, bool keepdim,
                                 MaybeDtype dtype, Tensor* out) {
    const DimList dims = dims_of(dim);
    return maybe_into(
        out, [&] { return make(input, dims, keepdim, dtype); },
        [&](Tensor& result) { (void)into(result, input, dims, keepdim, dtype); });
  };
  both_as(tensor, m, name,
          std::string(kDims) + "keepdim: bool = False, *, dtype: dtype | None = None, " + kOut,
          call, doc, nb::arg("dim") = nb::none(), nb::arg("keepdim") = false, nb::kw_only(),
          nb::arg("dtype") = nb::none(), nb::arg("out") = nb::none());
}

/// amax, amin: (dim, keepdim).
template <class Make, class Into>
void define_plain(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make,
                  Into into, const char* doc) {
  const auto call = [make, into](const Tensor& input, const MaybeDims& dim, bool keepdim,
                                 Tensor* out) {
    const DimList dims = dims_of(dim);
    return maybe_into(
        out, [&] { return make(input, dims, keepdim); },
        [&](Tensor& result) { (void)into(result, input, dims, keepdim); });
  };
  both_as(tensor, m, name, std::string(kDims) + "keepdim: bool = False, *, " + kOut, call, doc,
          nb::arg("dim") = nb::none(), nb::arg("keepdim") = false, nb::kw_only(),
          nb::arg("out") = nb::none());
}

/// any, all: the same, but `dim=()` is no dimension, where the others take it for all of them. It
/// becomes a new one, of size one, since DimList has no word for none.
template <class Make, class Into>
void define_truth(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make,
                  Into into, const char* doc) {
  const auto call = [make, into](const Tensor& input, const MaybeDims& dim, bool keepdim,
                                 Tensor* out) {
    const bool none = dim && dim->count == 0;
    const Tensor x = none ? input.unsqueeze(0) : input;
    const DimList dims = none ? DimList(0) : dims_of(dim);
    keepdim = keepdim && !none;
    return maybe_into(
        out, [&] { return make(x, dims, keepdim); },
        [&](Tensor& result) { (void)into(result, x, dims, keepdim); });
  };
  both_as(tensor, m, name, std::string(kDims) + "keepdim: bool = False, *, " + kOut, call, doc,
          nb::arg("dim") = nb::none(), nb::arg("keepdim") = false, nb::kw_only(),
          nb::arg("out") = nb::none());
}

/// var, std: (dim, correction, keepdim), or as before torch 2.0 (unbiased) and (dim, unbiased,
/// keepdim).
template <class Make, class Into>
void define_spread(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make,
                   Into into, const char* doc) {
  const auto call = [make, into](const Tensor& input, const MaybeDims& dim,
                                 std::optional<double> given, bool keepdim, Tensor* out) {
    const DimList dims = dims_of(dim);
    const double correction = given.value_or(1);
    return maybe_into(
        out, [&] { return make(input, dims, correction, keepdim); },
        [&](Tensor& result) { (void)into(result, input, dims, correction, keepdim); });
  };
  both_as(tensor, m, name,
          std::string(kDims) + "*, correction: float | None = 1, keepdim: bool = False, " + kOut,
          call, doc, nb::arg("dim") = nb::none(), nb::kw_only(), nb::arg("correction").none() = 1.0,
          nb::arg("keepdim") = false, nb::arg("out") = nb::none());
  const auto of_all = [call](const Tensor& input, bool unbiased) {
    return call(input, std::nullopt, unbiased ? 1 : 0, false, nullptr);
  };
  both_as(tensor, m, name, "unbiased: bool) -> Tensor", of_all, doc, nb::arg("unbiased"));
  const auto along = [call](const Tensor& input, const MaybeDims& dim, bool unbiased, bool keepdim,
                            Tensor* out) {
    return call(input, dim, unbiased ? 1 : 0, keepdim, out);
  };
  both_as(tensor, m, name,
          std::string("dim: int | collections.abc.Sequence[int] | None, unbiased: bool, keepdim: "
                      "bool = False, *, ") +
              kOut,
          along, doc, nb::arg("dim").none(), nb::arg("unbiased"), nb::arg("keepdim") = false,
          nb::kw_only(), nb::arg("out") = nb::none());
}

/// var_mean and std_mean.
template <class Make>
void define_spread_mean(nb::module_& m, const char* name, Make make, const char* doc) {
  const auto call = [make](const Tensor& input, const MaybeDims& dim, double correction,
                           bool keepdim) {
    const DimList dims = dims_of(dim);
    auto made = unlocked([&] { return make(input, dims, correction, keepdim); });
    return nb::make_tuple(std::move(made.first), std::move(made.second));
  };
  const auto define = [&](const char* rest, const auto& function, const char* text,
                          const auto&... extra) {
    const std::string signature =
        "def " + std::string(name) + "(input: Tensor, " + rest + ") -> tuple[Tensor, Tensor]";
    with_names(
        [&](const auto& rename, const auto&... named) {
          m.def(name, function, text, nb::arg("input"), named...,
                nb::sig(rename(signature).c_str()));
        },
        kSameNames, extra...);
  };
  define(
      "dim: int | collections.abc.Sequence[int] | None = None, *, correction: float | None = 1, "
      "keepdim: bool = False",
      [call](const Tensor& input, const MaybeDims& dim, std::optional<double> correction,
             bool keepdim) { return call(input, dim, correction.value_or(1), keepdim); },
      doc, nb::arg("dim") = nb::none(), nb::kw_only(), nb::arg("correction").none() = 1.0,
      nb::arg("keepdim") = false);
  define(
      "unbiased: bool",
      [call](const Tensor& input, bool unbiased) {
        return call(input, std::nullopt, unbiased ? 1 : 0, false);
      },
      "", nb::arg("unbiased"));
  define(
      "dim: int | collections.abc.Sequence[int] | None, unbiased: bool, keepdim: bool = False",
      [call](const Tensor& input, const MaybeDims& dim, bool unbiased, bool keepdim) {
        return call(input, dim, unbiased ? 1 : 0, keepdim);
      },
      "", nb::arg("dim").none(), nb::arg("unbiased"), nb::arg("keepdim") = false);
}

/// argmax, argmin: (dim, keepdim), with at most one dimension.
template <class Make, class Into>
void define_position(nb::class_<Tensor>& tensor, nb::module_& m, const char* name, Make make,
                     Into into, const char* doc) {
  const auto call = [make, into](const Tensor& input, std::optional<I> dim, bool keepdim,
                                 Tensor* out) {
    return maybe_into(
        out, [&] { return make(input, dim, keepdim); },
        [&](Tensor& result) { (void)into(result, input, dim, keepdim); });
  };
  both_as(tensor, m, name, std::string("dim: int | None = None, keepdim: bool = False, *, ") + kOut,
          call, doc, nb::arg("dim") = nb::none(), nb::arg("keepdim") = false, nb::kw_only(),
          nb::arg("out") = nb::none());
}

using Pair = std::optional<std::pair<Tensor*, Tensor*>>;

/// Two results, or into `out=(values, indices)`.
template <class Make, class Into>
nb::object pair_into(const ResultType& type, nb::handle out, Make&& make, Into&& into,
                     const char* names = "values and indices") {
  if (out.is_none()) {
    auto made = unlocked(make);
    auto& [values, indices] = made;
    return type(std::move(values), std::move(indices));
  }
  const std::string text = std::string("a tuple of two tensors, ") + names;
  if (PySequence_Check(out.ptr()) == 0 || nb::len(out) != 2)
    throw TypeError("out: expected " + text);
  const nb::object outputs[] = {out[0], out[1]};
  auto* values = argument<Tensor*>(outputs[0], "out", text.c_str());
  auto* indices = argument<Tensor*>(outputs[1], "out", text.c_str());
  WarningsRaised warnings;  // that an output is resized
  unlocked([&] { into(*values, *indices); });
  warnings.raise();
  return type(outputs[0], outputs[1]);
}

constexpr const char* kPairType =
    ", *, out: tuple[Tensor, Tensor] | None = None) -> _ValuesAndIndices";  // python/stubs.pat

/// max and min: of all elements, along a dimension, or of two tensors.
template <class All, class AllInto, class Along, class AlongInto>
void define_extreme(nb::class_<Tensor>& tensor, nb::module_& m, const char* name,
                    const ResultType& type, ops::OpId of_two, All all, AllInto all_into,
                    Along along, AlongInto along_into, const char* doc) {
  m.def(
      name,
      [all, all_into](const Tensor& input, Tensor* out) {
        return maybe_into(
            out, [&] { return all(input); },
            [&](Tensor& result) { (void)all_into(result, input); });
      },
      nb::arg("input"), nb::kw_only(), nb::arg("out") = nb::none(),
      nb::sig(
          ("def " + std::string(name) + "(input: Tensor, *, out: Tensor | None = None) -> Tensor")
              .c_str()),
      doc);
  tensor.def(
      name, [all](const Tensor& self) { return unlocked([&] { return all(self); }); }, doc);
  const auto call = [along, along_into, type](const Tensor& input, I dim, bool keepdim,
                                              nb::handle out) {
    return pair_into(
        type, out, [&] { return along(input, dim, keepdim); },
        [&](Tensor& values, Tensor& indices) { along_into(values, indices, input, dim, keepdim); });
  };
  both_as(tensor, m, name, std::string("dim: int, keepdim: bool = False") + kPairType, call, doc,
          nb::arg("dim"), nb::arg("keepdim") = false, nb::kw_only(), nb::arg("out") = nb::none());
  const auto two = [of_two](const Tensor& input, const Tensor& other, Tensor* out) {
    const Operand x(input);
    const Operand y(other);
    const Operand* const inputs[] = {&x, &y};
    return maybe_into(
        out, [&] { return ops::elementwise(of_two, inputs); },
        [&](Tensor& result) { ops::elementwise_into(result, of_two, inputs); });
  };
  both_as(tensor, m, name, std::string("other: Tensor, *, ") + kOut, two, doc, nb::arg("other"),
          nb::kw_only(), nb::arg("out") = nb::none());
}

void define_norm(nb::class_<Tensor>& tensor, nb::module_& m) {
  const auto call = [](const Tensor& input, nb::handle p, const MaybeDims& dim, bool keepdim,
                       Tensor* out, MaybeDtype dtype) {
    double power = 2;
    if (PyUnicode_Check(p.ptr())) {
      const std::string text = nb::cast<std::string>(p);
      if (text != "fro") throw ValueError("norm: p='" + text + "', expected a number or 'fro'");
    } else if (!p.is_none()) {
      const auto number = number_from(p);
      if (!number) throw TypeError("norm: p: expected a number or 'fro'");
      if (is_complex_dtype(number->dtype()))
        throw Error("norm: p: expected a number without an imaginary part, got a complex one");
      power = number->to<double>();
    }
    const DimList dims = dims_of(dim);
    return maybe_into(
        out, [&] { return norm(input, power, dims, keepdim, dtype); },
        [&](Tensor& into) { norm_out(into, input, power, dims, keepdim, dtype); });
  };
  constexpr const char* kDoc =
      "(sum of |x|^p)^(1/p); the largest |x| for infinity, the smallest for -infinity, the number "
      "of those that are not zero for 0.";
  both_as(tensor, m, "norm",
          "p: float | str | None = 'fro', dim: int | collections.abc.Sequence[int] | None = None, "
          "keepdim: bool = False, out: Tensor | None = None, dtype: dtype | None = None) -> Tensor",
          call, kDoc, nb::arg("p").none() = "fro", nb::arg("dim") = nb::none(),
          nb::arg("keepdim") = false, nb::arg("out") = nb::none(), nb::arg("dtype") = nb::none());
}

void define_median(nb::class_<Tensor>& tensor, nb::module_& m) {
  constexpr const char* kDoc =
      "The element in the middle of all in order, the lower of two; along a dimension, also where "
      "it is.";
  const ResultType type(m, "torch.return_types.median");
  both(
      tensor, m, "median",
      [](const Tensor& self) { return unlocked([&] { return median(self); }); }, kDoc);
  const auto along = [type](const Tensor& input, I dim, bool keepdim, nb::handle out) {
    return pair_into(
        type, out, [&] { return median(input, dim, keepdim); },
        [&](Tensor& values, Tensor& indices) { median_out(values, indices, input, dim, keepdim); });
  };
  both_as(tensor, m, "median", std::string("dim: int, keepdim: bool = False") + kPairType, along,
          kDoc, nb::arg("dim"), nb::arg("keepdim") = false, nb::kw_only(),
          nb::arg("out") = nb::none());
}

void define_sorting(nb::class_<Tensor>& tensor, nb::module_& m) {
  const ResultType topk_type(m, "torch.return_types.topk");
  const auto largest_k = [topk_type](const Tensor& input, I k, I dim, bool largest, bool sorted,
                                     nb::handle out) {
    return pair_into(
        topk_type, out, [&] { return topk(input, k, dim, largest, sorted); },
        [&](Tensor& values, Tensor& indices) {
          topk_out(values, indices, input, k, dim, largest, sorted);
        });
  };
  both_as(
      tensor, m, "topk",
      std::string("k: int, dim: int = -1, largest: bool = True, sorted: bool = True") + kPairType,
      largest_k, "The k largest (or smallest) elements along a dimension, and where they are.",
      nb::arg("k"), nb::arg("dim") = -1, nb::arg("largest") = true, nb::arg("sorted") = true,
      nb::kw_only(), nb::arg("out") = nb::none());

  const ResultType sort_type(m, "torch.return_types.sort");
  const auto in_order = [sort_type](const Tensor& input, I dim, bool descending, bool stable,
                                    nb::handle out) {
    return pair_into(
        sort_type, out, [&] { return sort(input, dim, descending, stable); },
        [&](Tensor& values, Tensor& indices) {
          sort_out(values, indices, input, dim, descending, stable);
        });
  };
  both_as(tensor, m, "sort",
          std::string("dim: int = -1, descending: bool = False, stable: bool = False") + kPairType,
          in_order, "All elements along a dimension in order, and where they were. Always stable.",
          nb::arg("dim") = -1, nb::arg("descending") = false, nb::arg("stable") = false,
          nb::kw_only(), nb::arg("out") = nb::none());
  const auto order = [](const Tensor& input, I dim, bool descending, bool stable, Tensor* out) {
    return maybe_into(
        out, [&] { return argsort(input, dim, descending, stable); },
        [&](Tensor& result) { argsort_out(result, input, dim, descending, stable); });
  };
  both_as(tensor, m, "argsort",
          std::string("dim: int = -1, descending: bool = False, stable: bool = False, *, ") + kOut,
          order, "The indices of sort alone.", nb::arg("dim") = -1, nb::arg("descending") = false,
          nb::arg("stable") = false, nb::kw_only(), nb::arg("out") = nb::none());
}

}  // namespace

void bind_reductions(nb::class_<Tensor>& tensor, nb::module_& m) {
  define_sum(tensor, m, "sum", EMBER_CALL(sum), EMBER_CALL(sum_out),
             "The sum over dimensions, or of all elements; int64 for integers and bool.");
  define_sum(tensor, m, "prod", EMBER_CALL(prod), EMBER_CALL(prod_out),
             "The product over dimensions, or of all elements; int64 for integers and bool.");
  define_sum(tensor, m, "mean", EMBER_CALL(mean), EMBER_CALL(mean_out),
             "The mean over dimensions, or of all elements.");
  define_spread(tensor, m, "var", EMBER_CALL(var), EMBER_CALL(var_out),
                "The variance: squared distances from the mean over the count less correction.");
  define_spread(tensor, m, "std", EMBER_CALL(std), EMBER_CALL(std_out),
                "The square root of the variance.");
  define_spread_mean(m, "var_mean", EMBER_CALL(var_mean), "The variance and the mean.");
  define_spread_mean(m, "std_mean", EMBER_CALL(std_mean),
                     "The square root of the variance, and the mean.");
  const auto both_extremes = [type = ResultType(m, "torch.return_types.aminmax", "min", "max")](
                                 const Tensor& input, std::optional<I> dim, bool keepdim,
                                 nb::handle out) {
    return pair_into(
        type, out, [&] { return aminmax(input, dim, keepdim); },
        [&](Tensor& min, Tensor& max) { aminmax_out(min, max, input, dim, keepdim); },
        "min and max");
  };
  both_as(tensor, m, "aminmax",
          "*, dim: int | None = None, keepdim: bool = False, out: tuple[Tensor, Tensor] | None = "
          "None) -> tuple[Tensor, Tensor]",
          both_extremes, "The smallest and the largest element, along a dimension or of all.",
          nb::kw_only(), nb::arg("dim") = nb::none(), nb::arg("keepdim") = false,
          nb::arg("out") = nb::none());
  define_plain(tensor, m, "amax", EMBER_CALL(amax), EMBER_CALL(amax_out), "The largest element.");
  define_plain(tensor, m, "amin", EMBER_CALL(amin), EMBER_CALL(amin_out), "The smallest element.");
  define_truth(tensor, m, "any", EMBER_CALL(any), EMBER_CALL(any_out),
               "Whether any element is not zero.");
  define_truth(tensor, m, "all", EMBER_CALL(all), EMBER_CALL(all_out),
               "Whether all elements are not zero.");
  define_position(tensor, m, "argmax", EMBER_CALL(argmax), EMBER_CALL(argmax_out),
                  "Where the largest element is, along a dimension or among all.");
  define_position(tensor, m, "argmin", EMBER_CALL(argmin), EMBER_CALL(argmin_out),
                  "Where the smallest element is, along a dimension or among all.");
  const auto count = [](const Tensor& input, const MaybeDims& dim) {
    const DimList dims = dims_of(dim);
    return unlocked([&] { return count_nonzero(input, dims); });
  };
  both(tensor, m, "count_nonzero", count, "How many elements are not zero.",
       nb::arg("dim") = nb::none());
  tensor.def("count_nonzero", [](const Tensor& self, const nb::args& dims) {
    const Shape each = shape_of(dims, "dim");
    return unlocked([&] { return count_nonzero(self, each); });
  });
  define_extreme(
      tensor, m, "max", ResultType(m, "torch.return_types.max"), ops::OpId::maximum,
      EMBER_CALL(max), EMBER_CALL(max_out), EMBER_CALL(max), EMBER_CALL(max_out),
      "The largest of all elements; along a dimension with its position; of two tensors.");
  define_extreme(
      tensor, m, "min", ResultType(m, "torch.return_types.min"), ops::OpId::minimum,
      EMBER_CALL(min), EMBER_CALL(min_out), EMBER_CALL(min), EMBER_CALL(min_out),
      "The smallest of all elements; along a dimension with its position; of two tensors.");
  define_norm(tensor, m);
  define_median(tensor, m);
  define_sorting(tensor, m);
}

}  // namespace ember::python
