// What operations with several results return, and how results get into `out=`.
#pragma once

#include <utility>
#include <vector>

#include "python.h"

namespace ember::python {

/// A named tuple of two, such as torch.return_types.topk: values and indices.
class ResultType {
 public:
  /// Made once, at import; `name` is a literal. It is found in the module's `return_types`.
  ResultType(nb::module_& m, const char* name, const char* first = "values",
             const char* second = "indices");
  nb::object operator()(Tensor values, Tensor indices) const;
  nb::object operator()(nb::object values, nb::object indices) const;

 private:
  PyTypeObject* type_;
};

/// `make()` as a new tensor, or `into(out)` if an output is given.
template <class Make, class Into>
TensorObject maybe_into(Tensor* out, Make&& make, Into&& into) {
  if (out == nullptr) return nb::cast(unlocked(make));
  WarningsRaised warnings;  // that the output is resized
  unlocked([&] { into(*out); });
  warnings.raise();
  return same_object(*out);
}

/// The same for new tensors: the output's dtype and device are what `dtype=` and `device=` ask for,
/// where they are given.
template <class Make, class Into>
TensorObject made_or_into(Tensor* out, const Options& options, Make&& make, Into&& into) {
  if (out != nullptr) require_options_of(*out, options);
  return maybe_into(out, make, into);
}

/// Several tensors as a tuple.
inline nb::tuple tuple_of(std::vector<Tensor> tensors) {
  nb::list made;
  for (Tensor& tensor : tensors) made.append(std::move(tensor));
  return nb::tuple(made);
}

/// The dimensions that `dim=` names; all if it is None.
inline DimList dims_of(const std::optional<Sizes>& dim) {
  return dim ? DimList(dim->shape()) : DimList();
}

}  // namespace ember::python
